//! The mouse: what was drawn under it says what it means.

use crossterm::event::{KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;

use super::super::dialog::{Details, Dialog};
use super::super::hits::{PanelId, Target};
use super::super::layers::{LayerTarget, MapMouse, MouseKind};
use super::super::state::{Screen, State};
use super::{Effects, actions, chat, dialogs, keys, layers, picker};
use crate::engine::protocol::DeviceId;

/// Lines that a turn of the wheel scrolls.
const WHEEL_LINES: isize = 3;

pub fn mouse(state: &mut State, event: MouseEvent, under: &[(Rect, Target)], fx: &mut Effects) {
    if !state.dialogs.is_empty() || state.screen == Screen::Picker {
        // What was dragged before is hidden now.
        layers::let_go(state, fx);
    }
    if !state.dialogs.is_empty() {
        return dialogs::mouse(state, event, under, fx);
    }
    if state.screen == Screen::Picker {
        return picker::mouse(state, event, under, fx);
    }
    let map_target = under.iter().find_map(|(_, target)| match target {
        Target::Layers(target) => Some(*target),
        _ => None,
    });
    let card = under.iter().find_map(|(_, target)| match target {
        Target::Device(id) => Some(*id),
        _ => None,
    });
    match event.kind {
        MouseEventKind::Down(MouseButton::Left) => {
            if map_target.is_some() {
                state.focus = PanelId::Layers;
            }
            keys::await_no_device(state);
            map_mouse(state, MouseKind::Down, event, map_target, card, fx);
            if map_target.is_none() {
                click(state, event, under, fx);
            }
        }
        MouseEventKind::Drag(MouseButton::Left) => map_mouse(state, MouseKind::Drag, event, map_target, card, fx),
        MouseEventKind::Up(MouseButton::Left) => map_mouse(state, MouseKind::Up, event, map_target, card, fx),
        MouseEventKind::Moved => map_mouse(state, MouseKind::Move, event, map_target, card, fx),
        MouseEventKind::ScrollUp => wheel(state, under, -1),
        MouseEventKind::ScrollDown => wheel(state, under, 1),
        MouseEventKind::Down(_)
        | MouseEventKind::Drag(_)
        | MouseEventKind::Up(_)
        | MouseEventKind::ScrollLeft
        | MouseEventKind::ScrollRight => {}
    }
}

fn map_mouse(
    state: &mut State,
    kind: MouseKind,
    event: MouseEvent,
    target: Option<LayerTarget>,
    card: Option<DeviceId>,
    fx: &mut Effects,
) {
    let (Some(layers), Some(columns)) = (&mut state.layers, &state.metrics.map) else { return };
    let mouse = MapMouse {
        kind,
        x: event.column,
        y: event.row,
        shift: event.modifiers.contains(KeyModifiers::SHIFT),
        ctrl: event.modifiers.contains(KeyModifiers::CONTROL),
    };
    let outcome = layers.map.mouse(mouse, columns, target, card);
    layers.drop_hot = card.filter(|_| layers.map.is_dragging());
    layers::follow(state, outcome, fx);
}

fn click(state: &mut State, event: MouseEvent, under: &[(Rect, Target)], fx: &mut Effects) {
    let Some((area, target)) = under.first() else { return };
    match target.clone() {
        Target::Panel(panel) => state.focus = panel,
        Target::Device(id) => {
            let index = state.gauges.devices.iter().position(|d| d.id == id).unwrap_or(0);
            // The first click chooses, the second one opens.
            if state.focus == PanelId::Devices && state.device_cursor == index {
                state.dialogs.push(Dialog::Details(Details::new(id)));
            }
            state.focus = PanelId::Devices;
            state.device_cursor = index;
        }
        Target::Message(id) => {
            state.focus = PanelId::Chat;
            state.chat.chosen = Some(id);
        }
        Target::Thinking(id) => {
            state.focus = PanelId::Chat;
            chat::fold(state, id);
        }
        Target::CopyCode { message, block } => chat::copy_block(state, message, block, false, fx),
        Target::Input => {
            state.focus = PanelId::Input;
            let first = state.chat.editor.first_row(usize::from(area.height));
            let column = event.column.saturating_sub(area.x);
            let row = usize::from(event.row.saturating_sub(area.y));
            state.chat.editor.click(usize::from(column), first + row);
        }
        Target::Button(action) => actions::run(state, action, fx),
        Target::Layers(_) | Target::Item(_) | Target::Dialog | Target::Outside => {}
    }
}

fn wheel(state: &mut State, under: &[(Rect, Target)], turn: isize) {
    let panel = under.iter().find_map(|(_, target)| match target {
        Target::Panel(panel) => Some(*panel),
        _ => None,
    });
    match panel {
        Some(PanelId::Devices) => {
            let last = state.gauges.devices.len().saturating_sub(1);
            state.device_cursor = state.device_cursor.saturating_add_signed(turn).min(last);
        }
        Some(PanelId::Chat | PanelId::Layers | PanelId::Input) | None => chat::scroll(state, WHEEL_LINES * turn),
    }
}
