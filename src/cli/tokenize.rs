//! `layercake tokenize`: text to ids and back.

use std::io::{Read, Write};

use crate::cli::CliError;
use crate::cli::args::parse_ids;
use crate::engine::model::open_gguf;
use crate::engine::text::tokenizer;
use crate::engine::tokenizer::{DecodeOptions, EncodeOptions};
use crate::models;

#[derive(clap::Args)]
pub struct Args {
    /// A GGUF file (any shard), a name in the model folder, or synth:SHAPE@QUANT (made, without a file)
    model: String,
    /// Add no BOS or EOS
    #[arg(long)]
    no_special: bool,
    /// Special tokens in the text stay text
    #[arg(long)]
    no_parse_special: bool,
    /// Turn ids (a JSON array or 1,2,3 on stdin) into text
    #[arg(long)]
    decode: bool,
}

pub fn tokenize(args: Args) -> Result<(), CliError> {
    let path = models::resolve(&args.model)?;
    let tokenizer = tokenizer(&open_gguf(&path)?)?;
    let mut input = vec![];
    std::io::stdin().read_to_end(&mut input)?;
    let text = String::from_utf8(input)
        .map_err(|e| CliError::failed(format!("the input is not UTF-8 (byte {})", e.utf8_error().valid_up_to())))?;
    let mut out = std::io::stdout().lock();
    if args.decode {
        let ids = parse_ids(&text).map_err(CliError::Failed)?;
        let options = DecodeOptions { show_special: true, ..DecodeOptions::default() };
        // Bytes as they are: tokens may end within a character.
        out.write_all(&tokenizer.decode_bytes(&ids, options)?)?;
        return Ok(out.flush()?);
    }
    let options = EncodeOptions { add_special: !args.no_special, parse_special: !args.no_parse_special };
    let ids = tokenizer.encode(&text, options);
    writeln!(out, "{}", serde_json::to_string(&ids)?)?;
    Ok(())
}
