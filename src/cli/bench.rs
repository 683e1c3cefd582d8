//! `layercake bench`: prefill and decode rates for each placement, and what a live change costs.

use std::io::Write;

use clap::ValueEnum;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use crate::cli::CliError;
use crate::cli::args::{DeviceArgs, SizeArgs};
use crate::cli::client::{Client, Interrupts};
use crate::cli::table::{Table, bytes};
use crate::engine::protocol::{
    ChangeState, Command, Event, GenerateRequest, LoadOptions, ModelInfo, Prompt, StopReason, Summary, Timings, When,
};
use crate::engine::sampler::SamplerSettings;
use crate::models;

#[derive(clap::Args)]
pub struct Args {
    /// A GGUF file (any shard), a name in the model folder, or synth:SHAPE@QUANT (made, without a file)
    model: String,
    #[command(flatten)]
    size: SizeArgs,
    #[command(flatten)]
    devices: DeviceArgs,
    /// Prompt lengths to prefill; 0 for none
    #[arg(short = 'p', long = "prefill", value_delimiter = ',', default_value = "512")]
    prefill: Vec<u32>,
    /// Tokens to decode; 0 for none
    #[arg(short = 'n', long = "decode", value_delimiter = ',', default_value = "128")]
    decode: Vec<u32>,
    /// Tokens already in the cache when measuring starts
    #[arg(short = 'd', long = "depth", value_delimiter = ',', default_value = "0")]
    depth: Vec<u32>,
    /// Repetitions
    #[arg(short = 'r', long = "repeat", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Placement (can be given several times) [default: auto]
    #[arg(long)]
    place: Vec<String>,
    /// Measure a live change while tokens stream: 'P1 => P2'
    #[arg(long, value_name = "CHANGE")]
    repartition: Vec<String>,
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    #[arg(long)]
    csv: bool,
}

/// One measured thing.
#[derive(Serialize)]
struct Row {
    model: String,
    placement: String,
    test: String,
    n_prompt: u32,
    n_gen: u32,
    depth: u32,
    tokens_per_s: f64,
    tokens_per_s_std: f64,
    tokens_per_s_median: f64,
    samples: Vec<f64>,
    devices: Vec<DeviceRow>,
    hops_ms_per_step: f64,
}

/// Milliseconds per token, over all repetitions.
#[derive(Serialize)]
struct DeviceRow {
    id: String,
    busy_ms_per_token: f64,
    wait_ms_per_token: f64,
}

#[derive(Serialize)]
struct ChangeRow {
    model: String,
    from: String,
    to: String,
    n_past: u32,
    weight_bytes: u64,
    kv_bytes: u64,
    staging_ms: f64,
    staging_bytes_per_s: f64,
    stall_ms: f64,
    /// Stall of each repetition.
    samples: Vec<f64>,
    tokens_per_s_before: f64,
    tokens_per_s_after: f64,
}

#[derive(Clone, Copy, ValueEnum)]
enum Format {
    Table,
    Json,
    Csv,
}

pub fn bench(args: Args) -> Result<(), CliError> {
    let format = match (args.json, args.csv) {
        (true, _) => Format::Json,
        (_, true) => Format::Csv,
        _ => Format::Table,
    };
    let changes = args
        .repartition
        .iter()
        .map(|text| {
            let (from, to) = text
                .split_once("=>")
                .ok_or_else(|| CliError::usage(format!("--repartition '{text}': write 'PLACEMENT => PLACEMENT'")))?;
            Ok((from.trim().to_owned(), to.trim().to_owned()))
        })
        .collect::<Result<Vec<_>, CliError>>()?;
    let path = models::resolve(&args.model)?;
    let deepest = args.depth.iter().max().copied().unwrap_or(0);
    let longest = args.prefill.iter().chain(&args.decode).max().copied().unwrap_or(0);
    let needed_ctx = (deepest + longest + 1).max(args.prefill.iter().max().copied().unwrap_or(0) + CHANGE_TOKENS + 1);
    let n_ctx = args.size.ctx.unwrap_or(needed_ctx.next_multiple_of(256));
    let interrupts = Interrupts::install()?;
    let mut client = Client::start(&args.devices)?;
    interrupts.watch(client.commands());

    let mut rows = vec![];
    let mut change_rows = vec![];
    let placements: Vec<Option<String>> = match (&args.place[..], changes.is_empty()) {
        ([], true) => vec![None],
        (some, _) => some.iter().cloned().map(Some).collect(),
    };
    let options = |placement| LoadOptions { path: path.clone(), n_ctx: Some(n_ctx), kv: args.size.kv(), placement };
    for placement in placements {
        let info = client.load(options(placement))?;
        for &depth in &args.depth {
            let prefills = args.prefill.iter().filter(|n| **n > 0).map(|n| (*n, 0));
            let decodes = args.decode.iter().filter(|n| **n > 0).map(|n| (0, *n));
            for (n_prompt, n_gen) in prefills.chain(decodes) {
                rows.push(measure(&mut client, &info, n_prompt, n_gen, depth, args.repeat, &interrupts)?);
            }
        }
    }
    for (from, to) in &changes {
        let depth = args.prefill.first().copied().unwrap_or(0).max(1);
        let mut loaded = || client.load(options(Some(from.clone())));
        let info = loaded()?;
        change_rows.push(measure_change(&mut client, &info, from, to, depth, args.repeat, &interrupts)?);
    }
    print(format, &rows, &change_rows)
}

/// Tokens that stream around a measured change, on each side.
const CHANGE_TOKENS: u32 = 256;

/// Random ids: nothing that a cache or a repetition could make easier. Always the same ones.
fn random_ids(n: u32, n_vocab: u32, stream: u64) -> Vec<u32> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(0x6c61_7965_7263_616b);
    rng.set_stream(stream);
    (0..n).map(|_| rng.next_u32() % n_vocab.max(1)).collect()
}

fn request(ids: Vec<u32>, n_gen: u32, reuse_cache: bool) -> GenerateRequest {
    let sampling = SamplerSettings { temperature: 0.0, ..SamplerSettings::default() };
    let (stop, max_tokens) = (vec![], Some(n_gen));
    GenerateRequest { prompt: Prompt::Ids(ids), sampling, stop, max_tokens, ignore_eog: true, reuse_cache }
}

fn generate(client: &mut Client, request: GenerateRequest, interrupts: &Interrupts) -> Result<Summary, CliError> {
    let id = client.new_id();
    let mut summary = None;
    client.call(Command::Generate { id, request: Box::new(request) }, |event| {
        if let Event::Finished { summary: done, .. } = event {
            summary = Some(*done);
        }
    })?;
    let summary = summary.ok_or_else(|| CliError::failed("the engine did not say how the run ended"))?;
    if interrupts.was_pressed() || summary.stop == StopReason::Stopped {
        return Err(CliError::failed("interrupted"));
    }
    Ok(summary)
}

fn measure(
    client: &mut Client,
    info: &ModelInfo,
    n_prompt: u32,
    n_gen: u32,
    depth: u32,
    repeat: u32,
    interrupts: &Interrupts,
) -> Result<Row, CliError> {
    let before = random_ids(depth, info.n_vocab, 0);
    let mut samples = vec![];
    let mut total = Timings::default();
    let mut n_steps = 0.0;
    // One run more than asked for: the first one warms caches and is not counted.
    for i in 0..=repeat {
        // What lies before the measured part is computed here, and found in the cache there.
        if depth > 0 {
            generate(client, request(before.clone(), 0, true), interrupts)?;
        }
        let measured = if n_gen > 0 { 1 } else { n_prompt };
        let mut ids = before.clone();
        ids.extend(random_ids(measured, info.n_vocab, 1 + u64::from(i)));
        let summary = generate(client, request(ids, if n_gen > 0 { n_gen + 1 } else { 0 }, depth > 0), interrupts)?;
        let t = summary.timings;
        let (n, time) = if n_gen > 0 { (t.decode_tokens, t.decode) } else { (t.prefill_tokens, t.prefill) };
        if i > 0 {
            samples.push(n as f64 / time.as_secs_f64().max(1e-9));
            n_steps += n as f64;
            add(&mut total, &t);
        }
    }
    let test = if n_gen > 0 { format!("tg{n_gen}") } else { format!("pp{n_prompt}") };
    let test = if depth > 0 { format!("{test} @ d{depth}") } else { test };
    let devices = total
        .devices
        .iter()
        .map(|d| DeviceRow {
            id: d.id.to_string(),
            busy_ms_per_token: d.busy.as_secs_f64() * 1e3 / n_steps,
            wait_ms_per_token: d.wait.as_secs_f64() * 1e3 / n_steps,
        })
        .collect();
    let (mean, std, median) = spread(&samples);
    Ok(Row {
        model: info.name.clone(),
        placement: info.placement.clone(),
        test,
        n_prompt,
        n_gen,
        depth,
        tokens_per_s: mean,
        tokens_per_s_std: std,
        tokens_per_s_median: median,
        samples,
        devices,
        hops_ms_per_step: total.hops().as_secs_f64() * 1e3 / n_steps,
    })
}

fn add(total: &mut Timings, t: &Timings) {
    total.prefill_hops += t.prefill_hops;
    total.decode_hops += t.decode_hops;
    for device in &t.devices {
        match total.devices.iter_mut().find(|d| d.id == device.id) {
            Some(sum) => {
                sum.busy += device.busy;
                sum.wait += device.wait;
            }
            None => total.devices.push(*device),
        }
    }
}

/// Mean, standard deviation, median.
fn spread(samples: &[f64]) -> (f64, f64, f64) {
    let n = samples.len().max(1) as f64;
    let mean = samples.iter().sum::<f64>() / n;
    let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    };
    (mean, variance.sqrt(), median)
}

/// Asks for the change with `depth` tokens in the cache and tokens streaming; then back, so that it can be repeated.
fn measure_change(
    client: &mut Client,
    info: &ModelInfo,
    from: &str,
    to: &str,
    depth: u32,
    repeat: u32,
    interrupts: &Interrupts,
) -> Result<ChangeRow, CliError> {
    let mut row = ChangeRow {
        model: info.name.clone(),
        from: info.placement.clone(),
        to: to.to_owned(),
        n_past: depth,
        weight_bytes: 0,
        kv_bytes: 0,
        staging_ms: 0.0,
        staging_bytes_per_s: 0.0,
        stall_ms: 0.0,
        samples: vec![],
        tokens_per_s_before: 0.0,
        tokens_per_s_after: 0.0,
    };
    let rate = |t: &Timings| t.decode_tokens as f64 / t.decode.as_secs_f64().max(1e-9);
    let prompt = random_ids(depth, info.n_vocab, 0);
    let (mut staging, mut before, mut after) = (vec![], vec![], vec![]);
    for _ in 0..repeat {
        before.push(rate(&generate(client, request(prompt.clone(), CHANGE_TOKENS / 4, true), interrupts)?.timings));
        let there = change_while_streaming(client, &prompt, to, interrupts)?;
        if let ChangeState::Switched { placement, weight_bytes, kv_bytes, staging_ms, stall_ms } = there {
            (row.to, row.weight_bytes, row.kv_bytes) = (placement, weight_bytes, kv_bytes);
            staging.push(staging_ms);
            row.samples.push(stall_ms);
        }
        after.push(rate(&generate(client, request(prompt.clone(), CHANGE_TOKENS / 4, true), interrupts)?.timings));
        change_while_streaming(client, &prompt, from, interrupts)?;
    }
    row.staging_ms = spread(&staging).2;
    row.stall_ms = spread(&row.samples).2;
    row.staging_bytes_per_s = row.weight_bytes as f64 / (row.staging_ms / 1e3).max(1e-9);
    (row.tokens_per_s_before, row.tokens_per_s_after) = (spread(&before).2, spread(&after).2);
    Ok(row)
}

/// Streams tokens until the change has switched.
fn change_while_streaming(
    client: &mut Client,
    prompt: &[u32],
    to: &str,
    interrupts: &Interrupts,
) -> Result<ChangeState, CliError> {
    let change_id = client.new_id();
    let commands = client.commands();
    let (mut asked, mut end) = (false, None);
    let mut on_event = |event: Event| match event {
        Event::Token { .. } if !asked => {
            asked = true;
            let placement = to.to_owned();
            commands.send(Command::Repartition { id: change_id, placement, when: When::Now });
        }
        Event::Repartition { state, .. } if state.is_terminal() => end = Some(state),
        _ => {}
    };
    let id = client.new_id();
    let request = request(prompt.to_vec(), CHANGE_TOKENS, true);
    client.call(Command::Generate { id, request: Box::new(request) }, &mut on_event)?;
    // Staging that outlasts the answer switches when the model is idle.
    loop {
        if interrupts.was_pressed() {
            return Err(CliError::failed("interrupted"));
        }
        match end {
            Some(ChangeState::Refused { message } | ChangeState::Failed { message }) => {
                return Err(CliError::Failed(message));
            }
            Some(state) => return Ok(state),
            None => match client.next_event()? {
                Event::Repartition { state, .. } if state.is_terminal() => end = Some(state),
                Event::Failed { message, .. } => return Err(CliError::Failed(message)),
                _ => {}
            },
        }
    }
}

fn print(format: Format, rows: &[Row], changes: &[ChangeRow]) -> Result<(), CliError> {
    let mut out = std::io::stdout().lock();
    match format {
        Format::Json => {
            let object = serde_json::json!({ "results": rows, "repartitions": changes });
            writeln!(out, "{}", serde_json::to_string_pretty(&object)?)?;
        }
        Format::Csv => print_csv(&mut out, rows, changes)?,
        Format::Table => print_tables(&mut out, rows, changes)?,
    }
    Ok(out.flush()?)
}

fn print_csv(out: &mut impl Write, rows: &[Row], changes: &[ChangeRow]) -> std::io::Result<()> {
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    if !rows.is_empty() {
        writeln!(out, "model,placement,test,n_prompt,n_gen,depth,tokens_per_s,std,median,hops_ms_per_step,devices")?;
    }
    for row in rows {
        let devices: Vec<_> = row
            .devices
            .iter()
            .map(|d| format!("{} {:.4}+{:.4}", d.id, d.busy_ms_per_token, d.wait_ms_per_token))
            .collect();
        writeln!(
            out,
            "{},{},{},{},{},{},{:.3},{:.3},{:.3},{:.5},{}",
            quoted(&row.model),
            quoted(&row.placement),
            quoted(&row.test),
            row.n_prompt,
            row.n_gen,
            row.depth,
            row.tokens_per_s,
            row.tokens_per_s_std,
            row.tokens_per_s_median,
            row.hops_ms_per_step,
            quoted(&devices.join("; ")),
        )?;
    }
    if !changes.is_empty() {
        writeln!(out, "model,from,to,n_past,weight_bytes,kv_bytes,staging_ms,stall_ms,before,after")?;
    }
    for c in changes {
        writeln!(
            out,
            "{},{},{},{},{},{},{:.3},{:.3},{:.3},{:.3}",
            quoted(&c.model),
            quoted(&c.from),
            quoted(&c.to),
            c.n_past,
            c.weight_bytes,
            c.kv_bytes,
            c.staging_ms,
            c.stall_ms,
            c.tokens_per_s_before,
            c.tokens_per_s_after,
        )?;
    }
    Ok(())
}

fn print_tables(out: &mut impl Write, rows: &[Row], changes: &[ChangeRow]) -> std::io::Result<()> {
    if !rows.is_empty() {
        let mut table =
            Table::new(&["placement", "test", "tok/s", "median", "device ms/token (busy + wait)", "hop ms"]);
        for row in rows {
            let devices: Vec<_> = row
                .devices
                .iter()
                .map(|d| format!("{} {:.3} + {:.3}", d.id, d.busy_ms_per_token, d.wait_ms_per_token))
                .collect();
            table.row([
                row.placement.clone(),
                row.test.clone(),
                format!("{:.2} ± {:.2}", row.tokens_per_s, row.tokens_per_s_std),
                format!("{:.2}", row.tokens_per_s_median),
                devices.join(", "),
                format!("{:.4}", row.hops_ms_per_step),
            ]);
        }
        write!(out, "{table}")?;
    }
    if !changes.is_empty() {
        let head =
            ["from", "to", "cached", "weights", "KV", "staged ms", "weights/s", "stall ms", "tok/s before", "after"];
        let mut table = Table::new(&head);
        for c in changes {
            table.row([
                c.from.clone(),
                c.to.clone(),
                c.n_past.to_string(),
                bytes(c.weight_bytes),
                bytes(c.kv_bytes),
                format!("{:.1}", c.staging_ms),
                bytes(c.staging_bytes_per_s as u64),
                format!("{:.2}", c.stall_ms),
                format!("{:.2}", c.tokens_per_s_before),
                format!("{:.2}", c.tokens_per_s_after),
            ]);
        }
        write!(out, "{table}")?;
    }
    Ok(())
}
