//! The last line: words that just came, else the keys that matter here.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::super::action::Action;
use super::super::dialog::Dialog;
use super::super::hits::{Hits, PanelId, Target};
use super::super::state::{Level, Screen, State};
use super::super::text::printable;
use super::super::text::width::{truncate_with, width};
use super::super::theme::Role;

pub fn draw_footer(state: &State, area: Rect, buf: &mut Buffer, hits: &mut Hits) {
    let theme = &state.look.theme;
    if let Some(notice) = state.notices.back() {
        let role = match notice.level {
            Level::Good => Role::Good,
            Level::Info => Role::Text,
            Level::Warn => Role::Warn,
            Level::Bad => Role::Bad,
        };
        let words = format!(" {}", printable(&notice.text));
        Line::styled(truncate_with(&words, usize::from(area.width), theme.cut()).into_owned(), theme.style(role))
            .render(area, buf);
        return;
    }
    let hints = match state.dialogs.last() {
        None => hints(state),
        Some(Dialog::Details(_)) => &[(Action::Close, "close")],
        // The others have their keys at their edge.
        Some(_) => return,
    };
    let mut right = area.right();
    if !state.mouse {
        let words = format!("mouse released ({} takes it back) ", state.keymap.shown(Action::ReleaseMouse));
        let n = width(&words) as u16;
        if n <= area.width {
            right -= n;
            Line::styled(words, theme.style(Role::Warn)).render(Rect { x: right, width: n, ..area }, buf);
        }
    }
    let mut x = area.x + 1;
    for (action, words) in hints {
        let key = state.keymap.shown(*action);
        if key.is_empty() {
            continue;
        }
        let n = (width(&key) + 1 + width(words) + 2) as u16;
        if x + n > right {
            break;
        }
        let spans =
            vec![Span::styled(key, theme.style(Role::Key)), Span::styled(format!(" {words}"), theme.style(Role::Dim))];
        let place = Rect { x, width: n - 2, ..area };
        Line::from(spans).render(place, buf);
        hits.add(place, Target::Button(*action));
        x += n;
    }
}

fn hints(state: &State) -> &'static [(Action, &'static str)] {
    let streaming = state.chat.streaming.is_some();
    match (state.screen, state.focus) {
        (Screen::Picker, _) => &[
            (Action::Sessions, "sessions"),
            (Action::Palette, "all actions"),
            (Action::Doctor, "doctor"),
            (Action::Quit, "quit"),
        ],
        (Screen::Main, PanelId::Input) if streaming => &[
            (Action::Stop, "stop"),
            (Action::NextPanel, "panels"),
            (Action::FocusLayers, "layers"),
            (Action::Palette, "all actions"),
            (Action::ReleaseMouse, "mouse"),
        ],
        (Screen::Main, PanelId::Input) => &[
            (Action::Send, "send"),
            (Action::NewLine, "new line"),
            (Action::NextPanel, "panels"),
            (Action::FocusLayers, "layers"),
            (Action::Palette, "all actions"),
            (Action::Sessions, "sessions"),
            (Action::Quit, "quit"),
        ],
        (Screen::Main, PanelId::Chat) => &[
            (Action::CopyMessage, "copy"),
            (Action::CopyCode, "copy code"),
            (Action::Regenerate, "regenerate"),
            (Action::EditMessage, "edit"),
            (Action::Continue, "go on"),
            (Action::PreviousBranch, "branch"),
            (Action::FoldThinking, "thinking"),
            (Action::Help, "help"),
        ],
        (Screen::Main, PanelId::Devices) => &[
            (Action::DeviceDetails, "details"),
            (Action::NextPanel, "next panel"),
            (Action::Doctor, "doctor"),
            (Action::Help, "help"),
        ],
        (Screen::Main, PanelId::Layers) => &[
            (Action::LayerPick, "pick"),
            (Action::MoveSelection, "move to"),
            (Action::LayerAuto, "auto"),
            (Action::Apply, "apply"),
            (Action::ApplyNow, "now"),
            (Action::LayerUndo, "undo"),
            (Action::CancelChange, "cancel"),
            (Action::Help, "help"),
        ],
    }
}
