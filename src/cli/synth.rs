//! `layercake synth`: a model of a real shape with random weights.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};

use crate::cli::CliError;
use crate::cli::table::bytes;
use crate::engine::synth::{self, SynthQuant, SynthShape};

#[derive(clap::Args)]
pub struct Args {
    /// Which model's shape, e.g. llama-3-1b; an unknown one lists those known
    shape: String,
    /// The file to write
    out: PathBuf,
    /// Type of the weights: Q4_K_M, Q8_0, F16, ...
    #[arg(long, default_value = "Q4_K_M")]
    quant: String,
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

pub fn synth(args: Args) -> Result<(), CliError> {
    let shape = SynthShape::from_name(&args.shape).map_err(|e| CliError::usage(e.to_string()))?;
    let quant = SynthQuant::from_name(&args.quant).map_err(|e| CliError::usage(e.to_string()))?;
    let interrupted = Arc::new(AtomicBool::new(false));
    let flag = interrupted.clone();
    ctrlc::set_handler(move || flag.store(true, Ordering::Relaxed))?;
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
    let style =
        ProgressStyle::with_template("writing {bar:30} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let report = synth::write(shape, quant, args.seed, &args.out, &mut |done, total| {
        bar.set_length(total);
        bar.set_position(done);
        if interrupted.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    bar.finish_and_clear();
    eprintln!(
        "{}: {} as {}, {} parameters, {} tensors, {}",
        args.out.display(),
        shape.name,
        quant.name(),
        report.n_params,
        report.n_tensors,
        bytes(report.file_bytes),
    );
    Ok(())
}
