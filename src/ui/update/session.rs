//! Sessions: what is written of them, and how one comes back.

use super::super::dialog::Dialog;
use super::super::hits::PanelId;
use super::super::msg::{Effect, OpenedSession};
use super::super::state::{ChatSettings, Level, Screen, State};
use super::{Effects, chat, engine, layers, notice};
use crate::engine::protocol::{LoadOptions, Placement, When};
use crate::sessions::{
    ModelRef, Record, SessionId, SessionState, Settings, export_json as to_json, export_markdown as to_markdown,
};

/// The settings of a session, where it has some that can be read; else those that the program was started with.
pub fn start_settings(session: &SessionState, otherwise: &ChatSettings) -> ChatSettings {
    let Some(settings) = &session.settings else { return otherwise.clone() };
    let sampling = serde_json::from_value(settings.sampling.clone()).unwrap_or_else(|_| otherwise.sampling.clone());
    ChatSettings { sampling, system: settings.system.clone(), max_tokens: settings.max_tokens, ..otherwise.clone() }
}

/// Writes what a session is about, as far as the file does not say it yet: before its first message.
pub fn describe(state: &mut State, fx: &mut Effects) {
    let model = state.model.info().map(|info| ModelRef {
        path: info.path.clone(),
        name: info.name.clone(),
        n_ctx: info.n_ctx,
        kv: info.kv.to_string(),
    });
    if let Some(model) = model
        && state.chat.session.model.as_ref() != Some(&model)
    {
        fx.push(Effect::Record(Record::Model(model.clone())));
        state.chat.session.model = Some(model);
    }
    let placement = state.layers.as_ref().map(|l| l.map.now().to_string());
    if let Some(text) = placement
        && state.chat.session.placement.as_ref() != Some(&text)
    {
        fx.push(Effect::Record(Record::Placement { text: text.clone() }));
        state.chat.session.placement = Some(text);
    }
    let settings = settings_record(&state.chat.settings);
    if state.chat.session.settings.as_ref() != Some(&settings) {
        fx.push(Effect::Record(Record::Settings(settings.clone())));
        state.chat.session.settings = Some(settings);
    }
}

fn settings_record(settings: &ChatSettings) -> Settings {
    Settings {
        sampling: serde_json::to_value(&settings.sampling).unwrap_or_default(),
        system: settings.system.clone(),
        max_tokens: settings.max_tokens,
    }
}

/// Why another session cannot take the place of this one now, if so.
fn in_use(state: &State) -> Option<&'static str> {
    match (&state.chat.streaming, state.chat.opening) {
        (Some(_), _) => Some("an answer is streaming: stop it first (esc)"),
        (None, true) => Some("a session is being opened"),
        (None, false) => None,
    }
}

pub fn new_session(state: &mut State, fx: &mut Effects) {
    if let Some(why) = in_use(state) {
        return notice(state, Level::Warn, why);
    }
    begin(state, fx);
    state.focus = PanelId::Input;
    notice(state, Level::Info, "a new session; the one before is kept (ctrl+r lists them)");
}

/// An empty session in place of the one that is shown.
fn begin(state: &mut State, fx: &mut Effects) {
    fx.push(Effect::CloseSession);
    forget_view(state);
    state.chat.session = SessionState::new(SessionId::new(state.clock), state.clock);
    state.chat.id = None;
}

/// Deletes a session; if it is the one that is shown, an empty one follows.
pub fn delete(state: &mut State, id: SessionId, fx: &mut Effects) {
    if state.chat.id.as_ref() == Some(&id) {
        if let Some(why) = in_use(state) {
            return notice(state, Level::Warn, why);
        }
        begin(state, fx);
    }
    fx.push(Effect::DeleteSession(id));
    list_again(state, fx);
}

/// What the sessions dialog searched for is listed anew.
pub fn list_again(state: &State, fx: &mut Effects) {
    let query = state.dialogs.iter().find_map(|dialog| match dialog {
        Dialog::Sessions(sessions) => Some(sessions.query.text().trim().to_owned()),
        _ => None,
    });
    if let Some(query) = query {
        fx.push(Effect::ListSessions { query });
    }
}

/// What belonged to the conversation that was shown.
fn forget_view(state: &mut State) {
    state.conversation_version += 1;
    state.chat.top = None;
    state.chat.chosen = None;
    state.chat.unfolded.clear();
    state.chat.copied_block = None;
    // What was typed before that is typed still.
    chat::stop_editing(state);
    state.chat.n_past = 0;
    state.chat.warned_nearly_full = false;
    state.chat.context_full = false;
}

/// Asks for a session. What is open stays until it comes.
pub fn open(state: &mut State, id: SessionId, fx: &mut Effects) {
    if let Some(why) = in_use(state) {
        return notice(state, Level::Warn, why);
    }
    state.chat.opening = true;
    fx.push(Effect::OpenSession(id));
}

/// A session was opened: text at once, then model and placement where they differ.
pub fn opened(state: &mut State, opened: OpenedSession, fx: &mut Effects) {
    let OpenedSession { id, session, model_is_there } = opened;
    if session.n_damaged_lines > 0 {
        let n = session.n_damaged_lines;
        let words = if n == 1 { "1 damaged line was".to_owned() } else { format!("{n} damaged lines were") };
        notice(state, Level::Warn, format!("{words} passed over; everything else of the session is here"));
    }
    let ChatSettings { seed, n_ctx, kv, .. } = state.chat.settings;
    state.chat.settings = ChatSettings { seed, n_ctx, kv, ..start_settings(&session, &state.start_settings) };
    state.chat.opening = false;
    forget_view(state);
    state.chat.session = session;
    state.chat.id = Some(id);
    state.screen = Screen::Main;
    state.focus = PanelId::Input;
    restore_model(state, model_is_there, fx);
}

/// Loads the session's model, or moves the layers of the loaded one to where the session had them.
fn restore_model(state: &mut State, model_is_there: bool, fx: &mut Effects) {
    let Some(model) = state.chat.session.model.clone() else { return };
    let placement = state.chat.session.placement.clone();
    let same = state
        .model
        .info()
        .is_some_and(|i| i.path == model.path && i.n_ctx == model.n_ctx && i.kv.to_string() == model.kv);
    if !same {
        if !model_is_there {
            let words = format!("{} is not there any more: open another model for this session", model.path.display());
            return notice(state, Level::Warn, words);
        }
        let kv = model.kv.parse().unwrap_or(state.chat.settings.kv);
        let fits_rig = placement.filter(|text| names_known_devices(state, text));
        let options = LoadOptions { path: model.path, n_ctx: Some(model.n_ctx), kv, placement: fits_rig };
        engine::load(state, options, fx);
        return;
    }
    let Some(layers) = &state.layers else { return };
    let (now, devices) = (layers.map.now(), layers::engine_devices(state));
    // Of another rig, or of a model with other layers: nothing that could be restored.
    let Some(wanted) = placement.and_then(|text| Placement::parse(&text, now.n_layer(), &devices, now).ok()) else {
        return;
    };
    if wanted != *now {
        layers::repartition(state, wanted.to_string(), When::NextPrefill, fx);
    }
}

/// A session may come from another rig.
fn names_known_devices(state: &State, placement: &str) -> bool {
    let devices = layers::engine_devices(state);
    placement
        .split(';')
        .map(|assignment| assignment.split_once('='))
        .all(|named| named.is_some_and(|(name, _)| name.trim().parse().is_ok_and(|id| devices.contains(&id))))
}

/// After a load: the session goes on with this model.
pub fn model_loaded(state: &mut State, fx: &mut Effects) {
    if !state.chat.session.conversation.is_empty() {
        describe(state, fx);
    }
}

pub fn export_markdown(state: &mut State, fx: &mut Effects) {
    let text = to_markdown(&state.chat.session);
    export(state, text, "md", fx);
}

pub fn export_json(state: &mut State, fx: &mut Effects) {
    let text = format!("{:#}\n", to_json(&state.chat.session));
    export(state, text, "json", fx);
}

fn export(state: &mut State, text: String, extension: &'static str, fx: &mut Effects) {
    if state.chat.session.conversation.is_empty() {
        return notice(state, Level::Info, "there is nothing to save yet");
    }
    fx.push(Effect::Export { text, extension, title: state.chat.session.shown_title() });
}
