//! The conversation: messages laid out once, and a window on their lines.

use std::collections::HashMap;
use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::super::action::Action;
use super::super::hits::{Hits, PanelId, Target};
use super::super::state::{ModelState, State};
use super::super::text::width::truncate_with;
use super::super::text::{Document, Piece, TextStyles, printable, split_thinking};
use super::super::theme::{Role, Theme};
use super::window::wrap_words;
use crate::sessions::{Figures, Message, MessageEnd, MessageId, Role as Speaker};

/// Columns left of the text: the mark of the chosen message and a space.
const GUTTER: u16 = 2;
/// Copies a code block when it is clicked.
const COPY_MARK: &str = "[copy]";

/// What of the conversation is where.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatMetrics {
    /// Lines in all.
    pub n_lines: usize,
    /// Lines that are shown.
    pub height: usize,
    /// The first of them.
    pub top: usize,
    /// Each message of the branch, with its lines.
    pub messages: Vec<(MessageId, Range<usize>)>,
}

impl ChatMetrics {
    /// First line of the last page.
    pub fn last_top(&self) -> usize {
        self.n_lines.saturating_sub(self.height)
    }
}

/// Laid-out messages, by number.
#[derive(Default)]
pub struct ChatCache {
    messages: HashMap<MessageId, CachedMessage>,
}

/// What a message's lines depend on.
#[derive(Clone, PartialEq)]
struct Key {
    n_bytes: usize,
    end: MessageEnd,
    streaming: bool,
    width: u16,
    version: u64,
    unfolded: bool,
    /// Which of how many branches.
    siblings: Option<(usize, usize)>,
    figures: Option<Figures>,
}

struct CachedMessage {
    key: Key,
    /// Where it was laid out last, to forget what is not shown any more.
    head: Line<'static>,
    blocks: Vec<Block>,
    foot: Option<Line<'static>>,
    n_lines: usize,
}

enum Block {
    /// The one line that stands for a thought or heads it.
    Thought(Line<'static>),
    Text {
        document: Document,
        thought: bool,
    },
}

pub fn draw_chat(state: &State, cache: &mut ChatCache, area: Rect, buf: &mut Buffer, hits: &mut Hits) -> ChatMetrics {
    let theme = &state.look.theme;
    let path = state.chat.session.conversation.path();
    if path.is_empty() {
        draw_empty(state, area, buf);
        return ChatMetrics { height: usize::from(area.height), ..ChatMetrics::default() };
    }
    let width = area.width.saturating_sub(GUTTER + 1);
    let styles = theme.text_styles();
    let mut metrics = ChatMetrics { height: usize::from(area.height), ..ChatMetrics::default() };
    for message in &path {
        let n_lines = cache.lay_out(state, message, width, &styles);
        metrics.messages.push((message.id, metrics.n_lines..metrics.n_lines + n_lines));
        metrics.n_lines += n_lines;
    }
    metrics.top = state.chat.top.unwrap_or(usize::MAX).min(metrics.last_top());

    let window = metrics.top..metrics.top + metrics.height;
    for (message, (id, lines)) in path.iter().zip(&metrics.messages) {
        if lines.end <= window.start || lines.start >= window.end {
            continue;
        }
        let Some(cached) = cache.messages.get(id) else { continue };
        draw_message(state, cached, message, lines, &window, area, buf, hits);
    }
    draw_scroll_mark(theme, &metrics, state.chat.top.is_none(), area, buf);
    if cache.messages.len() > 2 * path.len() + 64 {
        let shown: std::collections::HashSet<_> = path.iter().map(|m| m.id).collect();
        cache.messages.retain(|id, _| shown.contains(id));
    }
    metrics
}

impl ChatCache {
    /// Another conversation: its messages have the same numbers.
    pub fn clear(&mut self) {
        self.messages.clear();
    }

    /// Lays a message out where it is not yet, and gives the number of its lines, the blank one behind it included.
    fn lay_out(&mut self, state: &State, message: &Message, width: u16, styles: &TextStyles) -> usize {
        let streaming = state.chat.streaming.as_ref().is_some_and(|s| s.message == message.id);
        let unfolded = state.chat.unfolded.contains(&message.id);
        let key = Key {
            n_bytes: message.text.len(),
            end: message.end.clone(),
            streaming,
            width,
            version: state.look.theme.version,
            unfolded,
            siblings: state.chat.session.conversation.siblings(message.id),
            figures: message.figures,
        };
        let entry = self.messages.entry(message.id);
        let cached = match entry {
            std::collections::hash_map::Entry::Occupied(entry) => {
                let cached = entry.into_mut();
                if cached.key == key && !streaming {
                    return cached.n_lines;
                }
                cached
            }
            std::collections::hash_map::Entry::Vacant(entry) => entry.insert(CachedMessage {
                key: key.clone(),
                head: Line::default(),
                blocks: vec![],
                foot: None,
                n_lines: 0,
            }),
        };
        cached.head = head_line(state, message, &head_words(&state.look.theme, &key));
        cached.foot = foot_line(state, message, streaming);
        cached.lay_out_blocks(state, message, &key, styles);
        cached.key = key;
        let body: usize = cached.blocks.iter().map(Block::n_lines).sum();
        cached.n_lines = 1 + body + usize::from(cached.foot.is_some()) + 1;
        cached.n_lines
    }
}

impl CachedMessage {
    fn lay_out_blocks(&mut self, state: &State, message: &Message, key: &Key, styles: &TextStyles) {
        let theme = &state.look.theme;
        let pieces = match message.role {
            Speaker::User => vec![Piece::Answer { text: 0..message.text.len() }],
            Speaker::Assistant => split_thinking(&message.text, message.thinks_first, !key.streaming),
        };
        let n_pieces = pieces.len();
        let mut documents: Vec<_> = std::mem::take(&mut self.blocks)
            .into_iter()
            .filter_map(|block| match block {
                Block::Thought(_) => None,
                Block::Text { document, thought } => Some((document, thought)),
            })
            .collect();
        documents.reverse();
        let mut document = |thought: bool| match documents.pop_if(|(_, was_thought)| *was_thought == thought) {
            Some((document, _)) => document,
            None => Document::new(),
        };
        for (index, piece) in pieces.into_iter().enumerate() {
            let last = index + 1 == n_pieces;
            match piece {
                Piece::Thinking { text, closed } => {
                    let thinking = key.streaming && !closed && last;
                    self.blocks.push(Block::Thought(thought_line(state, message, thinking, key.unfolded)));
                    if key.unfolded {
                        let mut document = document(true);
                        let quiet = quiet_styles(theme, styles);
                        let width = key.width.saturating_sub(2);
                        document.layout(&message.text[text], width, &quiet, key.version ^ 1, !thinking);
                        self.blocks.push(Block::Text { document, thought: true });
                    }
                }
                Piece::Answer { text } => {
                    let mut document = document(false);
                    let finished = !(key.streaming && last);
                    document.layout(&message.text[text], key.width, styles, key.version, finished);
                    self.blocks.push(Block::Text { document, thought: false });
                }
            }
        }
    }
}

impl Block {
    fn n_lines(&self) -> usize {
        match self {
            Block::Thought(_) => 1,
            Block::Text { document, .. } => document.lines().len(),
        }
    }
}

/// Thoughts are set apart from the answer by one quiet style.
fn quiet_styles(theme: &Theme, styles: &TextStyles) -> TextStyles {
    TextStyles { text: theme.style(Role::Thinking), code_block: theme.style(Role::Thinking), ..styles.clone() }
}

fn dot(theme: &Theme) -> &'static str {
    if theme.ascii { " - " } else { " · " }
}

/// Who speaks, which branch this is, and what it took.
fn head_words(theme: &Theme, key: &Key) -> String {
    let mut words = String::new();
    if let Some((index, n)) = key.siblings
        && n > 1
    {
        let (left, right) = if theme.ascii { ("<", ">") } else { ("‹", "›") };
        words += &format!("{}{left}{}/{n}{right}", dot(theme), index + 1);
    }
    if let Some(figures) = &key.figures
        && figures.n_tokens > 0
    {
        let plural = if figures.n_tokens == 1 { "" } else { "s" };
        words += &format!("{}{} token{plural}", dot(theme), figures.n_tokens);
        // One token alone has no time between tokens.
        if figures.n_tokens > 1 && figures.decode_ms > 0.0 {
            words += &format!("{}{:.1} tok/s", dot(theme), (figures.n_tokens - 1) as f64 * 1e3 / figures.decode_ms);
        }
    }
    words
}

fn head_line(state: &State, message: &Message, words: &str) -> Line<'static> {
    let theme = &state.look.theme;
    let (name, role) = match message.role {
        Speaker::User => ("You".to_owned(), Role::User),
        Speaker::Assistant => {
            let name = state.model.info().map(|i| i.name.clone());
            let name = name.or_else(|| state.chat.session.model.as_ref().map(|m| m.name.clone()));
            (name.filter(|n| !n.is_empty()).unwrap_or_else(|| "Answer".to_owned()), Role::Assistant)
        }
    };
    Line::from(vec![
        Span::styled(truncate_with(&printable(&name), 40, theme.cut()).into_owned(), theme.style(role)),
        Span::styled(words.to_owned(), theme.style(Role::Dim)),
    ])
}

fn foot_line(state: &State, message: &Message, streaming: bool) -> Option<Line<'static>> {
    let theme = &state.look.theme;
    let quiet = |words: &str| Some(Line::styled(words.to_owned(), theme.style(Role::Dim)));
    let key = |action| state.keymap.shown(action);
    if streaming {
        let words = if message.text.is_empty() { "…" } else { return None };
        return quiet(if theme.ascii { "..." } else { words });
    }
    match &message.end {
        MessageEnd::Complete => None,
        MessageEnd::Stopped => quiet(&format!("stopped ({} in the chat goes on)", key(Action::Continue))),
        MessageEnd::MaxTokens => {
            quiet(&format!("the token limit was reached ({} in the chat goes on)", key(Action::Continue)))
        }
        MessageEnd::ContextFull => {
            let words = format!("the context is full: {} starts a new session", key(Action::NewSession));
            Some(Line::styled(words, theme.style(Role::Warn)))
        }
        MessageEnd::Failed(error) => {
            Some(Line::styled(format!("failed: {}", printable(error)), theme.style(Role::Bad)))
        }
        MessageEnd::Partial => {
            quiet(&format!("cut off when the program ended ({} in the chat goes on)", key(Action::Continue)))
        }
    }
}

fn thought_line(state: &State, message: &Message, thinking: bool, unfolded: bool) -> Line<'static> {
    let theme = &state.look.theme;
    let arrow = match (theme.ascii, unfolded) {
        (true, true) => "v",
        (true, false) => ">",
        (false, true) => "▾",
        (false, false) => "▸",
    };
    let streamed = state.chat.streaming.as_ref().filter(|s| s.message == message.id);
    let seconds = match (streamed, &message.figures) {
        (Some(s), _) => s.first_token_at.map(|from| s.thinking_ended_at.unwrap_or(state.now).saturating_sub(from)),
        (None, figures) => {
            figures.and_then(|f| f.thinking_ms).map(|ms| std::time::Duration::from_secs_f64(ms.max(0.0) / 1e3))
        }
    };
    let time = seconds.map(|s| format!(" {:.1} s", s.as_secs_f64())).unwrap_or_default();
    let words = if thinking { format!("{arrow} thinking{time}") } else { format!("{arrow} thought for{time}") };
    let words = if thinking || !time.is_empty() { words } else { format!("{arrow} thought") };
    Line::styled(words, theme.style(Role::Thinking))
}

/// The lines of one message that the window shows.
#[allow(clippy::too_many_arguments)]
fn draw_message(
    state: &State,
    cached: &CachedMessage,
    message: &Message,
    lines: &Range<usize>,
    window: &Range<usize>,
    area: Rect,
    buf: &mut Buffer,
    hits: &mut Hits,
) {
    let theme = &state.look.theme;
    let chosen = state.chat.chosen == Some(message.id) && state.focus == PanelId::Chat;
    let first = lines.start.max(window.start);
    let last = (lines.end - 1).min(window.end);
    let row_of = |line: usize| area.y + (line - window.start) as u16;
    if first < last {
        let height = (last - first) as u16;
        hits.add(Rect { y: row_of(first), height, ..area }, Target::Message(message.id));
    }
    let mut put = |line: usize, text: &Line<'_>, indent: u16| {
        if !window.contains(&line) {
            return;
        }
        let y = row_of(line);
        if chosen {
            let mark = if theme.ascii { "|" } else { "▌" };
            buf.set_string(area.x, y, mark, theme.style(Role::Accent));
        }
        let x = area.x + GUTTER + indent;
        if x < area.right() {
            text.render(Rect { x, y, width: area.right() - x, height: 1 }, buf);
        }
    };
    let mut at = lines.start;
    put(at, &cached.head, 0);
    at += 1;
    let (mut n_code_blocks, mut copies) = (0, vec![]);
    for block in &cached.blocks {
        match block {
            Block::Thought(line) => {
                put(at, line, 0);
                if window.contains(&at) {
                    hits.add(Rect { y: row_of(at), height: 1, ..area }, Target::Thinking(message.id));
                }
                at += 1;
            }
            Block::Text { document, thought } => {
                let indent = if *thought { 2 } else { 0 };
                for (index, line) in document.lines().iter().enumerate() {
                    put(at + index, line, indent);
                }
                if !thought {
                    for code in document.code_blocks() {
                        let line = at + code.lines.start;
                        if window.contains(&line) {
                            copies.push((row_of(line), n_code_blocks));
                        }
                        n_code_blocks += 1;
                    }
                }
                at += document.lines().len();
            }
        }
    }
    if let Some(foot) = &cached.foot {
        put(at, foot, 0);
    }
    if area.width > COPY_MARK.len() as u16 + GUTTER + 12 {
        for (y, block) in copies {
            let width = COPY_MARK.len() as u16;
            let place = Rect { x: area.right() - width - 1, y, width, height: 1 };
            buf.set_string(place.x, y, COPY_MARK, theme.style(Role::Key));
            hits.add(place, Target::CopyCode { message: message.id, block });
        }
    }
}

/// Where the window is, at the right side; words when newer text is below it.
fn draw_scroll_mark(theme: &Theme, metrics: &ChatMetrics, following: bool, area: Rect, buf: &mut Buffer) {
    if metrics.n_lines <= metrics.height || area.height == 0 {
        return;
    }
    let height = usize::from(area.height);
    let size = (height * metrics.height).div_ceil(metrics.n_lines).clamp(1, height);
    let last_top = metrics.last_top().max(1);
    let from = (height - size) * metrics.top / last_top;
    let mark = if theme.ascii { "|" } else { "▐" };
    for row in from..(from + size).min(height) {
        buf.set_string(area.right() - 1, area.y + row as u16, mark, theme.style(Role::Border));
    }
    if !following && metrics.top < metrics.last_top() {
        let words = format!(" {} more lines ", metrics.last_top() - metrics.top);
        let n = words.len() as u16;
        if area.width > n + 4 {
            let x = area.right() - n - 2;
            buf.set_string(x, area.bottom() - 1, words, theme.style(Role::Notice));
        }
    }
}

fn draw_empty(state: &State, area: Rect, buf: &mut Buffer) {
    let theme = &state.look.theme;
    let key = |action| state.keymap.shown(action);
    let lines: Vec<String> = match &state.model {
        ModelState::Loaded(info) => vec![
            format!("{} is ready. Write a message below.", printable(&info.name)),
            String::new(),
            format!(
                "{} the layers   {} the devices   {} every action",
                key(Action::FocusLayers),
                key(Action::FocusDevices),
                key(Action::Palette)
            ),
            "While an answer streams, drag a block of layers to another device: the next answer comes from there."
                .to_owned(),
        ],
        ModelState::Loading(_) => vec!["The model is loading.".to_owned()],
        ModelState::Failed { path, message } => vec![
            format!("{} could not be loaded.", printable(&path.to_string_lossy())),
            printable(message).into_owned(),
            format!("{} opens another model.", key(Action::Models)),
        ],
        ModelState::None => vec![format!("No model is open. {} lists those that are here.", key(Action::Models))],
    };
    let columns = usize::from(area.width.saturating_sub(GUTTER + 1));
    // A blank line stays one.
    let wrapped = |words: &String| match wrap_words(words, columns) {
        lines if lines.is_empty() => vec![String::new()],
        lines => lines,
    };
    let lines: Vec<(usize, String)> =
        lines.iter().enumerate().flat_map(|(i, words)| wrapped(words).into_iter().map(move |line| (i, line))).collect();
    let first = area.y + area.height.saturating_sub(lines.len() as u16 + 1) / 3;
    for (row, (index, words)) in lines.iter().enumerate() {
        let y = first + row as u16;
        if y >= area.bottom() {
            break;
        }
        let words = truncate_with(words, columns, theme.cut());
        let role = if *index == 0 { Role::Text } else { Role::Dim };
        buf.set_string(area.x + GUTTER, y, words, theme.style(role));
    }
}
