//! `layercake devices`: what there is to compute with.

use std::io::Write;

use serde_json::json;

use crate::cli::CliError;
use crate::cli::args::DeviceArgs;
use crate::cli::table::{Table, bytes};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    devices: DeviceArgs,
    #[arg(long)]
    json: bool,
}

pub fn devices(args: Args) -> Result<(), CliError> {
    let devices = args.devices.open()?;
    let mut out = std::io::stdout().lock();
    if args.json {
        let list: Vec<_> = devices
            .iter()
            .map(|device| {
                let (facts, memory) = (device.facts(), device.memory());
                json!({
                    "id": facts.id.to_string(),
                    "kind": facts.id.kind.name(),
                    "name": facts.name,
                    "simulated": facts.simulated,
                    "threads": facts.n_threads,
                    "total_bytes": memory.total_bytes,
                    "free_bytes": memory.free_bytes,
                    "memory_bytes_per_s": facts.memory_bytes_per_s,
                    "link_bytes_per_s": facts.link_bytes_per_s,
                })
            })
            .collect();
        writeln!(out, "{}", serde_json::Value::from(list))?;
        return Ok(());
    }
    let mut table = Table::new(&["id", "name", "threads", "memory", "free"]);
    for device in &devices {
        let (facts, memory) = (device.facts(), device.memory());
        let label = if facts.simulated { "SIM " } else { "" };
        table.row([
            facts.id.to_string(),
            format!("{label}{}", facts.name),
            facts.n_threads.to_string(),
            bytes(memory.total_bytes),
            bytes(memory.free_bytes),
        ]);
    }
    write!(out, "{table}")?;
    Ok(())
}
