//! One file a subcommand. stdout is data, stderr is words; exit codes: 0 fine, 1 failed, 2 usage.

mod args;
mod bench;
mod client;
mod config;
mod demo;
mod devices;
mod doctor;
mod error;
pub mod fetch_bar;
mod inspect;
mod kernels;
mod logits;
mod models;
mod plan;
mod printable;
mod run;
mod screen;
mod start;
mod synth;
mod table;
mod template;
mod tokenize;

use clap::{Parser, Subcommand};

pub use error::CliError;

/// Chat with GGUF models and move their layers between devices while they answer.
#[derive(Parser)]
///
/// Without a command: choose a model and chat.
#[command(version, about, args_conflicts_with_subcommands = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    start: start::Args,
}

#[derive(Subcommand)]
enum Verb {
    /// Fetch the demo model if it is missing, then chat with it
    Demo(demo::Args),
    /// Chat with a model, line by line
    Chat(demo::ChatArgs),
    /// Answer one prompt
    Run(run::Args),
    /// Measure prefill, decode and live changes
    Bench(bench::Args),
    /// Say what a placement takes on each device, without loading
    Plan(plan::Args),
    /// List the model files on this machine, and whether they fit
    Models(models::Args),
    /// List devices
    Devices(devices::Args),
    /// Say what devices do, which libraries and rights were found, and what is missing
    Doctor(doctor::Args),
    /// Show what a GGUF file holds
    Inspect(inspect::Args),
    /// Turn text from stdin into token ids, or back
    Tokenize(tokenize::Args),
    /// Render a chat template
    Template(template::Args),
    /// Write the logits of given token ids
    Logits(logits::Args),
    /// Write a model of a real shape with random weights
    Synth(synth::Args),
    /// Compile GPU kernels ahead, list them, look at their cache
    Kernels(kernels::Args),
    /// Show where the configuration lies and what holds
    Config(config::Args),
}

/// Runs the command.
pub fn dispatch(cli: Cli) -> Result<(), CliError> {
    let Some(verb) = cli.verb else { return start::start(cli.start) };
    match verb {
        Verb::Demo(args) => demo::demo(args),
        Verb::Chat(args) => demo::chat(args),
        Verb::Run(args) => run::run(args),
        Verb::Bench(args) => bench::bench(args),
        Verb::Plan(args) => plan::plan(args),
        Verb::Models(args) => models::models(args),
        Verb::Devices(args) => devices::devices(args),
        Verb::Doctor(args) => doctor::doctor(args),
        Verb::Inspect(args) => inspect::inspect(args),
        Verb::Tokenize(args) => tokenize::tokenize(args),
        Verb::Template(args) => template::template(args),
        Verb::Logits(args) => logits::logits(args),
        Verb::Synth(args) => synth::synth(args),
        Verb::Kernels(args) => kernels::kernels(args),
        Verb::Config(args) => config::config(args),
    }
}

/// Log lines go to stderr where `LAYERCAKE_LOG` asks for them, e.g. `LAYERCAKE_LOG=debug`.
pub fn start_logging() {
    if let Ok(filter) = std::env::var("LAYERCAKE_LOG") {
        let filter = tracing_subscriber::EnvFilter::new(filter);
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
