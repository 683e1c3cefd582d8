//! The picture: from the state to cells, and where on them a click means what. Nothing here changes the state.

mod chat;
mod footer;
mod frame;
mod header;
mod input;
mod layout;

pub mod bar;
pub mod details;
pub mod devices;
pub mod dialogs;
pub mod graph;
pub mod loading;
pub mod picker;
pub mod window;

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;
use ratatui::widgets::Widget;

use super::dialog::{Dialog, Drawn as Shown};
use super::gauges::Gauges;
use super::hits::{Hits, PanelId, Target};
use super::layers::{Columns, DeviceLook, MapPicture, PartInfoView, draw_map};
use super::state::{Layers, Loading, ModelState, Screen, State};
use super::theme::{Role, Theme};
use crate::engine::protocol::Part;
pub use chat::{ChatCache, ChatMetrics};
pub use header::NEARLY_FULL;
pub use layout::{Layout, MIN_HEIGHT, MIN_WIDTH};

/// What was laid out once and holds for the next picture too.
#[derive(Default)]
pub struct Caches {
    pub chat: ChatCache,
}

/// What the picture tells the state: how much there was to show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    pub chat: ChatMetrics,
    /// Columns of the input's text.
    pub input_width: u16,
    /// Lines of a page of whatever scrolls.
    pub page: usize,
    /// Where the map's cells were drawn.
    pub map: Option<Columns>,
    pub dialog: Shown,
    pub picker: Shown,
}

pub struct Drawn {
    pub hits: Hits,
    pub metrics: Metrics,
    pub cursor: Option<Position>,
}

/// Draws everything.
pub fn draw(state: &State, caches: &mut Caches, area: Rect, buf: &mut Buffer) -> Drawn {
    let mut drawn = Drawn { hits: Hits::default(), metrics: Metrics::default(), cursor: None };
    if area.is_empty() {
        return drawn;
    }
    buf.set_style(area, state.look.theme.style(Role::Text));
    if area.width < MIN_WIDTH || area.height < MIN_HEIGHT {
        let words = format!("{}x{} is too small", area.width, area.height);
        Line::styled(words, state.look.theme.style(Role::Warn)).render(area, buf);
        return drawn;
    }
    match state.screen {
        Screen::Picker => draw_picker(state, area, buf, &mut drawn),
        Screen::Main => draw_main(state, caches, area, buf, &mut drawn),
    }
    for dialog in &state.dialogs {
        drawn.metrics.dialog = draw_dialog(state, dialog, area, buf, &mut drawn.hits);
        drawn.cursor = drawn.metrics.dialog.cursor;
    }
    drawn
}

fn draw_picker(state: &State, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let [body, foot] = split_last_row(area);
    match &state.model {
        ModelState::Loading(loading) => {
            draw_load(state, loading, body, buf, &mut drawn.hits);
        }
        ModelState::None | ModelState::Loaded(_) | ModelState::Failed { .. } => {
            let data = picker::PickerData {
                theme: &state.look.theme,
                keymap: &state.keymap,
                loaded: state.model.info().map(|info| info.path.as_path()),
                error: match &state.model {
                    ModelState::Failed { message, .. } => Some(message),
                    ModelState::None | ModelState::Loading(_) | ModelState::Loaded(_) => None,
                },
            };
            drawn.metrics.picker = picker::draw_picker(&state.picker, &data, body, buf, &mut drawn.hits);
            drawn.cursor = drawn.metrics.picker.cursor;
        }
    }
    footer::draw_footer(state, foot, buf, &mut drawn.hits);
}

fn draw_main(state: &State, caches: &mut Caches, area: Rect, buf: &mut Buffer, drawn: &mut Drawn) {
    let theme = &state.look.theme;
    let rows = input::wanted_rows(state, area);
    let layout = layout::main(state, area, rows);
    header::draw_header(state, layout.header, buf);
    let looks = looks(&state.gauges, theme);
    frame::draw_frames(state, &layout, buf, &mut drawn.hits);
    if let Some(area) = layout.devices {
        drawn.hits.add(area, Target::Panel(PanelId::Devices));
        let cursor = (state.focus == PanelId::Devices && state.dialogs.is_empty()).then_some(state.device_cursor);
        let hot = state.layers.as_ref().and_then(|l| l.drop_hot);
        devices::draw_devices(&state.gauges, theme, cursor, hot, area, buf, &mut drawn.hits);
    }
    if let Some(area) = layout.layers {
        drawn.hits.add(area, Target::Panel(PanelId::Layers));
        match (&state.layers, &state.model) {
            (Some(layers), _) => {
                drawn.metrics.map = Some(draw_layers(state, layers, &looks, area, buf, &mut drawn.hits));
            }
            // The progress comes on top of everything; the chat says why it failed.
            (None, ModelState::Loading(_)) => {}
            (None, ModelState::None | ModelState::Loaded(_) | ModelState::Failed { .. }) => {
                Line::styled("no model is loaded", theme.style(Role::Dim)).render(area, buf);
            }
        }
    }
    drawn.hits.add(layout.chat, Target::Panel(PanelId::Chat));
    drawn.metrics.chat = chat::draw_chat(state, &mut caches.chat, layout.chat, buf, &mut drawn.hits);
    if let (None, ModelState::Loading(loading)) = (&state.layers, &state.model) {
        let above = layout.layers.unwrap_or(layout.chat);
        draw_load(state, loading, above.union(layout.chat), buf, &mut drawn.hits);
    }
    drawn.metrics.page = usize::from(layout.chat.height).saturating_sub(1).max(1);
    drawn.metrics.input_width = input::text_width(layout.input);
    let cursor = input::draw_input(state, layout.input, buf, &mut drawn.hits);
    if state.focus == PanelId::Input {
        drawn.cursor = cursor;
    }
    if let Some(area) = layout.footer {
        footer::draw_footer(state, area, buf, &mut drawn.hits);
    }
}

fn draw_load(state: &State, loading: &Loading, area: Rect, buf: &mut Buffer, hits: &mut Hits) {
    let devices: Vec<_> = state.gauges.devices.iter().map(|d| d.id).collect();
    let data = loading::LoadingData {
        theme: &state.look.theme,
        keymap: &state.keymap,
        name: None,
        devices: &devices,
        now: state.now,
    };
    loading::draw_loading(loading, &data, area, buf, hits);
}

fn draw_layers(
    state: &State,
    layers: &Layers,
    looks: &[DeviceLook],
    area: Rect,
    buf: &mut Buffer,
    hits: &mut Hits,
) -> Columns {
    let styles = state.look.theme.map_styles();
    let parts = part_infos(state, layers);
    let stale = layers.preview.as_ref().is_some_and(|p| p.placement != *layers.map.next());
    let picture = MapPicture {
        looks,
        styles: &styles,
        parts: parts.as_deref(),
        preview: layers.preview.as_ref(),
        preview_is_stale: stale,
        change: &layers.change.view,
        focused: state.focus == PanelId::Layers && state.dialogs.is_empty(),
    };
    let mut targets = Vec::new();
    let columns = draw_map(&layers.map, &picture, area, buf, &mut targets);
    hits.extend(targets.into_iter().map(|(area, target)| (area, Target::Layers(target))));
    columns
}

/// What is known of each part, in the model's order.
fn part_infos(state: &State, layers: &Layers) -> Option<Vec<PartInfoView>> {
    let info = state.model.info()?;
    let mut parts = vec![PartInfoView::default(); Part::count(info.n_layer)];
    for part in &info.parts {
        let index = part.part.index(info.n_layer);
        let ms = layers.part_ms.get(index).copied().flatten();
        if let Some(slot) = parts.get_mut(index) {
            *slot = PartInfoView { weight_bytes: part.weight_bytes, kv_bytes: part.kv_bytes, ms };
        }
    }
    Some(parts)
}

/// How the engine's devices look on the map.
pub fn looks(gauges: &Gauges, theme: &Theme) -> Vec<DeviceLook> {
    let in_engine = gauges.devices.iter().enumerate().filter(|(_, d)| d.in_engine);
    in_engine
        .map(|(index, device)| {
            let mark = theme.device(index);
            DeviceLook {
                id: device.id,
                letter: mark.letter,
                shape: mark.shape,
                style: mark.style,
                name: super::text::printable(&device.name).into_owned(),
            }
        })
        .collect()
}

fn draw_dialog(state: &State, dialog: &Dialog, area: Rect, buf: &mut Buffer, hits: &mut Hits) -> Shown {
    hits.add(area, Target::Outside);
    match dialog {
        Dialog::Details(details) => {
            let theme = &state.look.theme;
            let inside = frame::overlay(area);
            hits.add(inside, Target::Dialog);
            if let Some((index, row)) = state.gauges.find(details.device) {
                details::draw_details(row, theme.device(index), theme, state.now, inside, buf);
            }
            Shown::default()
        }
        Dialog::Help(_)
        | Dialog::Doctor(_)
        | Dialog::Palette(_)
        | Dialog::Settings(_)
        | Dialog::System(_)
        | Dialog::Sessions(_)
        | Dialog::Rename(_)
        | Dialog::Confirm(_) => {
            let data = dialogs::DialogData {
                keymap: &state.keymap,
                theme: &state.look.theme,
                findings: &state.findings,
                sessions: &state.sessions,
                open_session: state.chat.id.as_ref(),
                now: state.clock.with_timezone(&chrono::Local),
            };
            dialogs::draw_dialog(dialog, &data, area, buf, hits)
        }
    }
}

fn split_last_row(area: Rect) -> [Rect; 2] {
    let body = Rect { height: area.height.saturating_sub(1), ..area };
    let foot = Rect { y: area.y + body.height, height: area.height - body.height, ..area };
    [body, foot]
}
