//! `layercake config`: where the configuration lies and what holds.

use std::io::Write;

use crate::cli::CliError;
use crate::cli::printable::printable;
use crate::config::{self, Config};

#[derive(clap::Args)]
pub struct Args {
    /// Print only the path of the file
    #[arg(long, conflicts_with = "json")]
    path: bool,
    #[arg(long)]
    json: bool,
}

/// The path and what is wrong with the file go to stderr; the values that hold go to stdout.
pub fn config(args: Args) -> Result<(), CliError> {
    let path = config::path()?;
    let mut out = std::io::stdout().lock();
    if args.path {
        writeln!(out, "{}", path.display())?;
        return Ok(());
    }
    let (config, warnings) = Config::load(&path)?;
    let note = if path.exists() { "" } else { " (not there: these are the defaults)" };
    eprintln!("{}{note}", printable(&path.to_string_lossy()));
    for warning in warnings {
        eprintln!("warning: {warning}");
    }
    if args.json {
        writeln!(out, "{}", config.to_json())?;
    } else {
        write!(out, "{}", config.to_toml())?;
    }
    Ok(())
}
