//! The first line: model, context meter, what it does now.

use ratatui::buffer::Buffer;
use ratatui::layout::{Alignment, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::super::state::{ModelState, State};
use super::super::text::printable;
use super::super::text::width::{truncate_with, width};
use super::super::text::wrap::spans_width;
use super::super::theme::Role;
use super::super::units::grouped;

/// Cells of the context meter.
const METER_CELLS: usize = 8;
/// From this share on the context counts as nearly full.
pub const NEARLY_FULL: f64 = 0.85;

/// What of the line is left out where the model's name had too little room.
const FORMS: [Form; 3] =
    [Form { devices: true, meter: true }, Form { devices: false, meter: true }, Form { devices: false, meter: false }];
/// Enough of a name to know the model by.
const NAME_COLUMNS: usize = 20;

#[derive(Clone, Copy)]
struct Form {
    devices: bool,
    /// The bar; the figures stay.
    meter: bool,
}

pub fn draw_header(state: &State, area: Rect, buf: &mut Buffer) {
    let theme = &state.look.theme;
    let title = Span::styled(" layercake ", theme.style(Role::Title));
    let room_of =
        |right: &[Span<'_>]| usize::from(area.width).saturating_sub(spans_width(right) + 2 + width(&title.content));
    let (left, right) = match &state.model {
        ModelState::Loaded(info) => {
            let name = format!("{} {}", printable(&info.name), printable(&info.quant));
            let parts = |form: Form| (context_meter(state, info.n_ctx, form.meter), right_side(state, form.devices));
            let name_room = |form: &Form| {
                let (meter, right) = parts(*form);
                room_of(&right).saturating_sub(spans_width(&meter) + 1)
            };
            let wanted = width(&name).min(NAME_COLUMNS);
            let form = FORMS.into_iter().find(|form| name_room(form) >= wanted).unwrap_or(FORMS[2]);
            let (meter, right) = parts(form);
            let mut spans = vec![];
            let name = truncate_with(&name, name_room(&form), theme.cut()).into_owned();
            if width(&name) >= 6 {
                spans.push(Span::styled(name, theme.style(Role::Strong)));
            }
            if spans_width(&meter) <= room_of(&right) {
                spans.extend(meter);
            }
            (spans, right)
        }
        ModelState::Loading(loading) => {
            let file = loading.options.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let words = format!("loading {}", printable(&file));
            let right = right_side(state, true);
            let words = truncate_with(&words, room_of(&right), theme.cut()).into_owned();
            (vec![Span::styled(words, theme.style(Role::Dim))], right)
        }
        ModelState::Failed { .. } => {
            (vec![Span::styled("the model could not be loaded", theme.style(Role::Bad))], right_side(state, true))
        }
        ModelState::None => (vec![Span::styled("no model", theme.style(Role::Dim))], right_side(state, true)),
    };
    let mut spans = vec![title];
    spans.extend(left);
    Line::from(spans).render(area, buf);
    let right_width = spans_width(&right);
    if right_width + 12 <= usize::from(area.width) {
        let area = Rect { x: area.right() - right_width as u16 - 1, width: right_width as u16 + 1, ..area };
        Line::from(right).alignment(Alignment::Left).render(area, buf);
    }
}

fn context_meter(state: &State, n_ctx: u32, with_bar: bool) -> Vec<Span<'static>> {
    let theme = &state.look.theme;
    let n_past = state.chat.n_past;
    let share = if n_ctx == 0 { 0.0 } else { f64::from(n_past) / f64::from(n_ctx) };
    let role = match share {
        s if s >= 1.0 => Role::Bad,
        s if s >= NEARLY_FULL => Role::Warn,
        _ => Role::Dim,
    };
    // The last cell is full when the context is.
    let most = if share >= 1.0 { METER_CELLS } else { METER_CELLS - 1 };
    let full = ((share * METER_CELLS as f64).ceil() as usize).min(most);
    let (on, off, ends) = if theme.ascii { ("#", ".", ("[", "]")) } else { ("█", "░", ("▕", "▏")) };
    let dot = if theme.ascii { " - " } else { " · " };
    let figures = format!("{dot}ctx {}/{}", grouped(f64::from(n_past)), grouped(f64::from(n_ctx)));
    if !with_bar {
        return vec![Span::styled(figures, theme.style(role))];
    }
    vec![
        Span::styled(format!("{figures} {}", ends.0), theme.style(role)),
        Span::styled(on.repeat(full), theme.style(if share >= NEARLY_FULL { Role::Warn } else { Role::Accent })),
        Span::styled(format!("{}{}", off.repeat(METER_CELLS - full), ends.1), theme.style(Role::Dim)),
    ]
}

/// What goes on, shortest words that say it.
fn right_side(state: &State, with_devices: bool) -> Vec<Span<'static>> {
    let theme = &state.look.theme;
    let (on, idle) = if theme.ascii { ("*", "-") } else { ("●", "○") };
    let dot = if theme.ascii { " - " } else { " · " };
    let n_devices = state.gauges.devices.iter().filter(|d| d.in_engine).count();
    let devices = match n_devices {
        _ if !with_devices => " ".to_owned(),
        1 => format!("{dot}1 device "),
        n => format!("{dot}{n} devices "),
    };
    let (mark, words, role) = match (&state.chat.streaming, &state.model) {
        (Some(s), _) if s.stopping => (on, "stopping".to_owned(), Role::Warn),
        (Some(s), _) => match (s.prefill, s.rate(state.now)) {
            (Some((done, total)), _) if total > 0 => (on, format!("prefill {done}/{total}"), Role::Accent),
            (_, Some(rate)) => (on, format!("streaming {rate:.1} tok/s"), Role::Good),
            (_, None) => (on, "streaming".to_owned(), Role::Good),
        },
        (None, ModelState::Loading(_)) => (on, "loading".to_owned(), Role::Accent),
        (None, _) => match state.chat.decode_tokens_per_s {
            Some(rate) => (idle, format!("idle, last {rate:.1} tok/s"), Role::Dim),
            None => (idle, "idle".to_owned(), Role::Dim),
        },
    };
    vec![
        Span::styled(format!("{mark} "), theme.style(role)),
        Span::styled(words, theme.style(role)),
        Span::styled(devices, theme.style(Role::Dim)),
    ]
}
