//! `layercake inspect`: what a GGUF file holds.

use std::io::Write;

use serde_json::json;

use crate::cli::CliError;
use crate::cli::printable::printable;
use crate::cli::table::{Table, bytes};
use crate::engine::gguf::Value;
use crate::engine::model::open_gguf;
use crate::models;

#[derive(clap::Args)]
pub struct Args {
    /// A GGUF file (any shard), a name in the model folder, or synth:SHAPE@QUANT (made, without a file)
    model: String,
    /// List the tensors
    #[arg(long)]
    tensors: bool,
    /// Print the chat template only
    #[arg(long, conflicts_with_all = ["tensors", "json"])]
    template: bool,
    #[arg(long)]
    json: bool,
}

pub fn inspect(args: Args) -> Result<(), CliError> {
    let path = models::resolve(&args.model)?;
    let gguf = open_gguf(&path)?;
    let mut out = std::io::stdout().lock();
    if args.template {
        let Some(template) = gguf.metadata().opt_str("tokenizer.chat_template")? else {
            return Err(CliError::failed(format!("{} has no chat template", path.display())));
        };
        writeln!(out, "{}", printable(template))?;
        return Ok(());
    }
    let n_params: u64 = gguf.tensors().iter().map(|t| t.shape.n_elements()).sum();
    if args.json {
        let metadata: serde_json::Map<_, _> =
            gguf.metadata().iter().map(|(key, value)| (key.to_owned(), to_json(value))).collect();
        let mut object = json!({
            "path": path,
            "version": gguf.version(),
            "alignment": gguf.alignment(),
            "file_bytes": gguf.file_bytes(),
            "n_shards": gguf.paths().len(),
            "n_tensors": gguf.tensors().len(),
            "n_params": n_params,
            "metadata": metadata,
        });
        if args.tensors {
            let tensors: Vec<_> = gguf
                .tensors()
                .iter()
                .map(|t| {
                    json!({
                        "name": t.name, "shape": t.shape.dims(), "type": t.dtype.name(),
                        "shard": t.shard, "offset": t.offset, "n_bytes": t.n_bytes,
                    })
                })
                .collect();
            object["tensors"] = tensors.into();
        }
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(
        out,
        "{}: GGUF v{}, {} in {} file(s), {} tensors, {} parameters",
        path.display(),
        gguf.version(),
        bytes(gguf.file_bytes()),
        gguf.paths().len(),
        gguf.tensors().len(),
        n_params,
    )?;
    for (key, value) in gguf.metadata().iter() {
        writeln!(out, "{} = {}", printable(key), printable(&value.describe()))?;
    }
    if args.tensors {
        let mut table = Table::new(&["tensor", "shape", "type", "size"]);
        for t in gguf.tensors() {
            table.row([printable(&t.name), t.shape.to_string(), t.dtype.name().to_owned(), bytes(t.n_bytes)]);
        }
        writeln!(out)?;
        write!(out, "{table}")?;
    }
    Ok(())
}

/// Scalars and strings as they are; of an array its element type and length, because vocabularies are long.
fn to_json(value: &Value) -> serde_json::Value {
    match value {
        Value::Str(text) => return json!(text),
        Value::Bool(b) => return json!(b),
        _ => {}
    }
    if let Some(n) = value.as_integer() {
        return i64::try_from(n).map(|n| json!(n)).or_else(|_| u64::try_from(n).map(|n| json!(n))).unwrap_or_default();
    }
    match value.as_f32() {
        Some(x) => json!(x),
        None => json!(value.describe()),
    }
}
