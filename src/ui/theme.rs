//! Colours as data: a theme is a style for each role and a colour for each device.
//!
//! The built-in themes are files of the same form that a user writes under `[themes.NAME]` of the configuration:
//! `role = "bold #e69f00 on black"`. Colour is never alone: each device has a shape and a letter too.

use std::hash::BuildHasher;

use ratatui::style::{Color, Modifier, Style};

use super::layers::MapStyles;
use super::text::{SyntaxStyles, TextStyles};

macro_rules! roles {
    ($($role:ident $name:literal,)*) => {
        /// What a style is for.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Role { $($role,)* }

        impl Role {
            pub const ALL: &[(Role, &str)] = &[$((Role::$role, $name),)*];
        }
    };
}

roles! {
    Text "text",
    Dim "dim",
    Strong "strong",
    Title "title",
    Border "border",
    BorderFocus "border-focus",
    Accent "accent",
    Key "key",
    Good "good",
    Warn "warn",
    Bad "bad",
    Selection "selection",
    Cursor "cursor",
    Notice "notice",
    BarWeights "bar-weights",
    BarKv "bar-kv",
    BarScratch "bar-scratch",
    BarOthers "bar-others",
    BarFree "bar-free",
    User "user",
    Assistant "assistant",
    Thinking "thinking",
    Heading1 "heading-1",
    Heading2 "heading-2",
    Heading3 "heading-3",
    Emphasis "emphasis",
    StrongText "strong-text",
    Strikethrough "strikethrough",
    Code "code",
    CodeBlock "code-block",
    CodeLabel "code-label",
    Quote "quote",
    Link "link",
    ListMarker "list-marker",
    Rule "rule",
    TableBorder "table-border",
    SyntaxKeyword "syntax-keyword",
    SyntaxString "syntax-string",
    SyntaxNumber "syntax-number",
    SyntaxComment "syntax-comment",
    SyntaxFunction "syntax-function",
    SyntaxType "syntax-type",
    SyntaxConstant "syntax-constant",
    SyntaxOperator "syntax-operator",
    SyntaxPunctuation "syntax-punctuation",
    SyntaxVariable "syntax-variable",
    SyntaxTag "syntax-tag",
    SyntaxInserted "syntax-inserted",
    SyntaxDeleted "syntax-deleted",
    Edge "edge",
    EdgeHot "edge-hot",
    Moved "moved",
}

/// How many colours the terminal shows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ColourDepth {
    None,
    Ansi16,
    Ansi256,
    True,
}

impl ColourDepth {
    /// From the environment: `NO_COLOR`, `COLORTERM` and `TERM`, each as it is set.
    pub fn detect(no_color: Option<&str>, colorterm: Option<&str>, term: Option<&str>) -> ColourDepth {
        let term = term.unwrap_or_default();
        match (no_color, colorterm) {
            (Some(set), _) if !set.is_empty() => ColourDepth::None,
            _ if term == "dumb" => ColourDepth::None,
            (_, Some("truecolor" | "24bit")) => ColourDepth::True,
            _ if term.contains("direct") => ColourDepth::True,
            _ if term.contains("256") => ColourDepth::Ansi256,
            _ => ColourDepth::Ansi16,
        }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct Theme {
    pub name: String,
    /// By [`Role`].
    styles: Vec<Style>,
    /// Device colours in the order of the devices; used again from the start when there are more devices. Never empty.
    devices: Vec<Style>,
    /// Only ASCII characters are drawn.
    pub ascii: bool,
    /// Changes with every other theme: what was laid out under one version is laid out anew under another.
    pub version: u64,
}

const BUILT_IN: [(&str, &str); 4] = [
    ("dark", include_str!("../../assets/themes/dark.toml")),
    ("light", include_str!("../../assets/themes/light.toml")),
    ("okabe-ito", include_str!("../../assets/themes/okabe-ito.toml")),
    ("mono", include_str!("../../assets/themes/mono.toml")),
];

/// A theme of the configuration: entries over a base.
pub struct OwnTheme<'a> {
    pub name: &'a str,
    pub base: Option<&'a str>,
    /// Role and style, as text.
    pub entries: &'a [(String, String)],
}

/// Solid, and told apart without colour.
const SHAPES: [char; 8] = ['■', '▲', '●', '◆', '★', '▼', '♦', '♠'];

/// How a device looks wherever it is shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DeviceMark {
    pub shape: char,
    /// Names it after `m`, in either case.
    pub letter: char,
    pub style: Style,
}

impl Theme {
    pub fn built_in_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// A theme by name, and words on what of it could not be used. An unknown name gives the first built-in one.
    pub fn named(name: &str, own: &[OwnTheme<'_>], depth: ColourDepth, ascii: bool) -> (Theme, Vec<String>) {
        let mut warnings = vec![];
        let theme = own.iter().find(|o| o.name == name);
        let base = theme.map_or(name, |o| o.base.unwrap_or("dark"));
        let mut styles = vec![Style::new(); Role::ALL.len()];
        let mut devices = vec![];
        let text = BUILT_IN.iter().find(|(n, _)| *n == base).map(|(_, text)| *text).unwrap_or_else(|| {
            let names: Vec<_> = Theme::built_in_names().collect();
            let base: String = base.chars().filter(|c| !c.is_control()).take(40).collect();
            warnings.push(format!(
                "there is no theme '{base}': {} and [themes.NAME] of the configuration",
                names.join(", ")
            ));
            BUILT_IN[0].1
        });
        let file: toml::Table = text.parse().unwrap_or_default();
        let built_in = file.iter().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
        let own = theme.iter().flat_map(|o| o.entries.iter().map(|(k, v)| (k.as_str(), v.as_str())));
        for (key, value) in built_in.chain(own) {
            let result = if key == "devices" {
                value.split(',').map(parse_style).collect::<Result<Vec<_>, _>>().map(|d| devices = d)
            } else if let Some((role, _)) = Role::ALL.iter().find(|(_, name)| *name == key) {
                parse_style(value).map(|style| styles[*role as usize] = style)
            } else {
                Err(format!(
                    "there is no role '{}'",
                    key.chars().filter(|c| !c.is_control()).take(40).collect::<String>()
                ))
            };
            if let Err(error) = result {
                warnings.push(format!("themes.{name}: {error}"));
            }
        }
        if devices.is_empty() {
            devices.push(Style::new());
        }
        for style in styles.iter_mut().chain(&mut devices) {
            *style = reduced(*style, depth);
        }
        let version = foldhash::quality::FixedState::default().hash_one((&styles, ascii));
        (Theme { name: name.to_owned(), styles, devices, ascii, version }, warnings)
    }

    /// Stands where text was cut.
    pub fn cut(&self) -> &'static str {
        if self.ascii { "..." } else { "…" }
    }

    pub fn style(&self, role: Role) -> Style {
        self.styles[role as usize]
    }

    /// How the device at this place of the list looks.
    pub fn device(&self, index: usize) -> DeviceMark {
        let letter = char::from(b'A' + (index % 26) as u8);
        let shape = if self.ascii { letter } else { SHAPES[index % SHAPES.len()] };
        DeviceMark { shape, letter, style: self.devices[index % self.devices.len()] }
    }

    pub fn text_styles(&self) -> TextStyles {
        let s = |role| self.style(role);
        TextStyles {
            text: s(Role::Text),
            heading: [s(Role::Heading1), s(Role::Heading2), s(Role::Heading3)],
            emphasis: s(Role::Emphasis),
            strong: s(Role::StrongText),
            strikethrough: s(Role::Strikethrough),
            code: s(Role::Code),
            code_block: s(Role::CodeBlock),
            code_label: s(Role::CodeLabel),
            quote: s(Role::Quote),
            link: s(Role::Link),
            list_marker: s(Role::ListMarker),
            rule: s(Role::Rule),
            table_border: s(Role::TableBorder),
            dim: s(Role::Dim),
            syntax: SyntaxStyles {
                keyword: s(Role::SyntaxKeyword),
                string: s(Role::SyntaxString),
                number: s(Role::SyntaxNumber),
                comment: s(Role::SyntaxComment),
                function: s(Role::SyntaxFunction),
                type_name: s(Role::SyntaxType),
                constant: s(Role::SyntaxConstant),
                operator: s(Role::SyntaxOperator),
                punctuation: s(Role::SyntaxPunctuation),
                variable: s(Role::SyntaxVariable),
                tag: s(Role::SyntaxTag),
                inserted: s(Role::SyntaxInserted),
                deleted: s(Role::SyntaxDeleted),
            },
            ascii: self.ascii,
        }
    }

    pub fn map_styles(&self) -> MapStyles {
        let s = |role| self.style(role);
        MapStyles {
            text: s(Role::Text),
            dim: s(Role::Dim),
            cursor: s(Role::Cursor),
            selection: s(Role::Selection),
            edge: s(Role::Edge),
            edge_hot: s(Role::EdgeHot),
            good: s(Role::Good),
            bad: s(Role::Bad),
            moved: s(Role::Moved),
            ascii: self.ascii,
        }
    }
}

/// `bold underline #e69f00 on blue`: modifiers and colours in any order, the background after `on`; `default` is the
/// terminal's own colour.
pub fn parse_style(text: &str) -> Result<Style, String> {
    let mut style = Style::new();
    let mut on = false;
    for word in text.split_whitespace() {
        let modifier = match word {
            "bold" => Some(Modifier::BOLD),
            "dim" => Some(Modifier::DIM),
            "italic" => Some(Modifier::ITALIC),
            "underline" => Some(Modifier::UNDERLINED),
            "reverse" => Some(Modifier::REVERSED),
            "crossed" => Some(Modifier::CROSSED_OUT),
            _ => None,
        };
        match (modifier, word) {
            (Some(modifier), _) => style = style.add_modifier(modifier),
            (None, "on") => on = true,
            (None, "default") => {}
            (None, word) => {
                let colour: Color = word.parse().map_err(|_| {
                    let word: String = word.chars().filter(|c| !c.is_control()).take(40).collect();
                    format!(
                        "'{word}' is no colour: write #rrggbb, a number up to 255, or a name such as red or lightblue"
                    )
                })?;
                style = if on { style.bg(colour) } else { style.fg(colour) };
                on = false;
            }
        }
    }
    Ok(style)
}

/// The nearest style that a terminal of this depth shows.
fn reduced(mut style: Style, depth: ColourDepth) -> Style {
    let reduce = |colour: Color| match (depth, colour) {
        (ColourDepth::None, _) => None,
        (ColourDepth::True, colour) => Some(colour),
        (ColourDepth::Ansi256, Color::Rgb(r, g, b)) => Some(Color::Indexed(nearest_256(r, g, b))),
        (ColourDepth::Ansi256, colour) => Some(colour),
        (ColourDepth::Ansi16, Color::Rgb(r, g, b)) => Some(nearest_16(r, g, b)),
        (ColourDepth::Ansi16, Color::Indexed(index)) => {
            let (r, g, b) = rgb_of(index);
            Some(nearest_16(r, g, b))
        }
        (ColourDepth::Ansi16, colour) => Some(colour),
    };
    let had_background = style.bg.is_some();
    style.fg = style.fg.and_then(reduce);
    style.bg = style.bg.and_then(reduce);
    if had_background && style.bg.is_none() {
        style = style.add_modifier(Modifier::REVERSED);
    }
    style
}

/// Levels of the 6x6x6 colour cube.
const CUBE: [u8; 6] = [0, 95, 135, 175, 215, 255];

/// What a number of the 256-colour palette looks like in most terminals.
fn rgb_of(index: u8) -> (u8, u8, u8) {
    match index {
        0..=15 => ANSI[usize::from(index)].1,
        16..=231 => {
            let i = usize::from(index - 16);
            (CUBE[i / 36], CUBE[i / 6 % 6], CUBE[i % 6])
        }
        232..=255 => {
            let grey = 8 + 10 * (index - 232);
            (grey, grey, grey)
        }
    }
}

fn nearest_256(r: u8, g: u8, b: u8) -> u8 {
    (16..=255).min_by_key(|&i| distance(rgb_of(i), (r, g, b))).unwrap_or(15)
}

/// The sixteen colours as xterm shows them.
const ANSI: [(Color, (u8, u8, u8)); 16] = [
    (Color::Black, (0, 0, 0)),
    (Color::Red, (205, 0, 0)),
    (Color::Green, (0, 205, 0)),
    (Color::Yellow, (205, 205, 0)),
    (Color::Blue, (0, 0, 238)),
    (Color::Magenta, (205, 0, 205)),
    (Color::Cyan, (0, 205, 205)),
    (Color::Gray, (229, 229, 229)),
    (Color::DarkGray, (127, 127, 127)),
    (Color::LightRed, (255, 0, 0)),
    (Color::LightGreen, (0, 255, 0)),
    (Color::LightYellow, (255, 255, 0)),
    (Color::LightBlue, (92, 92, 255)),
    (Color::LightMagenta, (255, 0, 255)),
    (Color::LightCyan, (0, 255, 255)),
    (Color::White, (255, 255, 255)),
];

fn nearest_16(r: u8, g: u8, b: u8) -> Color {
    ANSI.iter().min_by_key(|(_, rgb)| distance(*rgb, (r, g, b))).map_or(Color::White, |(colour, _)| *colour)
}

fn distance(a: (u8, u8, u8), b: (u8, u8, u8)) -> u32 {
    let square = |a: u8, b: u8| u32::from(a.abs_diff(b)).pow(2);
    // Weighted as the eye is: green counts most, blue least.
    3 * square(a.0, b.0) + 6 * square(a.1, b.1) + square(a.2, b.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_themes_are_whole() {
        for (name, text) in BUILT_IN {
            let (theme, warnings) = Theme::named(name, &[], ColourDepth::True, false);
            assert_eq!(warnings, Vec::<String>::new(), "{name}");
            let file: toml::Table = text.parse().unwrap();
            for (_, role) in Role::ALL {
                assert!(file.contains_key(*role), "{name} says nothing of {role}");
            }
            let enough = if name == "mono" { 1 } else { 7 };
            assert!(theme.devices.len() >= enough, "{name}");
        }
    }

    #[test]
    fn a_style_is_written_in_words() {
        let style = parse_style("bold #e69f00 on blue underline").unwrap();
        let want = Style::new().fg(Color::Rgb(0xe6, 0x9f, 0)).bg(Color::Blue);
        assert_eq!(style, want.add_modifier(Modifier::BOLD | Modifier::UNDERLINED));
        assert_eq!(parse_style("default").unwrap(), Style::new());
        assert!(parse_style("blod").unwrap_err().contains("'blod' is no colour"));
    }

    #[test]
    fn fewer_colours_give_the_nearest() {
        let style = parse_style("#ff0000 on #0000ee").unwrap();
        assert_eq!(reduced(style, ColourDepth::Ansi256), Style::new().fg(Color::Indexed(196)).bg(Color::Indexed(21)));
        assert_eq!(reduced(style, ColourDepth::Ansi16), Style::new().fg(Color::LightRed).bg(Color::Blue));
        assert_eq!(reduced(style, ColourDepth::None), Style::new().add_modifier(Modifier::REVERSED));
    }

    #[test]
    fn the_environment_says_how_many_colours() {
        let detect = ColourDepth::detect;
        assert_eq!(detect(Some("1"), Some("truecolor"), None), ColourDepth::None);
        assert_eq!(detect(Some(""), Some("truecolor"), None), ColourDepth::True);
        assert_eq!(detect(None, None, Some("screen-256color")), ColourDepth::Ansi256);
        assert_eq!(detect(None, None, Some("linux")), ColourDepth::Ansi16);
        assert_eq!(detect(None, None, Some("dumb")), ColourDepth::None);
    }

    #[test]
    fn a_theme_of_ones_own_stands_on_a_base() {
        let entries = [("accent".to_string(), "#010203".to_string()), ("acent".to_string(), "red".to_string())];
        let own = [OwnTheme { name: "mine", base: Some("light"), entries: &entries }];
        let (theme, warnings) = Theme::named("mine", &own, ColourDepth::True, true);
        assert_eq!(theme.style(Role::Accent).fg, Some(Color::Rgb(1, 2, 3)));
        let (light, _) = Theme::named("light", &[], ColourDepth::True, true);
        assert_eq!(theme.style(Role::Text), light.style(Role::Text));
        assert_eq!(warnings, ["themes.mine: there is no role 'acent'"]);
        assert_eq!(theme.device(1).shape, 'B');
        let (_, warnings) = Theme::named("none", &[], ColourDepth::True, true);
        assert_eq!(warnings.len(), 1);
    }
}
