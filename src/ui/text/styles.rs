//! The styles a theme gives to text.

use ratatui::style::Style;

/// The style of each role in laid-out text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TextStyles {
    /// Plain text; the others are laid over it.
    pub text: Style,
    /// Levels 1, 2, and 3 or deeper.
    pub heading: [Style; 3],
    pub emphasis: Style,
    pub strong: Style,
    pub strikethrough: Style,
    /// Code within a line.
    pub code: Style,
    /// Lines of a code block; [`SyntaxStyles`] are laid over it.
    pub code_block: Style,
    /// The name of a code block's language.
    pub code_label: Style,
    /// Quoted text and the bar beside it.
    pub quote: Style,
    /// The text of a link or image.
    pub link: Style,
    /// Bullets, numbers and check boxes.
    pub list_marker: Style,
    pub rule: Style,
    pub table_border: Style,
    /// What matters less: addresses, continuation marks.
    pub dim: Style,
    pub syntax: SyntaxStyles,
    /// Borders, bullets and bars in ASCII.
    pub ascii: bool,
}

/// The style of each role in code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyntaxStyles {
    pub keyword: Style,
    pub string: Style,
    pub number: Style,
    pub comment: Style,
    pub function: Style,
    pub type_name: Style,
    pub constant: Style,
    pub operator: Style,
    pub punctuation: Style,
    pub variable: Style,
    /// Tags of markup, keys of data, decorators.
    pub tag: Style,
    /// Added lines of a diff.
    pub inserted: Style,
    /// Removed lines of a diff.
    pub deleted: Style,
}
