//! Which panel gets which lines.

use ratatui::layout::Rect;

use super::super::layers;
use super::super::state::State;
use super::devices;

/// Below this there is only a word.
pub const MIN_WIDTH: u16 = 20;
pub const MIN_HEIGHT: u16 = 4;

/// From here on there are frames at the sides.
const FRAMED_WIDTH: u16 = 60;
/// Lines of text that the chat keeps before the other panels get more than they need.
const MIN_CHAT_ROWS: u16 = 5;
/// Below this many lines the panels above the chat go: first the layers, then the devices.
const MIN_HEIGHT_FOR_LAYERS: u16 = 16;
const MIN_HEIGHT_FOR_DEVICES: u16 = 12;
/// Below this each panel has what it cannot do without.
const MIN_HEIGHT_FOR_COMFORT: u16 = 34;

/// Insides of the panels; the frames lie around them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Layout {
    pub header: Rect,
    pub devices: Option<Rect>,
    pub layers: Option<Rect>,
    pub chat: Rect,
    pub input: Rect,
    pub footer: Option<Rect>,
    /// Whether there are frames at the sides.
    pub framed: bool,
}

/// Columns inside of the panels.
pub fn inner_width(area: Rect) -> u16 {
    if area.width >= FRAMED_WIDTH { area.width - 2 } else { area.width }
}

/// The main screen. `input_rows` is what the input wants.
pub fn main(state: &State, area: Rect, input_rows: u16) -> Layout {
    let framed = area.width >= FRAMED_WIDTH;
    let inner_width = inner_width(area);
    let show_devices = area.height >= MIN_HEIGHT_FOR_DEVICES && !state.gauges.devices.is_empty();
    let show_layers = area.height >= MIN_HEIGHT_FOR_LAYERS;
    let footer_rows = u16::from(area.height >= 8);

    // One line of frame above each panel and one below the last.
    let n_panels = 2 + u16::from(show_devices) + u16::from(show_layers);
    let frames = if area.height >= 8 { n_panels + 1 } else { 1 };
    let fixed = 1 + footer_rows + frames + input_rows;
    let mut left = area.height.saturating_sub(fixed + MIN_CHAT_ROWS.min(area.height / 4));

    // What each cannot do without comes first, then what it wants.
    let n_devices = state.gauges.devices.len();
    let map_least = 4.min(left);
    let device_room = left.saturating_sub(if show_layers { map_least } else { 0 });
    // On a low screen the chat needs the lines more than the devices' second ones and the map's hints.
    let device_most = if area.height < MIN_HEIGHT_FOR_COMFORT { n_devices as u16 + 1 } else { area.height / 2 };
    let device_wanted = devices::wanted_height(n_devices, inner_width, device_room.min(device_most));
    let device_rows = if show_devices { device_wanted.min(device_room).max(1).min(left) } else { 0 };
    left -= device_rows;
    let map_wanted = state.layers.as_ref().map_or(1, |l| layers::wanted_height(&l.map, inner_width));
    let map_most = if area.height < MIN_HEIGHT_FOR_COMFORT { map_least.max(5) } else { map_wanted };
    let layer_rows = if show_layers { map_wanted.min(map_most).max(map_least).min(left) } else { 0 };

    let mut y = area.y;
    let mut rows = |n: u16, pad_before: u16| {
        y += pad_before;
        let top = y.min(area.bottom());
        let height = n.min(area.bottom() - top);
        y = top + height;
        let x = area.x + u16::from(framed);
        Rect { x, y: top, width: inner_width, height }
    };
    let frame = u16::from(area.height >= 8);
    let header = Rect { x: area.x, width: area.width, ..rows(1, 0) };
    let devices = show_devices.then(|| rows(device_rows, 1));
    let layers = show_layers.then(|| rows(layer_rows, 1));
    let used = 1 + footer_rows + frames + input_rows + device_rows + layer_rows;
    let chat = rows(area.height.saturating_sub(used), frame);
    let input = rows(input_rows, 1);
    let footer = (footer_rows > 0).then(|| Rect { x: area.x, width: area.width, ..rows(1, 1) });
    Layout { header, devices, layers, chat, input, footer, framed }
}
