use proptest::prelude::*;
use unicode_segmentation::UnicodeSegmentation;

use super::EditAction::*;
use super::*;

fn typed(text: &str) -> Editor {
    let mut editor = Editor::new();
    for grapheme in text.graphemes(true) {
        editor.insert_text(grapheme);
    }
    editor
}

fn acted(text: &str, actions: &[EditAction]) -> Editor {
    let mut editor = typed(text);
    for &action in actions {
        editor.act(action);
    }
    editor
}

/// The text with `|` at the cursor.
fn show(editor: &Editor) -> String {
    let (before, after) = editor.text().split_at(editor.cursor());
    format!("{before}|{after}")
}

fn check(text: &str, actions: &[EditAction], expect: &str) {
    assert_eq!(show(&acted(text, actions)), expect, "{text:?} {actions:?}");
}

#[test]
fn moves_and_deletes_graphemes() {
    check("a👩\u{200d}💻", &[Left], "a|👩\u{200d}💻");
    check("a👩\u{200d}💻", &[DeleteBack], "a|");
    check("e\u{301}x", &[TextStart, DeleteForward], "|x");
    check("日本", &[Left, DeleteBack], "|本");
    check("", &[DeleteBack, DeleteForward, Left, Right], "|");
}

#[test]
fn moves_and_deletes_words() {
    check("one two_2, three", &[WordLeft], "one two_2, |three");
    check("one two_2, three", &[WordLeft, WordLeft], "one |two_2, three");
    check("one two", &[TextStart, WordRight], "one| two");
    check("one two", &[DeleteWordBack], "one |");
    check("one two", &[TextStart, DeleteWordForward], "| two");
    check("one two", &[DeleteWordBack, TextStart, Yank], "two|one ");
}

#[test]
fn lines_and_kills() {
    check("ab\ncd", &[LineStart], "ab\n|cd");
    check("ab\ncd", &[TextStart, LineEnd], "ab|\ncd");
    check("ab\ncd", &[LineStart, KillToEnd, KillToStart], "ab|");
    check("ab\ncd", &[TextStart, LineEnd, KillToEnd], "ab|cd");
    check("ab", &[InsertNewline], "ab\n|");
}

#[test]
fn rows_wrap_at_words_and_keep_the_column() {
    let mut editor = typed("one two three");
    editor.resize(9);
    assert_eq!(editor.layout(9), EditorLayout { rows: vec!["one two ".into(), "three".into()], cursor: (5, 1) });
    assert!(!editor.act(Down));
    assert!(editor.act(Up));
    assert_eq!(show(&editor), "one t|wo three");
    assert!(!editor.act(Up));
    editor.click(99, 0);
    assert_eq!(show(&editor), "one two| three");
    editor.click(1, 99);
    assert_eq!(show(&editor), "one two t|hree");

    let mut editor = typed("long line\n\nlong line");
    editor.act(Up);
    assert_eq!(editor.cursor_cell(), (0, 1));
    editor.act(Up);
    assert_eq!(editor.cursor_cell(), (9, 0));
}

#[test]
fn wide_characters_wrap_and_are_clicked_whole() {
    let mut editor = typed("日本語");
    editor.resize(5);
    assert_eq!(editor.layout(5).rows, ["日本", "語"]);
    editor.click(1, 0);
    assert_eq!(editor.cursor(), 0);
    editor.click(2, 0);
    assert_eq!(editor.cursor(), 3);
}

#[test]
fn pasted_text_is_cleaned() {
    let mut editor = Editor::new();
    editor.insert_text("a\r\nb\rc\td\x1b[31m\u{9b}");
    assert_eq!(editor.text(), "a\nb\nc    d[31m");
    editor.set_text("x\u{202e}y");
    assert_eq!(editor.text(), "x\u{202e}y");
    assert_eq!(editor.layout(80).rows, ["x\u{fffd}y"]);
}

#[test]
fn undo_takes_back_runs() {
    check("hello", &[Undo], "|");
    check("hello", &[Undo, Redo], "hello|");
    check("hello", &[DeleteBack, DeleteBack, Undo], "hello|");
    check("hello", &[DeleteBack, DeleteBack, Undo, Undo], "|");
    let mut editor = acted("one", &[Left, Right]);
    editor.insert_text("!");
    editor.act(Undo);
    assert_eq!(show(&editor), "one|");
    editor.insert_text("?");
    assert!(!editor.act(Redo));
    check("", &[Undo, Redo, Yank], "|");
}

#[test]
fn history_keeps_the_draft() {
    let mut editor = typed("draft");
    editor.set_history(vec!["first".into()]);
    editor.push_history("second");
    editor.push_history("second");
    editor.push_history("  ");
    for (action, done, text) in [
        (HistoryNext, false, "draft"),
        (HistoryPrevious, true, "second"),
        (HistoryPrevious, true, "first"),
        (HistoryPrevious, false, "first"),
        (HistoryNext, true, "second"),
        (HistoryNext, true, "draft"),
        (HistoryNext, false, "draft"),
    ] {
        assert_eq!((editor.act(action), editor.text()), (done, text), "{action:?}");
    }
    assert_eq!(editor.take(), "draft");
    assert!(editor.is_empty());
}

#[test]
fn joined_graphemes_move_the_cursor() {
    let mut editor = typed("👩💻");
    editor.act(Left);
    editor.insert_text("\u{200d}");
    assert_eq!(editor.cursor(), editor.text().len());
}

const ACTIONS: [EditAction; 22] = [
    InsertNewline,
    DeleteBack,
    DeleteForward,
    DeleteWordBack,
    DeleteWordForward,
    KillToEnd,
    KillToStart,
    Yank,
    Left,
    Right,
    Up,
    Down,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    TextStart,
    TextEnd,
    Undo,
    Redo,
    HistoryPrevious,
    HistoryNext,
];

#[derive(Clone, Debug)]
enum Step {
    Act(EditAction),
    Insert(String),
    Click(usize, usize),
    Resize(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let text = "(a|b| |\n|日|👩|\u{200d}|💻|\u{301}|🇨|🇭|\u{202e}|\u{ad}|ש|word ){1,6}";
    prop_oneof![
        4 => prop::sample::select(ACTIONS.to_vec()).prop_map(Step::Act),
        3 => text.prop_map(Step::Insert),
        1 => any::<String>().prop_map(Step::Insert),
        1 => (0..20usize, 0..6usize).prop_map(|(column, row)| Step::Click(column, row)),
        1 => (0..20u16).prop_map(Step::Resize),
    ]
}

proptest! {
    #[test]
    fn any_steps_keep_the_input_whole(steps in prop::collection::vec(step(), 0..60)) {
        let mut editor = Editor::new();
        editor.set_history(vec!["old\ntext".into(), "日本".into()]);
        let mut width = 80;
        for step in steps {
            match step {
                Step::Act(action) => { editor.act(action); }
                Step::Insert(text) => editor.insert_text(&text),
                Step::Click(column, row) => editor.click(column, row),
                Step::Resize(to) => { width = to; editor.resize(to); }
            }
            let text = editor.text();
            prop_assert!(editor.cursor() == text.len() || text.grapheme_indices(true).any(|(at, _)| at == editor.cursor()));
            let layout = editor.layout(width);
            let one_line = text.replace('\n', "");
            prop_assert_eq!(layout.rows.concat(), crate::ui::text::sanitise::revealed(&one_line));
            let (column, row) = layout.cursor;
            prop_assert!(row < layout.rows.len() && column < usize::from(width).max(1));
            prop_assert_eq!((editor.n_rows(width), editor.cursor_cell()), (layout.rows.len(), layout.cursor));
            for height in [1, 2, layout.rows.len(), layout.rows.len() + 3] {
                let (first, window) = (editor.first_row(height), editor.window(width, height));
                prop_assert_eq!(&window.rows[..], &layout.rows[first..layout.rows.len().min(first + height)]);
                prop_assert_eq!(window.cursor, (column, row - first));
                prop_assert!(window.cursor.1 < height);
            }
            if width > 2 {
                for shown in &layout.rows {
                    // One character may be wider than the input: emoji that are joined with more than joiners.
                    let fits = crate::ui::text::width::width(shown) <= usize::from(width);
                    prop_assert!(fits || shown.graphemes(true).count() == 1);
                }
            }
            prop_assert_eq!(&editor.layout(33), &{ let mut other = editor.clone(); other.resize(33); other.layout(33) });
        }
        while editor.act(Undo) {}
        while editor.act(Redo) {}
    }
}
