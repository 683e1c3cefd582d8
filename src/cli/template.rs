//! `layercake template`: a rendered prompt.

use std::io::Write;
use std::path::{Path, PathBuf};

use chrono::NaiveDateTime;
use serde_json::{Map, Value};

use crate::cli::CliError;
use crate::engine::gguf::Gguf;
use crate::engine::template::{ChatTemplate, Given, RenderInput};
use crate::engine::text;
use crate::models;

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("source").required(true).args(["model", "jinja"]))]
pub struct Args {
    /// A GGUF file (any shard), a name in the model folder, or synth:SHAPE@QUANT (made, without a file)
    model: Option<String>,
    /// A template file instead of a model's
    #[arg(long)]
    jinja: Option<PathBuf>,
    /// JSON file: the list of messages
    #[arg(long)]
    messages: PathBuf,
    /// JSON file: the list of tools
    #[arg(long)]
    tools: Option<PathBuf>,
    /// JSON object: further variables for the template
    #[arg(long, default_value = "{}")]
    kwargs: String,
    /// Do not open the assistant's turn
    #[arg(long)]
    no_generation_prompt: bool,
    /// The time that the template sees, e.g. 2026-01-15T12:00 [default: now]
    #[arg(long, value_parser = parse_time)]
    now: Option<NaiveDateTime>,
    /// BOS text for --jinja
    #[arg(long, default_value = "<s>", requires = "jinja")]
    bos: String,
    /// EOS text for --jinja
    #[arg(long, default_value = "</s>", requires = "jinja")]
    eos: String,
}

pub fn template(args: Args) -> Result<(), CliError> {
    let template = match (&args.jinja, &args.model) {
        (Some(path), _) => ChatTemplate::new(&read(path)?, &args.bos, &args.eos)?,
        (None, Some(model)) => {
            let gguf = Gguf::open(&models::resolve(model)?)?;
            let loaded = text::template(&gguf, text::tokenizer(&gguf).ok().as_ref())?;
            if let Some(notice) = loaded.notice {
                eprintln!("note: {notice}");
            }
            loaded.template
        }
        (None, None) => return Err(CliError::usage("give a model or --jinja FILE")),
    };
    let messages = read_json(&args.messages)?;
    let tools = args.tools.as_deref().map(read_json).transpose()?;
    let kwargs: Map<String, Value> = serde_json::from_str(&args.kwargs)
        .map_err(|e| CliError::usage(format!("--kwargs is not a JSON object: {e}")))?;
    let input = RenderInput {
        messages: &messages,
        tools: tools.as_ref().map_or(Given::Null, Given::Value),
        documents: Given::Null,
        add_generation_prompt: !args.no_generation_prompt,
        kwargs: &kwargs,
        now: args.now.unwrap_or_else(|| chrono::Local::now().naive_local()),
    };
    let mut out = std::io::stdout().lock();
    out.write_all(template.render(&input)?.as_bytes())?;
    Ok(out.flush()?)
}

fn parse_time(text: &str) -> Result<NaiveDateTime, String> {
    ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M"]
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
        .ok_or_else(|| format!("'{text}' is not a time such as 2026-01-15T12:00"))
}

fn read(path: &Path) -> Result<String, CliError> {
    std::fs::read_to_string(path).map_err(|e| CliError::failed(format!("cannot read {}: {e}", path.display())))
}

fn read_json(path: &Path) -> Result<Value, CliError> {
    serde_json::from_str(&read(path)?).map_err(|e| CliError::failed(format!("{} is not JSON: {e}", path.display())))
}
