use proptest::prelude::*;
use ratatui::style::{Color, Style};

use super::super::corpus::CORPUS;
use super::super::highlight::Role;
use super::super::sanitise::is_hostile;
use super::super::styles::SyntaxStyles;
use super::super::wrap::spans_width;
use super::*;

fn styles() -> TextStyles {
    TextStyles {
        heading: [Style::new().bold().underlined(), Style::new().bold(), Style::new().italic()],
        emphasis: Style::new().italic(),
        strong: Style::new().bold(),
        code: Style::new().fg(Color::Yellow),
        code_block: Style::new().bg(Color::Black),
        quote: Style::new().dim(),
        link: Style::new().underlined(),
        syntax: SyntaxStyles { keyword: Style::new().fg(Color::Blue), ..SyntaxStyles::default() },
        ..TextStyles::default()
    }
}

fn laid_out(text: &str, width: u16) -> Document {
    let mut document = Document::new();
    document.layout(text, width, &styles(), 0, true);
    document
}

fn picture(document: &Document) -> String {
    document.lines().iter().map(|line| format!("{line}\n")).collect()
}

fn pictured(text: &str, width: u16) -> String {
    picture(&laid_out(text, width))
}

/// The style of the first span with this text.
fn style_of(document: &Document, text: &str) -> Style {
    let spans = document.lines().iter().flat_map(|line| &line.spans);
    spans.into_iter().find(|span| span.content.contains(text)).map(|span| span.style).expect("the text is there")
}

#[test]
fn corpus_at_60_columns() {
    for (nth, text) in CORPUS.iter().enumerate() {
        insta::assert_snapshot!(format!("corpus_{nth}"), pictured(text, 60));
    }
}

#[test]
fn corpus_at_24_columns() {
    for (nth, text) in CORPUS.iter().enumerate() {
        insta::assert_snapshot!(format!("corpus_narrow_{nth}"), pictured(text, 24));
    }
}

#[test]
fn ascii_draws_in_ascii() {
    let text = "- a\n\n> b\n\n---\n\n|c|\n|-|\n|d|\n\n```\nlong code long code long code\n```\n- [x] e";
    let mut document = Document::new();
    document.layout(text, 20, &TextStyles { ascii: true, ..styles() }, 0, true);
    assert!(picture(&document).is_ascii(), "{}", picture(&document));
}

#[test]
fn roles_have_their_styles() {
    let document = laid_out("# Head\n\n*em* **st *both*** `co` [li](u)\n\n```rust\nfn x() {}\n```\n\n> qu", 60);
    let styles = styles();
    assert_eq!(style_of(&document, "Head"), styles.heading[0]);
    assert_eq!(style_of(&document, "em"), styles.emphasis);
    assert_eq!(style_of(&document, "both"), styles.strong.patch(styles.emphasis));
    assert_eq!(style_of(&document, "co"), styles.code);
    assert_eq!(style_of(&document, "li"), styles.link);
    assert_eq!(style_of(&document, "fn"), styles.code_block.patch(Role::Keyword.style(&styles.syntax)));
    assert_eq!(style_of(&document, "qu"), styles.quote);
}

#[test]
fn code_blocks_can_be_copied() {
    let document = laid_out("a\n\n```rust,x y\nfn a() {\n\tb\n}\n```\n\n- c\n\n      d\n", 40);
    let [first, second] = document.code_blocks() else { panic!("{:?}", document.code_blocks()) };
    assert_eq!((first.language.as_str(), first.text.as_str()), ("rust", "fn a() {\n\tb\n}\n"));
    assert_eq!(first.lines, 2..6);
    assert_eq!((second.language.as_str(), second.text.as_str()), ("", "d\n"));
}

#[test]
fn open_code_grows_line_by_line() {
    let styles = styles();
    let mut document = Document::new();
    document.layout("```rust\nfn a", 40, &styles, 0, false);
    assert_eq!(picture(&document), "  rust\n  fn a\n");
    document.layout("```rust\nfn a\n``", 40, &styles, 0, false);
    assert_eq!(document.code_blocks()[0].text, "fn a\n``");
    document.layout("```rust\nfn a\n```", 40, &styles, 0, false);
    assert_eq!(document.code_blocks()[0].text, "fn a\n");
    document.layout("```rust\nfn a\n```\n\nb", 40, &styles, 0, false);
    assert_eq!(picture(&document), "  rust\n  fn a\n\nb\n");
    assert_eq!(document.code_blocks()[0].lines, 0..2);
}

#[test]
fn finished_blocks_are_not_laid_out_again() {
    let styles = styles();
    let mut document = Document::new();
    let text = "one\n\ntwo\n\nthree\n\nfour";
    document.layout(text, 40, &styles, 0, false);
    assert_eq!(&text[document.stable.bytes..], "three\n\nfour");
    assert_eq!(document.stable.n_lines, 3);
}

#[test]
fn changed_text_width_and_styles_are_seen() {
    let styles = styles();
    let mut document = Document::new();
    document.layout("one two\n\nx", 40, &styles, 0, false);
    document.layout("ONE two\n\nx", 40, &styles, 0, false);
    assert_eq!(picture(&document), "ONE two\n\nx\n");
    document.layout("ONE two\n\nx", 3, &styles, 0, false);
    assert_eq!(picture(&document), "ONE\ntwo\n\nx\n");
    let red = TextStyles { text: Style::new().red(), ..styles };
    document.layout("ONE two\n\nx", 3, &red, 1, false);
    assert_eq!(style_of(&document, "ONE"), Style::new().red());
}

#[test]
fn long_growing_blocks_are_cut_until_they_are_finished() {
    let styles = styles();
    for text in ["word *emphasis* ".repeat(2_000), "- item **x**\n- other\n\n".repeat(1_500), "日本".repeat(5_000)] {
        let mut document = Document::new();
        let mut end = 0;
        while end < text.len() {
            end = text.ceil_char_boundary((end + 777).min(text.len()));
            document.layout(&text[..end], 40, &styles, 0, false);
            assert!(end - document.stable.bytes < 10_000, "{end}");
        }
        assert!(document.cut);
        document.layout(&text, 40, &styles, 0, true);
        assert_eq!(document.lines(), laid_out(&text, 40).lines());
    }
}

#[test]
fn no_width_and_no_text() {
    assert!(laid_out("text", 0).lines().is_empty());
    assert!(laid_out("", 10).lines().is_empty());
    for text in CORPUS {
        laid_out(text, 1);
    }
}

#[test]
fn deep_nesting_ends() {
    laid_out(&">".repeat(3_000), 20);
    laid_out(&"- ".repeat(3_000), 20);
    laid_out(&"[".repeat(3_000), 20);
    laid_out(&"*a ".repeat(3_000), 20);
}

/// A text made of parts of the corpus, and where it is cut while it arrives.
fn arriving() -> impl Strategy<Value = (String, Vec<usize>)> {
    let line = prop::sample::select(CORPUS.iter().flat_map(|text| text.split_inclusive('\n')).collect::<Vec<_>>());
    let text = prop_oneof![
        2 => prop::sample::select(CORPUS.to_vec()).prop_map(str::to_owned),
        1 => prop::collection::vec(prop::sample::select(CORPUS.to_vec()), 1..4).prop_map(|texts| texts.concat()),
        3 => prop::collection::vec(line, 0..30).prop_map(|lines| lines.concat()),
    ];
    (text, prop::collection::vec(any::<prop::sample::Index>(), 0..12)).prop_map(|(text, cuts)| {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| text.ceil_char_boundary(cut.index(text.len() + 1))).collect();
        cuts.sort_unstable();
        (text, cuts)
    })
}

proptest! {
    #[test]
    fn arriving_text_ends_as_the_whole((text, cuts) in arriving(), width in 1..120u16) {
        let styles = styles();
        let mut document = Document::new();
        for cut in cuts {
            document.layout(&text[..cut], width, &styles, 0, false);
            check_lines(&document, width)?;
        }
        document.layout(&text, width, &styles, 0, true);
        check_lines(&document, width)?;
        let whole = laid_out(&text, width);
        prop_assert_eq!(picture(&document), picture(&whole));
        prop_assert_eq!(document.lines(), whole.lines());
        prop_assert_eq!(document.code_blocks(), whole.code_blocks());
    }

    #[test]
    fn any_text_fits(text in any::<String>(), width in 1..40u16) {
        check_lines(&laid_out(&text, width), width)?;
    }
}

fn check_lines(document: &Document, width: u16) -> Result<(), TestCaseError> {
    for line in document.lines() {
        prop_assert!(spans_width(&line.spans) <= usize::from(width), "{} columns: {}", width, line);
        prop_assert!(!line.spans.iter().any(|span| span.content.contains(is_hostile)), "{:?}", line);
    }
    for block in document.code_blocks() {
        prop_assert!(block.lines.start <= block.lines.end && block.lines.end <= document.lines().len());
    }
    Ok(())
}
