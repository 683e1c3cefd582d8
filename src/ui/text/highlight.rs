//! Colours for code: which part of a line is a keyword, a string, a comment.
//!
//! Grammars are syntect's with two-face's additions. Their scopes are mapped to a few roles by [`ROLES`]; a theme
//! gives each role a style. Works line by line, so that a block that is still growing costs only its new lines.

use std::sync::OnceLock;

use ratatui::style::Style;
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxSet};

use super::styles::SyntaxStyles;

/// Longer lines (in bytes) are not highlighted: grammars take too long for them.
pub const MAX_LINE_BYTES: usize = 2_000;
/// Lines of a block after this many are not highlighted.
pub const MAX_LINES: usize = 2_000;

/// What a part of code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Plain,
    Keyword,
    Text,
    Number,
    Comment,
    Function,
    TypeName,
    Constant,
    Operator,
    Punctuation,
    Variable,
    Tag,
    Inserted,
    Deleted,
}

impl Role {
    pub fn style(self, styles: &SyntaxStyles) -> Style {
        match self {
            Role::Plain => Style::new(),
            Role::Keyword => styles.keyword,
            Role::Text => styles.string,
            Role::Number => styles.number,
            Role::Comment => styles.comment,
            Role::Function => styles.function,
            Role::TypeName => styles.type_name,
            Role::Constant => styles.constant,
            Role::Operator => styles.operator,
            Role::Punctuation => styles.punctuation,
            Role::Variable => styles.variable,
            Role::Tag => styles.tag,
            Role::Inserted => styles.inserted,
            Role::Deleted => styles.deleted,
        }
    }
}

/// Prefixes of scope names and their roles. Of several that fit, the longest counts.
const ROLES: &[(&str, Role)] = &[
    ("comment", Role::Comment),
    ("punctuation.definition.comment", Role::Comment),
    ("string", Role::Text),
    ("punctuation.definition.string", Role::Text),
    ("constant", Role::Constant),
    ("constant.numeric", Role::Number),
    ("constant.character.escape", Role::Constant),
    ("keyword", Role::Keyword),
    ("keyword.operator", Role::Operator),
    ("keyword.operator.word", Role::Keyword),
    ("storage", Role::Keyword),
    ("entity.name", Role::TypeName),
    ("entity.name.function", Role::Function),
    ("entity.name.tag", Role::Tag),
    ("entity.name.constant", Role::Constant),
    ("entity.name.section", Role::Keyword),
    ("entity.other.attribute-name", Role::Variable),
    ("entity.other.inherited-class", Role::TypeName),
    ("support", Role::TypeName),
    ("support.function", Role::Function),
    ("support.macro", Role::Function),
    ("support.constant", Role::Constant),
    ("support.type.property-name", Role::Variable),
    ("variable", Role::Variable),
    ("variable.function", Role::Function),
    ("variable.annotation", Role::Tag),
    ("variable.language", Role::Constant),
    ("punctuation", Role::Punctuation),
    ("markup.inserted", Role::Inserted),
    ("markup.deleted", Role::Deleted),
    ("markup.heading", Role::Keyword),
    ("meta.diff.header", Role::Comment),
    ("meta.diff.range", Role::Function),
];

/// The grammars of all languages, and [`ROLES`] by descending length. Never changed once loaded.
struct Grammars {
    set: SyntaxSet,
    roles: Vec<(Scope, Role)>,
}

fn grammars() -> &'static Grammars {
    static GRAMMARS: OnceLock<Grammars> = OnceLock::new();
    GRAMMARS.get_or_init(|| {
        let mut roles: Vec<(Scope, Role)> =
            ROLES.iter().filter_map(|&(name, role)| Some((Scope::new(name).ok()?, role))).collect();
        roles.sort_by_key(|(scope, _)| std::cmp::Reverse(scope.len()));
        Grammars { set: two_face::syntax::extra_newlines(), roles }
    })
}

/// Loads the grammars, which takes some tens of milliseconds: call it on a thread at start, so that the first code block
/// need not wait.
pub fn preload() {
    grammars();
}

/// A stretch of one line in one role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub bytes: usize,
    pub role: Role,
}

/// The roles in one code block, kept while it grows.
#[derive(Clone, Default)]
pub struct Highlight {
    language: String,
    /// The complete lines seen so far, each with its `\n`.
    source: String,
    /// One entry a complete line; empty where a line is not highlighted.
    lines: Vec<Vec<Run>>,
    /// The grammar's state after `source`; `None`: no such language, or a grammar that failed.
    state: Option<(ParseState, ScopeStack)>,
}

impl Highlight {
    /// Makes ready for the text of a block: what was found for a start of it is kept.
    pub fn begin(&mut self, language: &str, text: &str) {
        if self.language == language && text.starts_with(&self.source) {
            return;
        }
        *self = Highlight {
            language: language.to_owned(),
            source: String::new(),
            lines: Vec::new(),
            state: start(language),
        };
    }

    /// The roles in line `index` of the block. `line` has no `\n`; lines come in order. `complete`: the line ends, and
    /// will not change.
    pub fn line(&mut self, index: usize, line: &str, complete: bool) -> Vec<Run> {
        if let Some(known) = self.lines.get(index).filter(|_| complete) {
            return known.clone();
        }
        if index != self.lines.len() || index >= MAX_LINES || line.len() > MAX_LINE_BYTES {
            if complete && index == self.lines.len() && index < MAX_LINES {
                self.keep(line, Vec::new());
            }
            return Vec::new();
        }
        let with_end = format!("{line}\n");
        if complete {
            let runs = match &mut self.state {
                Some(state) => parse(state, &with_end),
                None => Some(Vec::new()),
            };
            if runs.is_none() {
                self.state = None;
            }
            self.keep(line, runs.unwrap_or_default());
            self.lines.last().cloned().unwrap_or_default()
        } else {
            // The state must stay that of the complete lines.
            self.state.clone().and_then(|mut state| parse(&mut state, &with_end)).unwrap_or_default()
        }
    }

    fn keep(&mut self, line: &str, runs: Vec<Run>) {
        self.source.push_str(line);
        self.source.push('\n');
        self.lines.push(runs);
    }
}

fn start(language: &str) -> Option<(ParseState, ScopeStack)> {
    let name = match language.to_ascii_lowercase().as_str() {
        "shell" | "console" | "shellsession" | "zsh" => "bash".to_owned(),
        "jsonc" | "json5" | "jsonl" => "json".to_owned(),
        "" | "text" | "plain" | "plaintext" | "txt" | "output" => return None,
        other => other.to_owned(),
    };
    let set = &grammars().set;
    let syntax = set.find_syntax_by_token(&name)?;
    Some((ParseState::new(syntax), ScopeStack::new()))
}

/// The roles of one line with its `\n`; `None` where the grammar fails.
fn parse((state, stack): &mut (ParseState, ScopeStack), line: &str) -> Option<Vec<Run>> {
    let grammars = grammars();
    let changes = state.parse_line(line, &grammars.set).ok()?;
    let visible = line.len() - 1;
    let mut runs: Vec<Run> = Vec::new();
    let mut from = 0;
    for (at, change) in &changes {
        push_run(&mut runs, (*at).min(visible) - from, role(stack, &grammars.roles));
        from = (*at).min(visible);
        stack.apply(change).ok()?;
    }
    push_run(&mut runs, visible - from, role(stack, &grammars.roles));
    Some(runs)
}

fn push_run(runs: &mut Vec<Run>, bytes: usize, role: Role) {
    match runs.last_mut() {
        _ if bytes == 0 => {}
        Some(last) if last.role == role => last.bytes += bytes,
        Some(_) | None => runs.push(Run { bytes, role }),
    }
}

/// The role of the innermost scope that has one.
fn role(stack: &ScopeStack, roles: &[(Scope, Role)]) -> Role {
    let of_scope = |scope: &Scope| roles.iter().find(|(prefix, _)| prefix.is_prefix_of(*scope)).map(|(_, role)| *role);
    stack.as_slice().iter().rev().find_map(of_scope).unwrap_or(Role::Plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(language: &str, line: &str) -> Vec<(String, Role)> {
        let mut highlight = Highlight::default();
        highlight.begin(language, line);
        let mut from = 0;
        let part = |run: Run| {
            from += run.bytes;
            (line[from - run.bytes..from].to_owned(), run.role)
        };
        highlight.line(0, line, true).into_iter().map(part).collect()
    }

    fn check(language: &str, line: &str, expect: &[(&str, Role)]) {
        let found = roles(language, line);
        for &(text, role) in expect {
            assert!(
                found.iter().any(|(t, r)| t.trim() == text && *r == role),
                "{language}: {text} {role:?} in {found:?}"
            );
        }
    }

    #[test]
    fn every_prefix_is_a_scope() {
        assert_eq!(grammars().roles.len(), ROLES.len());
    }

    #[test]
    fn roles_of_languages() {
        check(
            "rust",
            "pub fn main() -> u32 { 42 } // done",
            &[("fn", Role::Keyword), ("main", Role::Function), ("42", Role::Number), ("// done", Role::Comment)],
        );
        check(
            "python",
            "def f(x): return \"a\" + x",
            &[("def", Role::Keyword), ("f", Role::Function), ("\"a\"", Role::Text), ("+", Role::Operator)],
        );
        check("toml", "name = \"x\"", &[("\"x\"", Role::Text)]);
        check("ts", "const a: number = 1;", &[("const", Role::Keyword), ("1", Role::Number)]);
        check("diff", "+added", &[("added", Role::Inserted)]);
        check("sh", "echo \"hi\"", &[("\"hi\"", Role::Text)]);
        check("C++", "int main() { return 0; }", &[("return", Role::Keyword)]);
        check("json", "{\"a\": true}", &[("true", Role::Constant)]);
    }

    #[test]
    fn unknown_languages_and_long_lines_are_plain() {
        assert!(roles("no such language", "fn main").is_empty());
        assert!(roles("", "fn main").is_empty());
        assert!(roles("rust", &"fn ".repeat(1000)).is_empty());
    }

    #[test]
    fn state_lasts_over_lines_and_growth() {
        let text = "/* one\ntwo */ fn\n";
        let mut growing = Highlight::default();
        growing.begin("rust", "/* one\n");
        growing.line(0, "/* one", true);
        growing.begin("rust", "/* one\ntw");
        assert_eq!(growing.line(1, "tw", false), [Run { bytes: 2, role: Role::Comment }]);
        growing.begin("rust", text);
        let grown = growing.line(1, "two */ fn", true);
        assert_eq!(grown.first(), Some(&Run { bytes: 6, role: Role::Comment }));
        let mut whole = Highlight::default();
        whole.begin("rust", text);
        whole.line(0, "/* one", true);
        assert_eq!(whole.line(1, "two */ fn", true), grown);
    }

    #[test]
    fn another_text_begins_anew() {
        let mut highlight = Highlight::default();
        highlight.begin("rust", "/*\n");
        highlight.line(0, "/*", true);
        highlight.begin("rust", "fn\n");
        assert_eq!(highlight.line(0, "fn", true), [Run { bytes: 2, role: Role::Keyword }]);
    }
}
