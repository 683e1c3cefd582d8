//! The text below or beside the rows: what the draft means, the devices, what is pointed at, the buttons.

use ratatui::layout::Rect;
use ratatui::text::Line;

use super::draw::{Canvas, MapPicture};
use super::info::Say;
use super::legend::{Entry, legend, separator};
use super::view::{ChangeView, LayerTarget, MapButton};

const BUTTONS: [(MapButton, &str); 6] = [
    (MapButton::Apply, "[Apply]"),
    (MapButton::ApplyNow, "[Apply now]"),
    (MapButton::Undo, "[Undo]"),
    (MapButton::Redo, "[Redo]"),
    (MapButton::Auto, "[Auto]"),
    (MapButton::Cancel, "[Cancel]"),
];

impl Canvas<'_, '_> {
    /// The lines of text, the most needed first.
    pub fn info(&mut self, area: Rect) {
        if area.is_empty() {
            return;
        }
        let MapPicture { looks, styles, parts, preview, preview_is_stale, change, focused } = *self.picture;
        let say = Say { map: self.map, looks, styles, signs: self.signs };
        let width = usize::from(area.width);
        let has_changes = self.map.has_changes() || self.map.is_typing();
        // Once is enough: a refusal has the words of the forecast.
        let said = matches!((change, preview), (ChangeView::Refused(why), Some(p)) if p.refused.as_ref() == Some(why));
        let verdict = if has_changes && !said { say.verdict(preview, preview_is_stale, width) } else { Vec::new() };
        let ended = matches!(change, ChangeView::Switched { .. } | ChangeView::Cancelled);
        let change = if ended && has_changes { Vec::new() } else { say.change(change, width) };
        let (first, second) = if self.map.gesture.is_some() { (verdict, change) } else { (change, verdict) };
        let pointed = say.pointed(parts, focused, width);

        let height = usize::from(area.height);
        // A long refusal takes more lines only where there are some.
        let n_first = first.len().min(height.saturating_sub(1 + usize::from(!second.is_empty())).max(1));
        let n_second = second.len().min(height.saturating_sub(n_first + 1).max(usize::from(n_first < height)));
        let mut left = height - n_first.min(height) - n_second.min(height);
        let mut y = area.y;
        for (lines, n) in [(first, n_first), (second, n_second)] {
            let is_cut = lines.len() > n;
            for (i, line) in lines.into_iter().take(n).enumerate() {
                let cut = is_cut && i + 1 == n;
                self.text(line, Rect::new(area.x, y, area.width, 1), cut);
                y += 1;
            }
        }
        // With one line left, what the pointer asks for goes before the legend.
        let pointed_first = left == 1 && self.map.hover.is_some() && pointed.is_some() && n_first == 0;
        if left > 0 && !pointed_first {
            let lines = legend(self.map, looks, styles, width, left.saturating_sub(2).max(1));
            left -= lines.len().min(left);
            for line in lines {
                self.legend_line(line, Rect::new(area.x, y, area.width, 1));
                y += 1;
            }
        }
        let buttons_first = has_changes || !matches!(self.picture.change, ChangeView::None);
        for buttons in [buttons_first, !buttons_first] {
            if left == 0 {
                break;
            }
            let line = Rect::new(area.x, y, area.width, 1);
            match (buttons, &pointed) {
                (true, _) => self.buttons(line),
                (false, Some(pointed)) => self.text(pointed.clone(), line, false),
                (false, None) => continue,
            }
            left -= 1;
            y += 1;
        }
    }

    fn text(&mut self, line: Line<'static>, area: Rect, is_cut: bool) {
        let width = line.width();
        self.buf.set_line(area.x, area.y, &line, area.width);
        let more = self.signs.more;
        let n_more = u16::try_from(more.chars().count()).unwrap_or(1);
        if (is_cut || width > usize::from(area.width)) && area.width >= n_more {
            let end = u16::try_from(width).unwrap_or(u16::MAX).min(area.width - n_more);
            self.buf.set_stringn(area.x + end, area.y, more, usize::from(n_more), line.style);
        }
    }

    fn legend_line(&mut self, entries: Vec<Entry>, area: Rect) {
        let mut x = area.x;
        for (i, entry) in entries.into_iter().enumerate() {
            if i > 0 {
                let gap = separator(self.picture.styles);
                x = self.buf.set_line(x, area.y, &Line::from(gap), area.right().saturating_sub(x)).0;
            }
            let id = entry.id;
            let room = area.right().saturating_sub(x);
            let end = self.buf.set_line(x, area.y, &Line::from(entry.spans), room).0;
            if end > x {
                self.hits.push((Rect::new(x, area.y, end - x, 1), LayerTarget::Device(id)));
            }
            x = end;
        }
    }

    fn buttons(&mut self, area: Rect) {
        let styles = self.picture.styles;
        let mut x = area.x;
        for (button, label) in BUTTONS {
            let can = match button {
                MapButton::Apply | MapButton::ApplyNow => self.map.has_changes(),
                MapButton::Undo => self.map.can_undo(),
                MapButton::Redo => self.map.can_redo(),
                MapButton::Auto | MapButton::Cancel => true,
            };
            let width = u16::try_from(label.len()).unwrap_or(0);
            if x + width > area.right() {
                return;
            }
            self.buf.set_stringn(x, area.y, label, usize::from(width), if can { styles.text } else { styles.dim });
            self.hits.push((Rect::new(x, area.y, width, 1), LayerTarget::Button(button)));
            x += width + 1;
        }
    }
}
