//! Lines around and between the panels, with their titles.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::super::action::Action;
use super::super::hits::{Hits, PanelId, Target};
use super::super::state::State;
use super::super::text::printable;
use super::super::text::width::truncate_with;
use super::super::theme::{Role, Theme};
use super::layout::Layout;

struct Lines {
    horizontal: char,
    vertical: char,
    /// Left and right ends of the first, a middle and the last line.
    ends: [(char, char); 3],
}

const DRAWN: Lines =
    Lines { horizontal: '─', vertical: '│', ends: [('┌', '┐'), ('├', '┤'), ('└', '┘')] };
const ASCII: Lines = Lines { horizontal: '-', vertical: '|', ends: [('+', '+'), ('+', '+'), ('+', '+')] };

fn lines(theme: &Theme) -> &'static Lines {
    if theme.ascii { &ASCII } else { &DRAWN }
}

/// The frames of the main screen.
pub fn draw_frames(state: &State, layout: &Layout, buf: &mut Buffer, hits: &mut Hits) {
    let theme = &state.look.theme;
    let panels = [
        (layout.devices, PanelId::Devices),
        (layout.layers, PanelId::Layers),
        (Some(layout.chat), PanelId::Chat),
        (Some(layout.input), PanelId::Input),
    ];
    let x = layout.header.x;
    let width = layout.header.width;
    let mut first = true;
    for (inside, panel) in panels {
        let Some(inside) = inside else { continue };
        if inside.y <= layout.header.y + 1 && panel == PanelId::Chat && inside.y == layout.header.y + 1 {
            continue;
        }
        let style = border_style(state, panel);
        let line = Rect { x, y: inside.y - 1, width, height: 1 };
        draw_rule(theme, line, usize::from(!first), layout.framed, style, buf);
        first = false;
        draw_title(state, panel, line, buf);
        hits.add(line, Target::Panel(panel));
        if layout.framed {
            for y in inside.top()..inside.bottom() {
                for x in [x, x + width - 1] {
                    if let Some(cell) = buf.cell_mut((x, y)) {
                        cell.set_char(lines(theme).vertical).set_style(style);
                    }
                }
            }
        }
    }
    if layout.footer.is_some() {
        let line = Rect { x, y: layout.input.bottom(), width, height: 1 };
        draw_rule(theme, line, 2, layout.framed, border_style(state, PanelId::Input), buf);
    }
}

fn border_style(state: &State, panel: PanelId) -> Style {
    let role = if state.focus == panel && state.dialogs.is_empty() { Role::BorderFocus } else { Role::Border };
    state.look.theme.style(role)
}

fn draw_rule(theme: &Theme, line: Rect, end: usize, framed: bool, style: Style, buf: &mut Buffer) {
    let l = lines(theme);
    for x in line.left()..line.right() {
        let c = match (framed, x) {
            (true, x) if x == line.left() => l.ends[end].0,
            (true, x) if x == line.right() - 1 => l.ends[end].1,
            _ => l.horizontal,
        };
        if let Some(cell) = buf.cell_mut((x, line.y)) {
            cell.set_char(c).set_style(style);
        }
    }
}

fn draw_title(state: &State, panel: PanelId, line: Rect, buf: &mut Buffer) {
    let theme = &state.look.theme;
    let focused = state.focus == panel && state.dialogs.is_empty();
    let name = match panel {
        PanelId::Devices => "Devices",
        PanelId::Layers => "Layers",
        PanelId::Chat => "Chat",
        PanelId::Input => "Message",
    };
    let key = |action| state.keymap.shown(action);
    let hint = match panel {
        PanelId::Devices if focused => format!("{} details", key(Action::DeviceDetails)),
        PanelId::Layers if focused => {
            // Only what is true of the state they are in.
            let apply = format!("{} apply · {} now", key(Action::Apply), key(Action::ApplyNow));
            match &state.layers {
                Some(layers) if layers.awaits_device => "a device's letter moves them there".to_owned(),
                Some(layers) if layers.map.is_picked() => {
                    format!(
                        "{}/{} move · {} put down · {apply}",
                        key(Action::EdgeLeft),
                        key(Action::EdgeRight),
                        key(Action::LayerPick)
                    )
                }
                Some(layers) if layers.map.has_changes() => {
                    format!("{apply} · {} undo · {} give up", key(Action::LayerUndo), key(Action::CancelChange))
                }
                _ => format!(
                    "{} pick · {}/{} move edge · {} letter: move · {} auto",
                    key(Action::LayerPick),
                    key(Action::EdgeLeft),
                    key(Action::EdgeRight),
                    key(Action::MoveSelection),
                    key(Action::LayerAuto)
                ),
            }
        }
        PanelId::Layers if state.layers.is_some() => "drag a block or an edge".to_owned(),
        PanelId::Chat => printable(&state.chat.session.shown_title()).into_owned(),
        PanelId::Input if state.chat.editing.is_some() => {
            format!("editing an earlier message · {} gives up", key(Action::Stop))
        }
        PanelId::Devices | PanelId::Layers | PanelId::Input => String::new(),
    };
    let hint = if theme.ascii && panel != PanelId::Chat { hint.replace('·', "-") } else { hint };
    let room = usize::from(line.width).saturating_sub(6);
    let mut spans = vec![Span::styled(format!(" {name} "), theme.style(Role::Title))];
    let left = room.saturating_sub(name.len() + 4);
    if !hint.is_empty() && left > 8 {
        let hint = if theme.ascii { hint.replace('·', "-") } else { hint };
        spans.push(Span::styled(format!("{} ", truncate_with(&hint, left, theme.cut())), theme.style(Role::Dim)));
    }
    let title = Line::from(spans);
    let width = title.width().min(room) as u16;
    title.render(Rect { x: line.x + 2.min(line.width), width: width.min(line.width), ..line }, buf);
}

/// Where a large dialog lies: over most of the screen, with its margin showing what is below.
pub fn overlay(area: Rect) -> Rect {
    let (dx, dy) = (area.width / 20, area.height / 12);
    Rect {
        x: area.x + dx,
        y: area.y + dy,
        width: area.width.saturating_sub(2 * dx),
        height: area.height.saturating_sub(2 * dy),
    }
}
