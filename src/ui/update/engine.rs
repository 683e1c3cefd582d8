//! What the engine says.

use super::super::action::Action;
use super::super::hits::PanelId;
use super::super::msg::Effect;
use super::super::state::{Asked, Level, Loading, ModelState, Screen, State};
use super::{Effects, actions, answer, layers, notice, session};
use crate::engine::protocol::{Command, Event, LoadOptions, ModelInfo, RecoveryState, RequestId, Stats};

pub fn load(state: &mut State, options: LoadOptions, fx: &mut Effects) {
    let id = state.requests.new_id(Asked::Load);
    state.layers = None;
    state.gauges.set_placement(None);
    state.chat.n_past = 0;
    state.chat.decode_tokens_per_s = None;
    state.chat.context_full = false;
    state.chat.warned_nearly_full = false;
    fx.push(Effect::Engine(Command::Load { id, options: options.clone() }));
    state.model = ModelState::Loading(Loading {
        id,
        options,
        since: state.now,
        done_bytes: 0,
        total_bytes: 0,
        devices: vec![],
        preparing: None,
    });
}

pub fn event(state: &mut State, event: Event, fx: &mut Effects) {
    let id = event.id();
    let asked =
        if event.is_terminal() { state.requests.open.remove(&id) } else { state.requests.open.get(&id).copied() };
    match event {
        Event::LoadProgress { done_bytes, total_bytes, devices, .. } => {
            if let ModelState::Loading(loading) = &mut state.model
                && loading.id == id
            {
                (loading.done_bytes, loading.total_bytes) = (done_bytes, total_bytes);
                loading.devices = devices;
                loading.preparing = None;
            }
        }
        Event::Preparing { device, n_done, n_total, .. } => {
            let text = format!("{device}: kernels {n_done} of {n_total}");
            match &mut state.model {
                ModelState::Loading(loading) if loading.id == id => loading.preparing = Some(text),
                _ => layers::preparing(state, id, text),
            }
        }
        Event::Recovery { state: recovery, .. } => recovered(state, recovery, fx),
        Event::Loaded { info, .. } => {
            if matches!(&state.model, ModelState::Loading(loading) if loading.id == id) {
                loaded(state, *info, fx);
            }
        }
        Event::Notice { text, .. } => notice(state, Level::Info, text),
        Event::PrefillStarted { n_cached, prompt_ids, thinks_first, .. } => {
            answer::prefill_started(state, id, n_cached, prompt_ids.len(), thinks_first);
        }
        Event::PrefillProgress { n_done, n_total, .. } => answer::prefill(state, id, n_done, n_total),
        Event::Token { text, .. } => answer::token(state, id, &text, fx),
        Event::Logits { .. } => {}
        Event::Finished { summary, .. } => answer::finished(state, id, *summary, fx),
        Event::Repartition { state: change, .. } => layers::changed(state, id, change, fx),
        Event::Previewed { preview, .. } => layers::previewed(state, id, *preview, fx),
        Event::Done { .. } => {
            if asked == Some(Asked::Unload) {
                unloaded(state, fx);
            }
        }
        Event::Failed { message, .. } => failed(state, id, asked, message, fx),
    }
}

fn loaded(state: &mut State, info: ModelInfo, fx: &mut Effects) {
    layers::new_map(state, &info.placement, info.n_layer, info.is_moe);
    let from_picker = state.screen == Screen::Picker;
    state.screen = Screen::Main;
    if from_picker {
        state.focus = PanelId::Input;
    }
    if !info.has_chat_template {
        notice(state, Level::Warn, "this model has no chat template: it may answer in a strange form");
    }
    state.model = ModelState::Loaded(Box::new(info));
    session::model_loaded(state, fx);
}

/// Gives up the load that is under way.
pub fn cancel_load(state: &mut State, fx: &mut Effects) {
    let ModelState::Loading(loading) = &state.model else { return };
    state.requests.open.insert(loading.id, Asked::CancelledLoad);
    let id = state.requests.new_id(Asked::Unload);
    fx.push(Effect::Engine(Command::Unload { id }));
}

/// The engine holds no model. Where the load had ended before it could be given up, there was one for a moment.
/// A device was lost: what becomes of the model.
fn recovered(state: &mut State, recovery: RecoveryState, fx: &mut Effects) {
    match recovery {
        RecoveryState::Started { message, placement } => {
            notice(state, Level::Bad, format!("{message} ({placement})"));
        }
        RecoveryState::Recovered { placement, took_ms } => {
            let seconds = took_ms / 1e3;
            notice(state, Level::Info, format!("the model goes on without the lost device, after {seconds:.1} s"));
            layers::recovered(state, placement, fx);
        }
        RecoveryState::Failed { message } => {
            notice(state, Level::Bad, message);
            unloaded(state, fx);
        }
    }
}

fn unloaded(state: &mut State, fx: &mut Effects) {
    match &state.model {
        ModelState::Loaded(_) => {
            state.model = ModelState::None;
            state.layers = None;
            state.gauges.set_placement(None);
            actions::run(state, Action::Models, fx);
        }
        ModelState::None | ModelState::Loading(_) | ModelState::Failed { .. } => {}
    }
}

fn failed(state: &mut State, id: RequestId, asked: Option<Asked>, message: String, fx: &mut Effects) {
    match asked {
        Some(Asked::Load) => {
            let ModelState::Loading(loading) = &state.model else { return };
            if loading.id == id {
                let path = loading.options.path.clone();
                notice(state, Level::Bad, message.clone());
                state.model = ModelState::Failed { path, message };
            }
        }
        Some(Asked::CancelledLoad) => {
            if matches!(&state.model, ModelState::Loading(loading) if loading.id == id) {
                state.model = ModelState::None;
                notice(state, Level::Info, "loading was given up");
            }
        }
        Some(Asked::Generate) => answer::failed(state, id, message, fx),
        Some(Asked::Preview | Asked::Auto) => layers::preview_failed(state, id, message, fx),
        Some(Asked::Repartition) => {
            if let Some(layers) = &mut state.layers
                && layers.change.id.take_if(|change| *change == id).is_some()
            {
                layers.change.view = super::super::layers::ChangeView::Failed(message);
            }
        }
        Some(Asked::Unload | Asked::Other) | None => notice(state, Level::Bad, message),
    }
}

pub fn stats(state: &mut State, stats: &Stats) {
    state.gauges.on_stats(state.now, stats);
    // Without a model they still tell of the one before.
    if state.model.info().is_none() {
        return;
    }
    state.chat.n_past = stats.n_past;
    if let Some(rate) = stats.decode_tokens_per_s {
        state.chat.decode_tokens_per_s = Some(rate);
    }
    // They come after the events of the same moment: an answer that has ended is counted here.
    if !stats.streaming && state.chat.streaming.is_none() && !state.chat.session.conversation.is_empty() {
        answer::warn_when_nearly_full(state);
    }
    if let Some(layers) = &mut state.layers {
        layers.part_ms = stats.part_ms.clone();
    }
}
