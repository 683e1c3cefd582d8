//! From the command line and the configuration to the screen: opens devices, engine, sessions and telemetry, and runs it.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::cli::CliError;
use crate::cli::args::{DeviceArgs, SamplingArgs, SizeArgs, seed_from_time};
use crate::config::{self, Ascii, Colours, Config, Surroundings};
use crate::devices::telemetry::{Sampler, TelemetryConfig};
use crate::engine::inventory::examine;
use crate::engine::model::Devices;
use crate::engine::protocol::{Engine, LoadOptions, SamplerSettings};
use crate::models::{self, library::LibraryRoots, library::Origin};
use crate::sessions::{PromptHistory, SessionId, SessionState, SessionStore, now};
use crate::ui::effects::{Hands, Judge};
use crate::ui::keymap::{KeyChange, Keymap};
use crate::ui::picker::Picker;
use crate::ui::run::{Mailbox, News, run};
use crate::ui::state::{Beginning, ChatSettings, State};
use crate::ui::theme::ColourDepth;
use crate::ui::{Start, update};

/// What the screen can be started with, beside a model.
#[derive(clap::Args)]
pub struct ScreenArgs {
    #[command(flatten)]
    pub devices: DeviceArgs,
    #[command(flatten)]
    pub sampling: SamplingArgs,
    /// System message
    #[arg(long)]
    pub system: Option<String>,
    /// Most tokens of one answer
    #[arg(short = 'n', long = "max-tokens")]
    pub n: Option<u32>,
    /// Theme: dark, light, okabe-ito, mono, or one of the configuration
    #[arg(long)]
    pub theme: Option<String>,
}

/// Whether there is a terminal to draw on.
pub fn has_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// The configuration, with its warnings on stderr.
pub fn load_config() -> Result<(Config, Vec<String>), CliError> {
    let path = config::path().map_err(|e| CliError::failed(e.to_string()))?;
    let (config, warnings) = Config::load(&path).map_err(|e| CliError::failed(e.to_string()))?;
    Ok((config, warnings.into_iter().map(|w| format!("config.toml, line {}: {}", w.line, w.message)).collect()))
}

/// What the flags say, over what the configuration says.
pub struct Wishes {
    pub config: Config,
    pub warnings: Vec<String>,
    pub settings: ChatSettings,
    pub devices: DeviceArgs,
}

impl Wishes {
    pub fn new(args: &ScreenArgs, size: &SizeArgs, place: Option<&str>) -> Result<Wishes, CliError> {
        let (mut config, warnings) = load_config()?;
        config.theme = args.theme.clone().unwrap_or(config.theme);
        config.place = place.map(str::to_owned).or(config.place);
        let base = SamplerSettings {
            temperature: config.sampling.temperature.unwrap_or(SamplerSettings::default().temperature),
            top_k: config.sampling.top_k,
            top_p: config.sampling.top_p,
            min_p: config.sampling.min_p,
            repeat_penalty: config.sampling.repeat_penalty,
            ..SamplerSettings::default()
        };
        let settings = ChatSettings {
            sampling: args.sampling.over(base)?,
            seed: args.sampling.seed.or(config.sampling.seed),
            system: args.system.clone().or(config.system.clone()),
            max_tokens: args.n.or(config.sampling.max_tokens),
            n_ctx: size.ctx.or(config.ctx),
            kv: size.kv.unwrap_or(config.kv),
        };
        let devices = DeviceArgs { threads: args.devices.threads.or(config.threads), ..args.devices.clone() };
        Ok(Wishes { config, warnings, settings, devices })
    }

    /// Loads this file.
    pub fn load(&self, path: &Path) -> Start {
        Start::Load(Box::new(LoadOptions {
            path: path.to_owned(),
            n_ctx: self.settings.n_ctx,
            kv: self.settings.kv,
            placement: self.config.place.clone(),
        }))
    }
}

/// The newest session, for `--resume`.
pub fn newest_session() -> Result<SessionId, CliError> {
    let failed = |e: crate::sessions::SessionError| CliError::failed(e.to_string());
    let store = SessionStore::of_user().map_err(failed)?;
    let newest = store.list().map_err(failed)?.sessions.into_iter().next();
    newest.map(|head| head.id).ok_or_else(|| CliError::failed("there is no session to resume yet"))
}

/// Runs the screen until the user quits.
pub fn open(wishes: Wishes, start: Start) -> Result<(), CliError> {
    let Wishes { config, mut warnings, settings, devices } = wishes;
    let opened = devices.open()?;
    let mut engine = Engine::start(opened.clone())?;
    let facts = engine.devices.clone();
    let mailbox = Mailbox::default();

    // Without a place to keep them, sessions are lost, and nothing else.
    let store = SessionStore::of_user().map_err(|e| warnings.push(e.to_string())).ok();
    let history = PromptHistory::of_user().map_err(|e| warnings.push(e.to_string())).ok();
    let telemetry = TelemetryConfig::default();
    let period = Duration::from_secs(1) / config.telemetry_hz.max(1);
    let sampler = Sampler::start(telemetry.clone(), period)?;
    let snapshots = sampler.subscribe();

    let changes = config.keys.iter().map(|k| KeyChange { action: &k.action, keys: &k.chords });
    let (keymap, key_warnings) = Keymap::new(changes);
    warnings.extend(key_warnings);
    let variable = |name: &str| std::env::var(name).ok();
    let (term, no_color) = (variable("TERM"), variable("NO_COLOR"));
    let depth = match config.colours {
        Colours::Auto => ColourDepth::detect(no_color.as_deref(), variable("COLORTERM").as_deref(), term.as_deref()),
        Colours::None => ColourDepth::None,
        Colours::Ansi16 => ColourDepth::Ansi16,
        Colours::Indexed256 => ColourDepth::Ansi256,
        Colours::True => ColourDepth::True,
    };
    let ascii = match config.ascii {
        Ascii::Always => true,
        Ascii::Never => false,
        Ascii::Auto => term.as_deref() == Some("linux") || !locale_is_utf8(variable),
    };
    let roots = LibraryRoots::of_user().with(Origin::Configured, config.models.iter().cloned());
    let judge: Judge = {
        let (devices, n_ctx, kv) = (Devices(opened), settings.n_ctx, settings.kv);
        Arc::new(move |path| examine(path, &devices, n_ctx, kv))
    };
    let clock = now();
    let mut state = State::new(Beginning {
        keymap,
        depth,
        ascii,
        settings,
        devices: &facts,
        session: SessionState::new(SessionId::new(clock), clock),
        picker: Picker::new(models::demo_path().ok()),
        history: history.as_ref().map(|h| h.prompts().to_vec()).unwrap_or_default(),
        seed: seed_from_time(),
        clock,
        config: config.clone(),
    });
    for text in warnings {
        update::warn(&mut state, text);
    }
    let effects = update::start(&mut state, start);
    let hands = Hands {
        engine: engine.commands(),
        post: mailbox.post(),
        store,
        writer: None,
        history,
        roots,
        judge,
        telemetry,
        sampler: Some(sampler),
        editor: config.editor.or_else(|| Surroundings::of_user().editor),
    };
    let news = News { events: engine.take_events(), stats: engine.stats.clone(), telemetry: snapshots };
    run(state, effects, mailbox, news, hands)?;
    Ok(())
}

/// As glibc reads it: the first of these that is set says it.
fn locale_is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(|name| variable(name).filter(|v| !v.is_empty()));
    match locale {
        Some(locale) => {
            let lower = locale.to_lowercase();
            lower.contains("utf-8") || lower.contains("utf8")
        }
        // Nothing is said: in a container as a rule, where the terminal outside knows UTF-8.
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_locale_says_whether_more_than_ascii_is_shown() {
        let is_utf8 = |given: &[(&str, &str)]| {
            locale_is_utf8(|name| given.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
        };
        assert!(is_utf8(&[("LANG", "de_DE.UTF-8")]));
        assert!(is_utf8(&[("LC_ALL", ""), ("LANG", "C.utf8")]));
        assert!(!is_utf8(&[("LC_ALL", "C"), ("LANG", "de_DE.UTF-8")]));
        assert!(is_utf8(&[]));
    }
}
