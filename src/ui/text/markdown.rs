//! Markdown to lines: the walk over the parser's events.
//!
//! A single line break in the source is one on the screen: models write their paragraphs as one line, so a break is
//! meant. Nesting is a list of containers, not recursion: a model may nest as deeply as it likes.

mod lines;

use pulldown_cmark::{Alignment, BlockQuoteKind, CodeBlockKind, CowStr, Event, HeadingLevel, Options, Tag, TagEnd};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::code::{code_label, code_line, language};
use super::document::CodeBlock;
use super::highlight::Highlight;
use super::sanitise::{printable, printable_text};
use super::styles::TextStyles;
use super::table::{self, Table};
use super::width::width;
use super::wrap::{Piece, push_piece};

/// What is understood beyond CommonMark. Mathematics only so that it can be left as it is.
pub const OPTIONS: Options = Options::ENABLE_TABLES
    .union(Options::ENABLE_FOOTNOTES)
    .union(Options::ENABLE_STRIKETHROUGH)
    .union(Options::ENABLE_TASKLISTS)
    .union(Options::ENABLE_MATH)
    .union(Options::ENABLE_GFM);

/// Containers nested deeper are not indented further.
const MAX_INDENTED: usize = 24;

/// Blocks that hold blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Root,
    Quote,
    /// The number of its next item, where it is numbered.
    List(Option<u64>),
    Item,
}

struct Container {
    kind: Kind,
    /// What stands before its first line, until that is written.
    first: Option<Span<'static>>,
    /// What stands before its other lines; as wide as `first`.
    rest: Span<'static>,
    has_content: bool,
    /// Lists and items: blank lines are between its parts.
    loose: bool,
}

/// A link or image that is being read.
struct Link {
    url: String,
    /// What it shows.
    text: String,
}

/// Where lines go, and what is known while they are made.
pub struct Writer<'a> {
    columns: usize,
    styles: &'a TextStyles,
    lines: &'a mut Vec<Line<'static>>,
    code_blocks: &'a mut Vec<CodeBlock>,
    highlights: &'a mut Vec<Highlight>,
    containers: Vec<Container>,
    /// The styles of the open inline elements, each laid over the one before.
    style: Vec<Style>,
    inline: Vec<Piece>,
    links: Vec<Link>,
    /// Info string and text of the code block that is being read.
    code: Option<(String, String)>,
    table: Option<(Table, Vec<table::Cell>)>,
    /// A blank line is due, within this many of the containers.
    blank: Option<usize>,
}

impl<'a> Writer<'a> {
    /// `apart`: a blank line goes before the first block.
    pub fn new(
        columns: usize,
        styles: &'a TextStyles,
        apart: bool,
        lines: &'a mut Vec<Line<'static>>,
        code_blocks: &'a mut Vec<CodeBlock>,
        highlights: &'a mut Vec<Highlight>,
    ) -> Self {
        let root = Container { kind: Kind::Root, first: None, rest: Span::raw(""), has_content: apart, loose: true };
        Writer {
            columns,
            styles,
            lines,
            code_blocks,
            highlights,
            containers: vec![root],
            style: vec![styles.text],
            inline: Vec::new(),
            links: Vec::new(),
            code: None,
            table: None,
            blank: None,
        }
    }

    pub fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some((_, code)) => code.push_str(text),
                None => self.text(text, self.top()),
            },
            Event::Code(code) => self.text(code, self.top().patch(self.styles.code)),
            Event::InlineMath(math) => self.text(&format!("${math}$"), self.top()),
            Event::DisplayMath(math) => self.text(&format!("$${math}$$"), self.top()),
            Event::Html(html) | Event::InlineHtml(html) => self.html(html),
            Event::FootnoteReference(label) => self.text(&format!("[{label}]"), self.top().patch(self.styles.link)),
            Event::SoftBreak | Event::HardBreak => self.text("\n", self.top()),
            Event::Rule => {
                self.begin_block();
                let dash = if self.styles.ascii { "-" } else { "─" };
                let rule = Span::styled(dash.repeat(self.room()), self.styles.rule);
                self.emit(vec![vec![rule]]);
            }
            Event::TaskListMarker(done) => {
                let marker = if *done { "[x] " } else { "[ ] " };
                if let Some(item) = self.containers.last_mut().filter(|item| item.first.is_some()) {
                    item.first = Some(Span::styled(marker, self.styles.list_marker));
                    item.rest = Span::raw("    ");
                }
            }
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Paragraph => {
                self.loosen();
                self.begin_block();
            }
            Tag::HtmlBlock => self.begin_block(),
            Tag::Heading { level, .. } => {
                self.begin_block();
                let [one, two, deeper] = self.styles.heading;
                self.push_style(match level {
                    HeadingLevel::H1 => one,
                    HeadingLevel::H2 => two,
                    HeadingLevel::H3 | HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6 => deeper,
                });
            }
            Tag::BlockQuote(kind) => {
                self.begin_block();
                self.push_style(self.styles.quote);
                let bar = Span::styled(if self.styles.ascii { "| " } else { "│ " }, self.styles.quote);
                self.open(Kind::Quote, bar.clone(), bar);
                if let Some(kind) = kind {
                    self.begin_block();
                    self.text(quote_name(*kind), self.top().patch(self.styles.strong));
                    self.flush();
                    // The text follows its title without a gap.
                    self.parent().has_content = false;
                }
            }
            Tag::CodeBlock(kind) => {
                self.begin_block();
                let info = match kind {
                    CodeBlockKind::Fenced(info) => info.to_string(),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((info, String::new()));
            }
            Tag::List(number) => {
                self.begin_block();
                self.open(Kind::List(*number), Span::raw(""), Span::raw(""));
            }
            Tag::Item => self.item(),
            Tag::FootnoteDefinition(label) => {
                self.begin_block();
                let marker = format!("[{}] ", printable(label));
                let rest = Span::raw(" ".repeat(width(&marker)));
                self.open(Kind::Item, Span::styled(marker, self.styles.list_marker), rest);
            }
            Tag::Table(alignments) => {
                self.begin_block();
                let alignments: &[Alignment] = alignments;
                self.table = Some((Table { alignments: alignments.to_vec(), ..Table::default() }, Vec::new()));
            }
            Tag::TableHead => self.push_style(self.styles.strong),
            Tag::TableRow | Tag::TableCell => {}
            Tag::Emphasis => self.push_style(self.styles.emphasis),
            Tag::Strong => self.push_style(self.styles.strong),
            Tag::Strikethrough => self.push_style(self.styles.strikethrough),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.push_style(self.styles.link);
                self.links.push(Link { url: printable(dest_url).into_owned(), text: String::new() });
            }
            // Not asked of the parser.
            Tag::DefinitionList
            | Tag::DefinitionListTitle
            | Tag::DefinitionListDefinition
            | Tag::Superscript
            | Tag::Subscript
            | Tag::MetadataBlock(_) => {}
        }
    }

    fn end(&mut self, tag: &TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush(),
            TagEnd::Heading(_) => {
                self.flush();
                self.style.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.close();
                self.style.pop();
            }
            TagEnd::CodeBlock => {
                if let Some((info, text)) = self.code.take() {
                    self.code_block(&info, text);
                }
            }
            TagEnd::List(_) | TagEnd::FootnoteDefinition | TagEnd::Item => self.close(),
            TagEnd::Table => {
                if let Some((table, _)) = self.table.take() {
                    self.emit(table::lay_out(&table, self.room(), self.styles));
                }
            }
            TagEnd::TableHead => {
                self.style.pop();
                if let Some((table, row)) = &mut self.table {
                    table.head = std::mem::take(row);
                }
            }
            TagEnd::TableRow => {
                if let Some((table, row)) = &mut self.table {
                    table.rows.push(std::mem::take(row));
                }
            }
            TagEnd::TableCell => {
                if let Some((_, row)) = &mut self.table {
                    row.push(std::mem::take(&mut self.inline));
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.style.pop();
            }
            TagEnd::Link => self.end_link(""),
            TagEnd::Image => self.end_link("image"),
            TagEnd::DefinitionList
            | TagEnd::DefinitionListTitle
            | TagEnd::DefinitionListDefinition
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::MetadataBlock(_) => {}
        }
    }

    /// The style of text at this place.
    fn top(&self) -> Style {
        self.style.last().copied().unwrap_or_default()
    }

    fn push_style(&mut self, style: Style) {
        self.style.push(self.top().patch(style));
    }

    fn text(&mut self, text: &str, style: Style) {
        let clean = printable_text(text);
        if let Some(link) = self.links.last_mut() {
            link.text.push_str(&clean);
        }
        push_piece(&mut self.inline, &clean, style);
    }

    /// HTML is shown as it is written, but a line break is one.
    fn html(&mut self, html: &CowStr<'_>) {
        if matches!(html.trim().to_ascii_lowercase().as_str(), "<br>" | "<br/>" | "<br />") {
            self.text("\n", self.top());
        } else {
            self.text(html, self.top());
        }
    }

    /// The address follows the text, unless it is the text.
    fn end_link(&mut self, unnamed: &str) {
        let Some(link) = self.links.pop() else { return };
        if link.text.is_empty() {
            self.text(unnamed, self.top());
        }
        self.style.pop();
        let shown = link.text.trim();
        let same = link.url == shown || link.url.strip_prefix("mailto:") == Some(shown);
        if !same && !link.url.is_empty() {
            let before = if link.text.is_empty() && unnamed.is_empty() { "" } else { " " };
            self.text(&format!("{before}({})", link.url), self.top().patch(self.styles.dim));
        }
    }

    fn item(&mut self) {
        self.flush();
        let depth = self.containers.iter().filter(|container| matches!(container.kind, Kind::List(_))).count();
        let list = self.parent();
        let apart = list.has_content && list.loose;
        let number = match &mut list.kind {
            Kind::List(Some(next)) => {
                let number = *next;
                *next = next.saturating_add(1);
                Some(number)
            }
            Kind::List(None) | Kind::Root | Kind::Quote | Kind::Item => None,
        };
        if apart {
            self.set_apart();
        }
        let marker = match number {
            Some(number) => format!("{number}. "),
            None if self.styles.ascii => "- ".to_owned(),
            None => ["• ", "◦ ", "▪ "].get((depth + 2) % 3).copied().unwrap_or("• ").to_owned(),
        };
        let rest = Span::raw(" ".repeat(width(&marker)));
        self.open(Kind::Item, Span::styled(marker, self.styles.list_marker), rest);
    }

    /// A paragraph element within an item says that its list is a loose one.
    fn loosen(&mut self) {
        if let [.., list, item] = self.containers.as_mut_slice()
            && item.kind == Kind::Item
            && matches!(list.kind, Kind::List(_))
        {
            item.loose = true;
            list.loose = true;
        }
    }

    fn code_block(&mut self, info: &str, text: String) {
        let language = language(info);
        if !(language.is_empty() && text.is_empty()) {
            self.emit_blank();
        }
        let first = self.lines.len();
        let label = code_label(&language, self.room(), self.styles);
        self.emit(label.into_iter().collect());
        let index = self.code_blocks.len();
        if self.highlights.len() <= index {
            self.highlights.resize_with(index + 1, Highlight::default);
        }
        let clean = printable_text(&text);
        let mut lines = Vec::new();
        if let Some(highlight) = self.highlights.get_mut(index) {
            highlight.begin(&language, &clean);
        }
        for (nth, line) in clean.split_inclusive('\n').enumerate() {
            let complete = line.ends_with('\n');
            let line = line.strip_suffix('\n').unwrap_or(line);
            let runs = self.highlights.get_mut(index).map(|highlight| highlight.line(nth, line, complete));
            lines.extend(code_line(line, &runs.unwrap_or_default(), self.room(), self.styles));
        }
        self.emit(lines);
        self.code_blocks.push(CodeBlock { language, text, lines: first..self.lines.len() });
    }
}

fn quote_name(kind: BlockQuoteKind) -> &'static str {
    match kind {
        BlockQuoteKind::Note => "Note",
        BlockQuoteKind::Tip => "Tip",
        BlockQuoteKind::Important => "Important",
        BlockQuoteKind::Warning => "Warning",
        BlockQuoteKind::Caution => "Caution",
    }
}
