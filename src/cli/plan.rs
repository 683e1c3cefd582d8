//! `layercake plan`: what a placement takes on each device and how fast it would be. Reads only the file's header.

use std::io::Write;

use serde_json::json;

use crate::cli::CliError;
use crate::cli::args::{DeviceArgs, ModelArgs};
use crate::cli::table::{Table, bytes};
use crate::engine::budget;
use crate::engine::forecast::{Basis, BottleneckAt, Forecast};
use crate::engine::model::{Devices, Model};
use crate::engine::protocol::LoadOptions;

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    devices: DeviceArgs,
    #[arg(long)]
    json: bool,
}

pub fn plan(args: Args) -> Result<(), CliError> {
    let options = args.model.load_options()?;
    let devices = Devices(args.devices.open()?);
    let model = Model::open(&options.path, options.n_ctx, LoadOptions::DEFAULT_CTX, options.kv)?;
    let plan = budget::plan_memory(&model, &devices, options.placement.as_deref())?;
    let fits = plan.fit.fits();
    let placement = plan.placement.to_string();
    let simulated = |id| devices.get(id).is_some_and(|d| d.facts().simulated);
    let mut out = std::io::stdout().lock();
    if args.json {
        let list: Vec<_> = plan
            .fit
            .devices
            .iter()
            .map(|d| {
                let speed = plan.forecast.devices.iter().find(|f| f.id == d.id);
                json!({
                    "id": d.id.to_string(),
                    "simulated": simulated(d.id),
                    "weights_bytes": d.weight_bytes,
                    "kv_bytes": d.kv_bytes,
                    "scratch_bytes": d.scratch_bytes,
                    "margin_bytes": d.margin_bytes,
                    "free_bytes": d.free_bytes,
                    "total_bytes": d.total_bytes,
                    "short_bytes": d.short_bytes,
                    "decode_ms": speed.map(|f| f.decode_ms),
                    "decode_share": speed.map(|f| f.decode_share),
                    "basis": speed.map(|f| f.basis.name()),
                })
            })
            .collect();
        let object = json!({
            "model": model.name(), "n_ctx": model.n_ctx, "kv": model.kv,
            "placement": placement, "fits": fits, "devices": list, "notes": plan.notes,
            "forecast": {
                "decode_tokens_per_s": plan.forecast.decode_tokens_per_s,
                "prefill_tokens_per_s": plan.forecast.prefill_tokens_per_s,
                "n_hops": plan.forecast.n_hops,
                "hop_ms": plan.forecast.hop_ms,
                "bottleneck": plan.forecast.bottleneck.at.to_string(),
                "bottleneck_share": plan.forecast.bottleneck.share,
                "basis": plan.forecast.basis().name(),
            },
        });
        writeln!(out, "{object}")?;
    } else {
        writeln!(out, "{}: context {}, {} KV cache", model.name(), model.n_ctx, model.kv)?;
        let mut table = Table::new(&["device", "weights", "KV", "scratch", "margin", "free now", "ms/token", ""]);
        for d in &plan.fit.devices {
            let verdict = match (d.short_bytes, d.is_used()) {
                (0, true) => "fits".to_owned(),
                (0, false) => "not used".to_owned(),
                (short, _) => format!("{} short", bytes(short)),
            };
            let speed = plan.forecast.devices.iter().find(|f| f.id == d.id);
            let sim = if simulated(d.id) { " SIM" } else { "" };
            table.row([
                format!("{}{sim}", d.id),
                bytes(d.weight_bytes),
                bytes(d.kv_bytes),
                bytes(d.scratch_bytes),
                bytes(d.margin_bytes),
                bytes(d.free_bytes),
                speed.map_or_else(String::new, |f| format!("{:.2}", f.decode_ms)),
                verdict,
            ]);
        }
        write!(out, "{table}")?;
        writeln!(out, "placement: {placement}")?;
        writeln!(out, "forecast: {}", forecast_text(&plan.forecast))?;
        plan.notes.iter().for_each(|note| eprintln!("note: {note}"));
    }
    out.flush()?;
    plan.fit.check()?;
    Ok(())
}

/// One line: rates, what is slowest, and what the figures rest on.
fn forecast_text(forecast: &Forecast) -> String {
    let basis = match forecast.basis() {
        Basis::Measured => "as measured",
        Basis::PartlyMeasured => "as measured in part",
        Basis::Rate => "from memory rates that are known",
        Basis::Assumed => "from memory rates that are assumed",
    };
    format!(
        "decode {:.1} tok/s, prefill {:.0} tok/s; {} take{} {:.0} % of a token's time ({basis})",
        forecast.decode_tokens_per_s,
        forecast.prefill_tokens_per_s,
        forecast.bottleneck.at,
        if forecast.bottleneck.at == BottleneckAt::Hops { "" } else { "s" },
        forecast.bottleneck.share * 100.0,
    )
}
