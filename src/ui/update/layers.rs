//! The layer map and what it asks of the engine: forecasts while a draft changes, then the change itself.

use std::sync::Arc;

use super::super::hits::PanelId;
use super::super::layers::{ChangeView, LayerMap, MapAction, MapOutcome, PreviewDevice, PreviewView};
use super::super::msg::Effect;
use super::super::state::{Asked, Change, Layers, Level, State};
use super::{Effects, notice, tell};
use crate::engine::protocol::{ChangeState, Command, DeviceId, Placement, Preview, RequestId, When};

/// Tokens after a switch that give the new rate.
const TOKENS_FOR_A_RATE: usize = 8;

pub fn act(state: &mut State, action: MapAction, fx: &mut Effects) {
    let Some(layers) = &mut state.layers else {
        return match action {
            MapAction::Cancel => state.focus = PanelId::Input,
            _ => notice(state, Level::Info, "no model is loaded, so there are no layers"),
        };
    };
    let outcome = layers.map.act(action);
    if !layers.map.is_dragging() {
        layers.drop_hot = None;
    }
    follow(state, outcome, fx);
}

/// A drag whose end goes to something else comes to nothing.
pub fn let_go(state: &mut State, fx: &mut Effects) {
    if state.layers.as_ref().is_some_and(|l| l.map.is_pressed()) {
        act(state, MapAction::Cancel, fx);
    }
}

pub fn follow(state: &mut State, outcome: MapOutcome, fx: &mut Effects) {
    match outcome {
        MapOutcome::Nothing | MapOutcome::Redraw => {}
        MapOutcome::DraftChanged => draft_changed(state, fx),
        MapOutcome::Apply => apply(state, When::NextPrefill, fx),
        MapOutcome::ApplyNow => apply(state, When::Now, fx),
        MapOutcome::AskAuto => {
            let id = state.requests.new_id(Asked::Auto);
            if let Some(layers) = &mut state.layers {
                layers.auto = Some(id);
                fx.push(Effect::Engine(Command::Preview { id, placement: "auto".into() }));
            }
        }
        MapOutcome::Cancel => cancel(state, fx),
        MapOutcome::Refused(why) => notice(state, Level::Warn, why),
    }
}

/// A change under way is given up; else the draft; else the place itself.
fn cancel(state: &mut State, fx: &mut Effects) {
    let Some(layers) = &mut state.layers else { return };
    layers.awaits_device = false;
    if layers.change.id.is_some() {
        tell(state, fx, |id| Command::CancelRepartition { id });
    } else if layers.map.has_changes() {
        let outcome = layers.map.discard();
        if outcome == MapOutcome::DraftChanged {
            draft_changed(state, fx);
        }
    } else {
        state.focus = PanelId::Input;
    }
}

fn draft_changed(state: &mut State, fx: &mut Effects) {
    // What was said of the change before does not belong to the new draft.
    if let Some(layers) = &mut state.layers
        && layers.change.id.is_none()
    {
        layers.change.view = ChangeView::None;
    }
    ask_preview(state, fx);
}

/// Asks what the draft would do. One question at a time: while it is being answered, only the newest draft waits.
fn ask_preview(state: &mut State, fx: &mut Effects) {
    let Some(layers) = &mut state.layers else { return };
    if !layers.map.has_changes() {
        layers.preview = None;
        return;
    }
    let answered = layers.preview.as_ref().is_some_and(|p| p.placement == *layers.map.next());
    if layers.asked.is_some() || answered {
        return;
    }
    let placement = layers.map.next().clone();
    let id = state.requests.new_id(Asked::Preview);
    fx.push(Effect::Engine(Command::Preview { id, placement: placement.to_string() }));
    if let Some(layers) = &mut state.layers {
        layers.asked = Some((id, placement));
    }
}

pub fn previewed(state: &mut State, id: RequestId, preview: Preview, fx: &mut Effects) {
    let devices: Vec<DeviceId> = engine_devices(state);
    let Some(layers) = &mut state.layers else { return };
    if layers.auto == Some(id) {
        layers.auto = None;
        match (
            Placement::parse(&preview.placement, layers.map.now().n_layer(), &devices, layers.map.now()),
            preview.refused,
        ) {
            (_, Some(why)) => return notice(state, Level::Bad, why),
            (Err(error), None) => return notice(state, Level::Bad, error.to_string()),
            (Ok(draft), None) => {
                if draft == *layers.map.next() {
                    notice(state, Level::Info, "auto has nothing better: this is its placement");
                } else {
                    let outcome = layers.map.set_draft(draft);
                    follow(state, outcome, fx);
                }
                for note in preview.notes {
                    notice(state, Level::Info, note);
                }
            }
        }
        return;
    }
    let Some((_, placement)) = layers.asked.take_if(|(asked, _)| *asked == id) else { return };
    layers.preview = Some(PreviewView {
        placement,
        fits: preview.refused.is_none(),
        refused: preview.refused,
        devices: preview
            .devices
            .iter()
            .map(|d| PreviewDevice {
                id: d.id,
                after_bytes: d.held_bytes_after,
                total_bytes: d.total_bytes,
                short_bytes: d.short_bytes,
            })
            .collect(),
        weight_bytes: preview.weight_bytes,
        kv_bytes: preview.kv_bytes,
        staging_s: preview.staging_s,
        stall_s: preview.stall_s,
        from_tokens_per_s: some_rate(preview.from_tokens_per_s),
        to_tokens_per_s: some_rate(preview.to_tokens_per_s),
    });
    // The draft may have gone on meanwhile.
    ask_preview(state, fx);
}

fn some_rate(rate: f64) -> Option<f64> {
    (rate > 0.0 && rate.is_finite()).then_some(rate)
}

/// A forecast that did not come leaves the draft without one.
pub fn preview_failed(state: &mut State, id: RequestId, message: String, fx: &mut Effects) {
    let Some(layers) = &mut state.layers else { return };
    let was_auto = layers.auto.take_if(|asked| *asked == id).is_some();
    let asked = layers.asked.take_if(|(asked, _)| *asked == id);
    let is_old = asked.as_ref().is_some_and(|(_, placement)| placement != layers.map.next());
    if was_auto || asked.is_some() {
        notice(state, Level::Bad, message);
    }
    if is_old {
        ask_preview(state, fx);
    }
}

fn apply(state: &mut State, when: When, fx: &mut Effects) {
    let Some(layers) = &state.layers else { return };
    if !layers.map.has_changes() {
        return notice(state, Level::Info, "the draft is what runs: move an edge or a block first");
    }
    let placement = layers.map.next().to_string();
    repartition(state, placement, when, fx);
}

/// Asks for another placement. A change under way is cancelled by that.
pub fn repartition(state: &mut State, placement: String, when: When, fx: &mut Effects) {
    let (now, rate) = (state.now, state.chat.decode_tokens_per_s);
    let id = state.requests.new_id(Asked::Repartition);
    if let Some(layers) = &mut state.layers {
        layers.change = Change {
            id: Some(id),
            now: when == When::Now,
            since: now,
            from_tokens_per_s: rate,
            view: ChangeView::Staging { done_bytes: 0, total_bytes: 0, bytes_per_s: 0.0 },
            ..Change::default()
        };
    }
    fx.push(Effect::Engine(Command::Repartition { id, placement, when }));
}

pub fn changed(state: &mut State, id: RequestId, change: ChangeState, fx: &mut Effects) {
    let now = state.now;
    let devices = engine_devices(state);
    let Some(layers) = &mut state.layers else { return };
    if layers.change.id != Some(id) {
        return;
    }
    if change.is_terminal() {
        layers.change.id = None;
    }
    match change {
        ChangeState::Checked { move_bytes, .. } => {
            layers.change.view = ChangeView::Staging { done_bytes: 0, total_bytes: move_bytes, bytes_per_s: 0.0 };
        }
        ChangeState::Reserved { .. } => {}
        ChangeState::Staging { done_bytes, total_bytes } => {
            let seconds = now.saturating_sub(layers.change.since).as_secs_f64();
            let bytes_per_s = if seconds > 0.0 { done_bytes as f64 / seconds } else { 0.0 };
            layers.change.view = ChangeView::Staging { done_bytes, total_bytes, bytes_per_s };
        }
        ChangeState::Ready { .. } => layers.change.view = ChangeView::Ready { when_now: layers.change.now },
        ChangeState::Switched { placement: text, stall_ms, .. } => {
            layers.change.view = ChangeView::Switched {
                stall_ms,
                from_tokens_per_s: layers.change.from_tokens_per_s,
                to_tokens_per_s: None,
            };
            layers.change.switched_at = Some(now);
            match Placement::parse(&text, layers.map.now().n_layer(), &devices, layers.map.now()) {
                Ok(placement) => switched(state, placement, text, fx),
                Err(error) => notice(state, Level::Bad, error.to_string()),
            }
        }
        ChangeState::Refused { message } => layers.change.view = ChangeView::Refused(message),
        ChangeState::Cancelled => {
            layers.change.view = ChangeView::Cancelled;
            notice(state, Level::Info, "the change was cancelled: the old placement works on");
        }
        ChangeState::Failed { message } => layers.change.view = ChangeView::Failed(message),
    }
}

/// A change waits for kernels of a device.
pub fn preparing(state: &mut State, id: RequestId, text: String) {
    if let Some(layers) = state.layers.as_mut().filter(|l| l.change.id == Some(id)) {
        layers.change.view = ChangeView::Preparing(text);
    }
}

/// The engine has placed parts anew by itself.
pub fn recovered(state: &mut State, text: String, fx: &mut Effects) {
    let devices = engine_devices(state);
    let Some(layers) = &state.layers else { return };
    match Placement::parse(&text, layers.map.now().n_layer(), &devices, layers.map.now()) {
        Ok(placement) => switched(state, placement, text, fx),
        Err(error) => notice(state, Level::Bad, error.to_string()),
    }
}

fn switched(state: &mut State, placement: Placement, text: String, fx: &mut Effects) {
    if let Some(layers) = &mut state.layers {
        layers.map.set_now(placement.clone());
        // Forecasts were for moves from where the parts lay before.
        layers.preview = None;
    }
    state.gauges.set_placement(Some(&placement));
    state.chat.session.placement = Some(text.clone());
    fx.push(Effect::Record(crate::sessions::Record::Placement { text }));
    let has_draft = state.layers.as_ref().is_some_and(|l| l.map.has_changes());
    if has_draft {
        ask_preview(state, fx);
    }
}

/// Counts a token towards the rate after the last switch.
pub fn count_token(state: &mut State) {
    let now = state.now;
    let Some(layers) = &mut state.layers else { return };
    let change = &mut layers.change;
    let ChangeView::Switched { to_tokens_per_s, .. } = &mut change.view else { return };
    if to_tokens_per_s.is_some() || change.switched_at.is_none() {
        return;
    }
    let first = *change.first_token_since.get_or_insert(now);
    if change.tokens_since >= TOKENS_FOR_A_RATE {
        let seconds = now.saturating_sub(first).as_secs_f64();
        if seconds > 0.0 {
            *to_tokens_per_s = Some(change.tokens_since as f64 / seconds);
        }
    }
    change.tokens_since += 1;
}

/// A new answer: tokens from before it do not count into the rate after the switch.
pub fn restart_count(state: &mut State) {
    if let Some(layers) = &mut state.layers {
        layers.change.tokens_since = 0;
        layers.change.first_token_since = None;
    }
}

/// The map of a model that was loaded.
pub fn new_map(state: &mut State, placement: &str, n_layer: u32, is_moe: bool) {
    let devices = engine_devices(state);
    let Some(first) = devices.first() else { return };
    let fallback = Placement::uniform(n_layer, *first);
    match Placement::parse(placement, n_layer, &devices, &fallback) {
        Ok(placement) => {
            state.gauges.set_placement(Some(&placement));
            state.layers = Some(Layers {
                map: LayerMap::new(placement, is_moe, devices),
                preview: None,
                asked: None,
                auto: None,
                change: Change::default(),
                awaits_device: false,
                drop_hot: None,
                part_ms: Arc::default(),
            });
        }
        Err(error) => notice(state, Level::Bad, error.to_string()),
    }
}

pub fn engine_devices(state: &State) -> Vec<DeviceId> {
    state.gauges.devices.iter().filter(|d| d.in_engine).map(|d| d.id).collect()
}
