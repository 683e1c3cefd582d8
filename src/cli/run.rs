//! `layercake run`: one streamed answer.

use std::io::{IsTerminal, Read, Write};
use std::path::PathBuf;

use serde_json::json;

use crate::cli::CliError;
use crate::cli::args::{DeviceArgs, ModelArgs, SamplingArgs, parse_ids};
use crate::cli::client::{Client, Interrupts};
use crate::cli::printable::printable;
use crate::engine::protocol::{
    ChangeState, ChatMessage, Command, Event, GenerateRequest, Prompt, RequestId, Summary, Timings, When,
};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    devices: DeviceArgs,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// The prompt [default: stdin]
    #[arg(long, short = 'p', conflicts_with_all = ["file", "ids"])]
    prompt: Option<String>,
    /// Read the prompt from a file
    #[arg(long, short = 'f', conflicts_with = "ids")]
    file: Option<PathBuf>,
    /// The prompt as token ids, e.g. 1,2,3: computed as they are
    #[arg(long)]
    ids: Option<String>,
    /// Give the model the text as it is, without the chat template
    #[arg(long, conflicts_with = "system")]
    raw: bool,
    /// System message
    #[arg(long)]
    system: Option<String>,
    /// Most tokens to generate [default: until the model ends or the context is full]
    #[arg(short = 'n', long = "max-tokens")]
    n: Option<u32>,
    /// End the answer before this text (can be given several times)
    #[arg(long)]
    stop: Vec<String>,
    /// Print one JSON object at the end instead of streaming text
    #[arg(long)]
    json: bool,
    /// Change the placement while the answer streams
    #[arg(long, value_name = "PLACEMENT", requires = "at")]
    repartition: Option<String>,
    /// Ask for the change after this many generated tokens
    #[arg(long, requires = "repartition")]
    at: Option<u32>,
    /// Switch at the next token instead of before the next prefill
    #[arg(long, requires = "repartition")]
    now: bool,
}

/// A change that `--repartition` asks for, and what became of it.
struct PlannedChange {
    placement: String,
    at: u32,
    when: When,
    sent: bool,
    states: Vec<ChangeState>,
}

impl PlannedChange {
    /// Whether nothing more will come of it without another prompt.
    fn is_settled(&self) -> bool {
        !self.sent
            || self.states.last().is_some_and(|state| {
                state.is_terminal() || (self.when == When::NextPrefill && matches!(state, ChangeState::Ready { .. }))
            })
    }
}

const CHANGE_ID: RequestId = RequestId(1 << 32);

pub fn run(args: Args) -> Result<(), CliError> {
    let interrupts = Interrupts::install()?;
    let sampling = args.sampling.settings()?;
    let options = args.model.load_options()?;
    let prompt = read_prompt(&args)?;
    let mut client = Client::start(&args.devices)?;
    let info = client.load(options)?;
    eprintln!("{} on {}, context {}, loaded in {:.0} ms", info.name, info.placement, info.n_ctx, info.load_ms);

    let request = GenerateRequest {
        prompt,
        sampling,
        stop: args.stop.clone(),
        max_tokens: args.n,
        ignore_eog: false,
        reuse_cache: true,
    };
    let mut change = args.repartition.clone().map(|placement| PlannedChange {
        placement,
        at: args.at.unwrap_or(0),
        when: if args.now { When::Now } else { When::NextPrefill },
        sent: false,
        states: vec![],
    });
    let (prompt_ids, summary) = generate(&mut client, request, &mut change, &interrupts, !args.json)?;

    if args.json {
        let mut object = json!({
            "prompt_ids": prompt_ids,
            "ids": summary.ids,
            "text": summary.text,
            "stop": summary.stop,
            "timings": timings_json(&summary.timings),
        });
        if let Some(change) = &change {
            object["repartition"] = json!(change.states);
        }
        writeln!(std::io::stdout(), "{object}")?;
    } else {
        writeln!(std::io::stdout())?;
        eprintln!("{}", figures(&summary));
    }
    match change.and_then(|c| c.states.into_iter().next_back()) {
        Some(ChangeState::Refused { message } | ChangeState::Failed { message }) => {
            Err(CliError::Failed(format!("the placement was not changed: {message}")))
        }
        _ => Ok(()),
    }
}

fn read_prompt(args: &Args) -> Result<Prompt, CliError> {
    if let Some(ids) = &args.ids {
        return Ok(Prompt::Ids(parse_ids(ids).map_err(CliError::Usage)?));
    }
    let text = match (&args.prompt, &args.file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => std::fs::read_to_string(path)
            .map_err(|e| CliError::failed(format!("cannot read the prompt from {}: {e}", path.display())))?,
        (None, None) => {
            if std::io::stdin().is_terminal() {
                eprintln!("type the prompt, then Ctrl-D:");
            }
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
    };
    if text.is_empty() {
        return Err(CliError::failed("the prompt is empty: give it with -p, -f, --ids or on stdin"));
    }
    if args.raw {
        return Ok(Prompt::Text(text));
    }
    let message = |role: &str, content: String| ChatMessage { role: role.into(), content };
    let system = args.system.clone().map(|text| message("system", text));
    Ok(Prompt::Chat(system.into_iter().chain([message("user", text)]).collect()))
}

/// Runs one generation, streaming its text to stdout where `stream`, and the change in it.
fn generate(
    client: &mut Client,
    request: GenerateRequest,
    change: &mut Option<PlannedChange>,
    interrupts: &Interrupts,
    stream: bool,
) -> Result<(Vec<u32>, Summary), CliError> {
    let id = client.new_id();
    let commands = client.commands();
    interrupts.watch(commands.clone());
    let (mut prompt_ids, mut summary, mut written) = (vec![], None, Ok(()));
    let (mut n_tokens, mut n_written) = (0, 0);
    client.call(Command::Generate { id, request: Box::new(request) }, |event| match event {
        Event::PrefillStarted { prompt_ids: ids, .. } => prompt_ids = ids,
        Event::Token { text, .. } => {
            n_tokens += 1;
            if stream && written.is_ok() {
                written = write_now(&text);
                n_written += text.len();
                if written.is_err() {
                    commands.send(Command::Stop { id: RequestId(u64::MAX - 1) });
                }
            }
            if let Some(change) = change.as_mut().filter(|c| !c.sent && n_tokens >= c.at) {
                change.sent = true;
                let (placement, when) = (change.placement.clone(), change.when);
                commands.send(Command::Repartition { id: CHANGE_ID, placement, when });
            }
        }
        Event::Finished { summary: done, .. } => {
            // Text that was held back as the beginning of a stop text came with no token when the answer was stopped.
            if stream && written.is_ok() {
                written = write_now(done.text.get(n_written..).unwrap_or_default());
            }
            summary = Some(*done);
        }
        Event::Repartition { state, .. } => note_change(change, state),
        _ => {}
    })?;
    written?;
    while change.as_ref().is_some_and(|c| !c.is_settled()) {
        if let Event::Repartition { state, .. } = client.next_event()? {
            note_change(change, state);
        }
    }
    interrupts.unwatch();
    let summary = summary.ok_or_else(|| CliError::failed("the engine did not say how the answer ended"))?;
    Ok((prompt_ids, summary))
}

/// As it is for programs, harmless for a terminal.
fn write_now(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if out.is_terminal() {
        out.write_all(printable(text).as_bytes())?;
    } else {
        out.write_all(text.as_bytes())?;
    }
    out.flush()
}

fn note_change(change: &mut Option<PlannedChange>, state: ChangeState) {
    let Some(change) = change else { return };
    match &state {
        ChangeState::Switched { placement, weight_bytes, kv_bytes, staging_ms, stall_ms } => eprintln!(
            "\nplacement is now {placement} ({:.1} MiB of weights, {:.1} MiB of KV; staged in {staging_ms:.0} ms, stalled {stall_ms:.2} ms)",
            *weight_bytes as f64 / (1 << 20) as f64,
            *kv_bytes as f64 / (1 << 20) as f64,
        ),
        ChangeState::Ready { .. } if change.when == When::NextPrefill => {
            eprintln!("\nthe change is staged; it takes effect before the next prefill");
        }
        ChangeState::Checked { .. }
        | ChangeState::Reserved { .. }
        | ChangeState::Staging { .. }
        | ChangeState::Ready { .. }
        | ChangeState::Refused { .. }
        | ChangeState::Cancelled
        | ChangeState::Failed { .. } => {}
    }
    change.states.push(state);
}

pub fn timings_json(timings: &Timings) -> serde_json::Value {
    let ms = |d: std::time::Duration| d.as_secs_f64() * 1e3;
    let devices: Vec<_> = timings
        .devices
        .iter()
        .map(|d| {
            json!({
                "id": d.id.to_string(), "busy_ms": ms(d.busy), "wait_ms": ms(d.wait),
                "prefill_busy_ms": ms(d.prefill_busy), "decode_busy_ms": ms(d.decode_busy),
            })
        })
        .collect();
    json!({
        "prefill_tokens": timings.prefill_tokens,
        "prefill_ms": ms(timings.prefill),
        "decode_tokens": timings.decode_tokens,
        "decode_ms": ms(timings.decode),
        "devices": devices,
        "hops_ms": ms(timings.hops()),
        "hop_bytes": timings.hop_bytes(),
    })
}

/// One line about how fast an answer was.
pub fn figures(summary: &Summary) -> String {
    let t = &summary.timings;
    let rate = |n: usize, d: std::time::Duration| if d.is_zero() { 0.0 } else { n as f64 / d.as_secs_f64() };
    let devices: Vec<_> =
        t.devices.iter().map(|d| format!("{} {:.0} ms busy", d.id, d.busy.as_secs_f64() * 1e3)).collect();
    format!(
        "prefill {} tokens {:.1} tok/s · decode {} tokens {:.1} tok/s · {} · hops {:.1} ms · {}",
        t.prefill_tokens,
        rate(t.prefill_tokens, t.prefill),
        t.decode_tokens,
        rate(t.decode_tokens, t.decode),
        devices.join(", "),
        t.hops().as_secs_f64() * 1e3,
        serde_json::to_value(summary.stop).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default(),
    )
}
