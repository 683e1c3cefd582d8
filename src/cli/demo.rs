//! `layercake demo` and `layercake chat`: a conversation, on the screen or line by line.

use std::io::{IsTerminal, Write};
use std::path::Path;

use rustyline::error::ReadlineError;

use crate::cli::CliError;
use crate::cli::args::{ModelArgs, SizeArgs, seed_from_time};
use crate::cli::client::{Client, Interrupts};
use crate::cli::printable::printable;
use crate::cli::screen::{self, ScreenArgs, Wishes};
use crate::cli::{fetch_bar, run};
use crate::devices::cpu::matmul::ActivationFormat;
use crate::engine::protocol::{
    ChangeState, ChatMessage, Command, Event, GenerateRequest, LoadOptions, Prompt, StopReason, Summary, When,
};
use crate::engine::sampler::SamplerSettings;
use crate::models;
use crate::ui::state::ChatSettings;

#[derive(clap::Args)]
pub struct Args {
    /// Only fetch the model
    #[arg(long)]
    fetch_only: bool,
    #[command(flatten)]
    size: SizeArgs,
    /// Placement, e.g. 'cpu0=embed,0-19; cpu1=20-29,head' [default: auto]
    #[arg(long)]
    place: Option<String>,
    #[command(flatten)]
    rest: ConversationArgs,
}

#[derive(clap::Args)]
pub struct ChatArgs {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    rest: ConversationArgs,
}

#[derive(clap::Args)]
struct ConversationArgs {
    #[command(flatten)]
    screen: ScreenArgs,
    /// Line by line instead of the full screen, as also when input or output is no terminal
    #[arg(long)]
    plain: bool,
}

/// A model this small is easily thrown off: unless asked otherwise, the demo computes exactly and takes the likeliest
/// token.
pub fn demo(mut args: Args) -> Result<(), CliError> {
    args.rest.screen.devices.activations.get_or_insert(ActivationFormat::F32);
    args.rest.screen.sampling.temp.get_or_insert(0.0);
    let path = fetch_bar::fetch_demo()?;
    if args.fetch_only {
        writeln!(std::io::stdout(), "{}", path.display())?;
        return Ok(());
    }
    converse(&path, &args.size, args.place.as_deref(), &args.rest)
}

pub fn chat(args: ChatArgs) -> Result<(), CliError> {
    let path = models::resolve(&args.model.model)?;
    converse(&path, &args.model.size, args.model.place.as_deref(), &args.rest)
}

/// On the screen where there is one, else line by line.
fn converse(path: &Path, size: &SizeArgs, place: Option<&str>, args: &ConversationArgs) -> Result<(), CliError> {
    let wishes = Wishes::new(&args.screen, size, place)?;
    if args.plain || !screen::has_terminal() {
        return by_lines(path, &wishes);
    }
    let start = wishes.load(path);
    screen::open(wishes, start)
}

const HELP: &str = "\
/move PLACEMENT   move layers before the next answer, e.g. /move cpu1=20-29
/now PLACEMENT    move layers at once
/where            say where the layers are
/new              start a new conversation
/help             this list
/quit             end (also Ctrl-D); Ctrl-C stops an answer";

/// What a line asks for.
enum Line<'a> {
    Say(&'a str),
    Move { placement: &'a str, when: When },
    Where,
    New,
    Help,
    Quit,
    Unknown(&'a str),
    Nothing,
}

fn parse_line(line: &str) -> Line<'_> {
    let line = line.trim();
    let Some(command) = line.strip_prefix('/') else {
        return if line.is_empty() { Line::Nothing } else { Line::Say(line) };
    };
    let (word, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    match word {
        "move" => Line::Move { placement: rest.trim(), when: When::NextPrefill },
        "now" => Line::Move { placement: rest.trim(), when: When::Now },
        "where" => Line::Where,
        "new" => Line::New,
        "help" | "?" => Line::Help,
        "quit" | "exit" | "q" => Line::Quit,
        _ => Line::Unknown(word),
    }
}

/// Lines from a terminal with editing and history, or plain lines from a pipe.
enum Input {
    Editor(Box<rustyline::DefaultEditor>),
    Pipe(std::io::Lines<std::io::StdinLock<'static>>),
}

impl Input {
    fn open() -> Result<Input, CliError> {
        if std::io::stdin().is_terminal() {
            Ok(Input::Editor(Box::new(rustyline::DefaultEditor::new()?)))
        } else {
            Ok(Input::Pipe(std::io::stdin().lines()))
        }
    }

    /// `None` at the end.
    fn next(&mut self) -> Result<Option<String>, CliError> {
        match self {
            Input::Editor(editor) => match editor.readline("> ") {
                Ok(line) => {
                    // History is a comfort: failing to keep a line is no reason to stop.
                    let _ = editor.add_history_entry(&line);
                    Ok(Some(line))
                }
                Err(ReadlineError::Eof | ReadlineError::Interrupted) => Ok(None),
                Err(error) => Err(error.into()),
            },
            Input::Pipe(lines) => Ok(lines.next().transpose()?),
        }
    }
}

struct Conversation<'a> {
    client: Client,
    interrupts: Interrupts,
    settings: &'a ChatSettings,
    messages: Vec<ChatMessage>,
    placement: String,
}

fn by_lines(path: &Path, wishes: &Wishes) -> Result<(), CliError> {
    let interrupts = Interrupts::install()?;
    wishes.warnings.iter().for_each(|warning| eprintln!("note: {}", printable(warning)));
    let mut client = Client::start(&wishes.devices)?;
    let settings = &wishes.settings;
    let info = client.load(LoadOptions {
        path: path.to_owned(),
        n_ctx: settings.n_ctx,
        kv: settings.kv,
        placement: wishes.config.place.clone(),
    })?;
    eprintln!("{} ({}, {} layers) on {}", info.name, info.arch, info.n_layer, info.placement);
    eprintln!("context {} tokens, loaded in {:.0} ms. /help lists commands.", info.n_ctx, info.load_ms);
    let mut conversation = Conversation { client, interrupts, settings, messages: vec![], placement: info.placement };
    conversation.restart();
    let mut input = Input::open()?;
    while let Some(line) = input.next()? {
        match parse_line(&line) {
            Line::Say(text) => conversation.say(text)?,
            Line::Move { placement, when } => conversation.change(placement, when)?,
            Line::Where => eprintln!("{}", conversation.placement),
            Line::New => conversation.restart(),
            Line::Help => eprintln!("{HELP}"),
            Line::Quit => break,
            Line::Unknown(word) => eprintln!("there is no command /{word}; /help lists them"),
            Line::Nothing => {}
        }
    }
    Ok(())
}

impl Conversation<'_> {
    fn restart(&mut self) {
        self.messages = self
            .settings
            .system
            .iter()
            .map(|text| ChatMessage { role: "system".into(), content: text.clone() })
            .collect();
    }

    fn say(&mut self, text: &str) -> Result<(), CliError> {
        self.messages.push(ChatMessage { role: "user".into(), content: text.into() });
        let request = GenerateRequest {
            prompt: Prompt::Chat(self.messages.clone()),
            sampling: SamplerSettings {
                seed: self.settings.seed.unwrap_or_else(seed_from_time),
                ..self.settings.sampling.clone()
            },
            stop: vec![],
            max_tokens: self.settings.max_tokens,
            ignore_eog: false,
            reuse_cache: true,
        };
        let id = self.client.new_id();
        self.interrupts.watch(self.client.commands());
        let mut summary: Option<Summary> = None;
        let mut written = Ok(());
        let placement = &mut self.placement;
        let result = self.client.call(Command::Generate { id, request: Box::new(request) }, |event| match event {
            Event::Token { text, .. } if written.is_ok() => {
                let mut out = std::io::stdout().lock();
                written = out.write_all(printable(&text).as_bytes()).and_then(|()| out.flush());
            }
            Event::Finished { summary: done, .. } => summary = Some(*done),
            Event::Repartition { state, .. } => show_change(&state, placement),
            _ => {}
        });
        self.interrupts.unwatch();
        written?;
        writeln!(std::io::stdout())?;
        match (result, summary) {
            (Ok(()), Some(summary)) => {
                eprintln!("[{}]", run::figures(&summary));
                if summary.stop == StopReason::Context {
                    eprintln!("the context is full: /new starts a new conversation, --ctx makes it larger");
                }
                self.messages.push(ChatMessage { role: "assistant".into(), content: summary.text });
            }
            (Err(CliError::Failed(message)), _) => {
                eprintln!("error: {message}");
                self.messages.pop();
            }
            (Err(error), _) => return Err(error),
            (Ok(()), None) => {}
        }
        Ok(())
    }

    /// Asks for a change. One that waits for the next prefill is left staged.
    fn change(&mut self, placement: &str, when: When) -> Result<(), CliError> {
        let id = self.client.new_id();
        self.client.commands().send(Command::Repartition { id, placement: placement.into(), when });
        loop {
            let event = self.client.next_event()?;
            match event {
                Event::Failed { message, id: failed } if failed == id => {
                    eprintln!("error: {message}");
                    return Ok(());
                }
                Event::Repartition { state, id: changed } => {
                    show_change(&state, &mut self.placement);
                    let waits = when == When::NextPrefill && matches!(state, ChangeState::Ready { .. });
                    if changed == id && (waits || state.is_terminal()) {
                        return Ok(());
                    }
                }
                _ => {}
            }
        }
    }
}

fn show_change(state: &ChangeState, placement: &mut String) {
    let mib = |n: u64| n as f64 / (1 << 20) as f64;
    match state {
        ChangeState::Checked { n_moves, move_bytes } => {
            eprintln!("moving {n_moves} parts, {:.1} MiB", mib(*move_bytes));
        }
        ChangeState::Reserved { .. } | ChangeState::Staging { .. } => {}
        ChangeState::Ready { staging_ms } => eprintln!("staged in {staging_ms:.0} ms"),
        ChangeState::Switched { placement: now, kv_bytes, stall_ms, .. } => {
            eprintln!("now {now}; {:.1} MiB of KV moved, stalled {stall_ms:.2} ms", mib(*kv_bytes));
            placement.clone_from(now);
        }
        ChangeState::Refused { message } => eprintln!("not possible: {message}"),
        ChangeState::Cancelled => eprintln!("the change was cancelled"),
        ChangeState::Failed { message } => eprintln!("the change failed, the old placement stands: {message}"),
    }
}
