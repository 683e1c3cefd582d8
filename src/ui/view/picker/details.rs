//! What is known of the chosen model, in full.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::table::params_text;
use crate::engine::inventory::{ModelFacts, Verdict};
use crate::ui::msg::DemoProgress;
use crate::ui::picker::{Choice, Picker};
use crate::ui::theme::Role;
use crate::ui::view::window::{Look, bytes_text, count_text, put};

/// What is known of the chosen one, whether it runs here, and its path.
pub fn draw_details(
    picker: &Picker,
    choice: Option<&Choice>,
    error: Option<&str>,
    look: Look<'_>,
    lines: Rect,
    buf: &mut Buffer,
) {
    let dot = format!(" {} ", look.glyphs().dot);
    let (facts, (runs, role), path) = match choice {
        Some(Choice::Model(path)) => {
            let known = picker.known(path);
            let mut words = known.and_then(|known| known.facts.as_ref()).map(facts_words).unwrap_or_default();
            if let Some(entry) = picker.entry(path) {
                words.extend((entry.n_shards > 1).then(|| format!("{} files", entry.n_shards)));
                words.push(entry.origin.label().to_owned());
            }
            (words.join(&dot), verdict_words(known.map(|known| &known.verdict)), path.to_string_lossy().into_owned())
        }
        Some(Choice::Demo) => (
            "A small language model to try everything with; pip needs Python 3".to_owned(),
            match picker.demo() {
                Some(DemoProgress::Failed(why)) => (why.clone(), Role::Bad),
                Some(DemoProgress::Bytes { .. } | DemoProgress::Words(_) | DemoProgress::Ready(_)) | None => {
                    (String::new(), Role::Text)
                }
            },
            picker.demo_path().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default(),
        ),
        Some(Choice::Typed(_)) | None => (String::new(), (String::new(), Role::Text), String::new()),
    };
    let (runs, role) = error.map_or((runs, role), |error| (error.to_owned(), Role::Bad));
    put(buf, lines, 0, 0, &facts, look.style(Role::Text), look);
    put(buf, lines, 0, 1, &runs, look.style(role), look);
    put(buf, lines, 0, 2, &path, look.style(Role::Dim), look);
}

/// The verdict in full.
fn verdict_words(verdict: Option<&Verdict>) -> (String, Role) {
    match verdict {
        None => ("Its header is being read".to_owned(), Role::Dim),
        Some(Verdict::Fits { on }) => (format!("Fits on {on}"), Role::Good),
        Some(Verdict::FitsSplit { over }) => {
            let ids: Vec<_> = over.iter().map(ToString::to_string).collect();
            (format!("Fits when it is split over {}", ids.join(", ")), Role::Good)
        }
        Some(Verdict::TooLarge { short_bytes }) => {
            let words = "a shorter context or a KV cache of q8_0 needs less (settings)";
            (format!("Too large by {}; {words}", bytes_text(*short_bytes)), Role::Warn)
        }
        Some(Verdict::Unsupported { why }) => (format!("Cannot run: {why}"), Role::Bad),
        Some(Verdict::Unreadable { why }) => (format!("Cannot be read: {why}"), Role::Bad),
    }
}

fn facts_words(facts: &ModelFacts) -> Vec<String> {
    let mut words: Vec<String> = vec![];
    words.extend((!facts.arch.is_empty()).then(|| facts.arch.clone()));
    words.push(facts.quant.clone());
    words.push(format!("{} parameters", params_text(facts)));
    words.extend(facts.n_layer.map(|n| format!("{n} layers")));
    words.extend(facts.n_ctx_train.map(|n| format!("ctx {}", count_text(u64::from(n)))));
    let experts = facts.n_expert.map(|n| match facts.n_expert_used {
        Some(used) => format!("{n} experts, {used} at a time"),
        None => format!("{n} experts"),
    });
    words.extend(experts);
    words
}
