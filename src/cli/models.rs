//! `layercake models`: the model files on this machine, and whether they fit.

use std::io::Write;

use serde_json::json;

use crate::cli::CliError;
use crate::cli::args::{DeviceArgs, SizeArgs};
use crate::cli::printable::printable;
use crate::cli::table::{Table, bytes};
use crate::devices::DeviceId;
use crate::engine::inventory::{Examined, Verdict, examine};
use crate::engine::model::Devices;
use crate::models::library::{LibraryEntry, LibraryRoots, scan};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    size: SizeArgs,
    #[command(flatten)]
    devices: DeviceArgs,
    #[arg(long)]
    json: bool,
}

pub fn models(args: Args) -> Result<(), CliError> {
    let devices = Devices(args.devices.open()?);
    let entries = scan(&LibraryRoots::of_user());
    let looked_at = entries.iter().map(|entry| (entry, examine(&entry.path, &devices, args.size.ctx, args.size.kv())));
    let mut out = std::io::stdout().lock();
    if args.json {
        let list: Vec<_> = looked_at.map(|(entry, examined)| to_json(entry, &examined)).collect();
        writeln!(out, "{}", serde_json::Value::from(list))?;
    } else if !entries.is_empty() {
        let mut table = Table::new(&["name", "size", "params", "quant", "arch", "context", "from", "here"]);
        let mut notes = vec![];
        for (entry, Examined { facts, verdict }) in looked_at {
            let of_facts = match &facts {
                Some(f) => [
                    short_count(f.n_params),
                    f.quant.clone(),
                    f.arch.clone(),
                    f.n_ctx_train.map_or("-".to_owned(), |n| n.to_string()),
                ],
                None => ["-"; 4].map(str::to_owned),
            };
            let of_entry = [entry.name.clone(), bytes(entry.file_bytes)];
            let cells = of_entry.into_iter().chain(of_facts).chain([entry.origin.label().to_owned(), words(&verdict)]);
            table.row(cells.map(|cell| printable(&cell)));
            if let Verdict::Unsupported { why } | Verdict::Unreadable { why } = &verdict {
                notes.push(format!("{}: {why}", entry.name));
            }
        }
        write!(out, "{table}")?;
        notes.iter().for_each(|note| eprintln!("note: {}", printable(note)));
    }
    if entries.is_empty() {
        eprintln!("no model files were found on this machine; `layercake demo` fetches a small one and chats with it");
    }
    Ok(())
}

/// A verdict in a table's cell.
fn words(verdict: &Verdict) -> String {
    let names = |ids: &[DeviceId]| ids.iter().map(DeviceId::to_string).collect::<Vec<_>>().join(" + ");
    match verdict {
        Verdict::Fits { on } => format!("fits on {on}"),
        Verdict::FitsSplit { over } => format!("fits split: {}", names(over)),
        Verdict::TooLarge { short_bytes } => format!("too large by {}", bytes(*short_bytes)),
        Verdict::Unsupported { .. } => "not supported".to_owned(),
        Verdict::Unreadable { .. } => "unreadable".to_owned(),
    }
}

fn to_json(entry: &LibraryEntry, examined: &Examined) -> serde_json::Value {
    let verdict = match &examined.verdict {
        Verdict::Fits { on } => json!({ "is": "fits", "devices": [on] }),
        Verdict::FitsSplit { over } => json!({ "is": "fits_split", "devices": over }),
        Verdict::TooLarge { short_bytes } => json!({ "is": "too_large", "short_bytes": short_bytes }),
        Verdict::Unsupported { why } => json!({ "is": "unsupported", "why": why }),
        Verdict::Unreadable { why } => json!({ "is": "unreadable", "why": why }),
    };
    json!({
        "name": entry.name,
        "path": entry.path.to_string_lossy(),
        "origin": entry.origin,
        "file_bytes": entry.file_bytes,
        "n_shards": entry.n_shards,
        "facts": examined.facts,
        "verdict": verdict,
    })
}

/// `1.2B`
fn short_count(n: u64) -> String {
    const UNITS: [&str; 5] = ["", "K", "M", "B", "T"];
    let (mut value, mut unit) = (n as f64, 0);
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { n.to_string() } else { format!("{value:.1}{}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_short() {
        assert_eq!([134_515_008, 8_030_000_000, 999, 0].map(short_count), ["134.5M", "8.0B", "999", "0"]);
    }
}
