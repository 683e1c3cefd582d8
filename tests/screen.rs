//! The real program with the demo model in a pseudo-terminal: typed keys and mouse bytes in, the screen out.

mod common;
#[path = "common/terminal.rs"]
mod terminal;

use std::path::Path;
use std::time::Duration;

use terminal::Terminal;

/// What the model says to [`QUESTION`] at temperature 0, computed exactly.
const ANSWER: &str = "The capital of France is Paris.";
const QUESTION: &str = "What is the capital of France?\r";
/// Its answer is long enough for anything to happen while it streams.
const LONG_QUESTION: &str = "Write a long story about a lighthouse keeper and his dog.\r";

const ESC: &str = "\x1b";
/// Alt+L: to the layers.
const TO_LAYERS: &str = "\x1bl";
const TO_INPUT: &str = "\x1bi";
const TO_CHAT: &str = "\x1bc";
const CTRL_Q: &str = "\x11";
const CTRL_R: &str = "\x12";

/// Half on an NVIDIA card, half on an AMD card, both simulated, and a CPU.
const HALVES: &str = "cuda0=embed,0-14; rocm0=15-29,head";

fn rig() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/rigs/4090-7900xtx.toml").display().to_string()
}

/// The demo model on a rig, ready for a question.
fn chat(home: &Path, rig: &str, more: &[&str]) -> Terminal {
    let model = common::smollm2().display().to_string();
    let exact = ["--activations", "f32", "--temp", "0", "--ctx", "2048"];
    let args: Vec<&str> = ["chat", &model, "--rig", rig].into_iter().chain(exact).chain(more.iter().copied()).collect();
    let mut terminal = Terminal::start(home, &args, 120, 40);
    terminal.wait_for("is ready");
    terminal
}

fn halves(home: &Path) -> Terminal {
    chat(home, &rig(), &["--place", HALVES])
}

/// Waits until an answer has begun and goes on.
fn wait_streaming(terminal: &mut Terminal) {
    terminal.wait_until("a streaming answer", |t| t.text().contains("streaming") && t.text().contains("tok/s"));
}

/// Esc, with enough time behind it not to be read as Alt.
fn escape(terminal: &mut Terminal) {
    terminal.settle(Duration::from_millis(30));
    terminal.send(ESC);
    std::thread::sleep(Duration::from_millis(100));
}

fn wait_idle(terminal: &mut Terminal) {
    terminal.wait_for("○ idle");
}

/// The exact answer, on the screen, to the question that was asked last.
fn ask(terminal: &mut Terminal) {
    let before = terminal.text().matches(ANSWER).count();
    terminal.send(QUESTION);
    terminal.wait_until("the answer", |t| t.text().matches(ANSWER).count() > before && t.text().contains("idle, last"));
}

/// The part of the map's row of what runs now.
fn now_row(terminal: &Terminal) -> String {
    terminal.rows().into_iter().find(|r| r.starts_with("│now ")).unwrap_or_default()
}

#[test]
fn a_block_is_dragged_to_another_device_while_the_answer_streams() {
    let home = tempfile::tempdir().unwrap();
    let mut t = halves(home.path());
    t.send(LONG_QUESTION);
    wait_streaming(&mut t);
    let from = t.find_in_row("next ", '▲').expect("the block of rocm0 in the draft");
    let card = t.find("● cpu0").expect("the card of cpu0");
    t.press(from);
    let half_way = terminal::Place { column: from.column + 2, row: from.row - 1 };
    t.drag(half_way);
    t.drag(card);
    // Before the drop: whether it fits, what it costs.
    t.wait_for("fits");
    t.release(card);
    t.wait_until("the draft", |t| t.find_in_row("next ", '●').is_some());
    assert!(t.find_in_row("now ", '●').is_none(), "nothing moves before it is applied");
    // The drop has left the focus on the map: Enter applies before the next prefill.
    t.send("\r");
    t.wait_for("ready: switches before the next prompt");
    assert!(now_row(&t).contains('▲'), "the old placement works until the switch\n{}", t.text());
    wait_streaming(&mut t);
    t.send(TO_INPUT);
    escape(&mut t);
    wait_idle(&mut t);
    ask(&mut t);
    t.wait_for("stalled");
    assert!(now_row(&t).contains('●') && !now_row(&t).contains('▲'), "{}", t.text());
    t.send(CTRL_Q);
    assert_eq!(t.wait_end(), 0);
}

#[test]
fn keys_alone_move_an_edge_and_undo_brings_it_back() {
    let home = tempfile::tempdir().unwrap();
    let mut t = halves(home.path());
    ask(&mut t);
    t.send(TO_LAYERS);
    // To the edge between the two cards, then to layer 10 by its number.
    t.wait_for("pick");
    t.send("\t");
    t.send("l");
    t.wait_for("embed,0-15");
    t.send("u");
    t.wait_for("embed,0-14");
    // By its number: the edge before layer 10.
    t.send("10");
    t.wait_for("embed,0-9");
    // The first Enter ends the typing.
    t.send("\r!");
    t.wait_for("stalled");
    t.wait_for("rocm0 10-29");
    t.send(TO_INPUT);
    ask(&mut t);
    // A selection goes to the device whose letter follows.
    t.send(TO_LAYERS);
    t.wait_for("pick");
    t.send("\tmc");
    t.wait_for("cpu0 10-29");
    t.send("u");
    t.wait_for("rocm0 10-29");
}

#[test]
fn what_cannot_fit_is_refused_in_place() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("small.toml");
    std::fs::write(
        &file,
        "[[device]]\nvendor = \"nvidia\"\nmemory = \"24 GiB\"\n\n[[device]]\nvendor = \"amd\"\nmemory = \"64 MiB\"\n\n\
         [[device]]\nvendor = \"cpu\"\nmemory = \"8 GiB\"\n",
    )
    .unwrap();
    let mut t = chat(home.path(), &file.display().to_string(), &["--place", "cuda0=all"]);
    let from = t.find_in_row("next ", '■').expect("the block of cuda0");
    let from = terminal::Place { column: from.column + 20, ..from };
    let card = t.find("▲ rocm0").expect("the card of rocm0");
    t.press(from);
    t.drag(card);
    t.wait_for("short");
    t.release(card);
    t.send("\r");
    t.wait_until("the refusal", |t| t.text().contains("short") && now_row(t).contains('■'));
    assert!(!now_row(&t).contains('▲'));
    escape(&mut t);
    t.send(TO_INPUT);
    ask(&mut t);
}

#[test]
fn a_change_is_cancelled_in_the_middle() {
    let home = tempfile::tempdir().unwrap();
    let mut t = halves(home.path());
    t.send(TO_LAYERS);
    t.wait_for("pick");
    t.send("\tl");
    t.wait_for("embed,0-15");
    // In one write: staging has begun when the cancel comes, and has hardly ended.
    t.send("\r\x1b");
    t.wait_until("the cancel", |t| t.text().contains("cancelled"));
    t.send(TO_INPUT);
    ask(&mut t);
    assert!(now_row(&t).contains('▲'), "{}", t.text());
}

#[test]
fn a_killed_program_loses_at_most_the_last_second_of_an_answer() {
    let home = tempfile::tempdir().unwrap();
    let mut t = halves(home.path());
    ask(&mut t);
    t.send(LONG_QUESTION);
    wait_streaming(&mut t);
    // Long enough for the first part to be on the disk.
    t.settle(Duration::from_millis(10));
    std::thread::sleep(Duration::from_millis(1500));
    t.signal("-KILL");
    t.wait_end();

    let model_args = ["--resume", "--rig", &rig(), "--activations", "f32", "--temp", "0"];
    let mut t = Terminal::start(home.path(), &model_args, 120, 40);
    t.wait_for("lighthouse");
    t.wait_for("cut off when the program ended");
    assert!(t.text().contains(ANSWER), "{}", t.text());
    // The model is back on the same devices, and goes on.
    t.wait_until("the placement", |t| now_row(t).contains('■') && now_row(t).contains('▲'));
    t.send(TO_CHAT);
    t.send("g");
    wait_streaming(&mut t);
    escape(&mut t);
    wait_idle(&mut t);
    // The list knows it.
    t.send(CTRL_R);
    t.wait_for("What is the capital of France?");
}

#[test]
fn the_picker_lists_the_model_and_loads_it() {
    let home = tempfile::tempdir().unwrap();
    let mut t = Terminal::start(home.path(), &["--rig", &rig(), "--ctx", "1024"], 80, 24);
    t.wait_for("fits");
    // Typing filters.
    t.send("smol");
    t.wait_for("SmolLM2");
    t.send("zzz");
    t.wait_until("nothing left", |t| !t.text().contains("93.8 MiB"));
    t.send("\x7f\x7f\x7f");
    t.wait_for("93.8 MiB");
    t.send("\r");
    t.wait_for("is ready");
    // 80x24 shows everything: devices, layers, chat, input.
    for words in ["cuda0", "rocm0", "cpu0", "now", "next", "Chat", "write a message"] {
        t.wait_for(words);
    }
}

#[test]
fn any_size_at_any_moment() {
    let home = tempfile::tempdir().unwrap();
    let mut t = halves(home.path());
    t.send(LONG_QUESTION);
    wait_streaming(&mut t);
    for (columns, rows) in [(80, 24), (40, 12), (19, 3), (1, 1), (200, 60), (3, 50), (150, 5), (120, 40)] {
        t.resize(columns, rows);
        t.settle(Duration::from_millis(150));
    }
    t.wait_until("the screen again", |t| t.text().contains("rocm0") && t.text().contains("lighthouse"));
    escape(&mut t);
    wait_idle(&mut t);
}

/// What the terminal is left in.
#[test]
fn without_the_focus_nothing_is_drawn() {
    const FOCUS_LOST: &str = "\x1b[O";
    const FOCUS_GAINED: &str = "\x1b[I";
    let home = tempfile::tempdir().unwrap();
    let mut t = halves(home.path());
    t.send(LONG_QUESTION);
    wait_streaming(&mut t);
    t.send(FOCUS_LOST);
    t.settle(Duration::from_millis(500));
    let (drawn, text) = (t.raw.len(), t.text());
    t.settle(Duration::from_secs(2));
    assert_eq!(t.raw.len(), drawn, "pictures without the focus");
    t.send(FOCUS_GAINED);
    t.wait_until("the words that came meanwhile", |t| t.text() != text && t.text().contains("streaming"));
    escape(&mut t);
    wait_idle(&mut t);
    t.send(CTRL_Q);
    assert_eq!(t.wait_end(), 0);
}

fn assert_clean(t: &Terminal) {
    assert!(!t.is_on_alternate_screen(), "the alternate screen is left");
    assert!(!t.screen().hide_cursor(), "the cursor is shown");
    assert!(!t.screen().bracketed_paste(), "bracketed paste is off");
    assert_eq!(t.screen().mouse_protocol_mode(), vt100::MouseProtocolMode::None, "the mouse is given back");
}

#[test]
fn the_terminal_is_left_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let mut t = halves(home.path());
    assert!(t.is_on_alternate_screen() && t.screen().bracketed_paste());
    assert_ne!(t.screen().mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    // F2 lends the mouse to the terminal, and takes it back.
    t.send("\x1bOQ");
    t.wait_for("mouse released");
    assert_eq!(t.screen().mouse_protocol_mode(), vt100::MouseProtocolMode::None);
    t.send("\x1bOQ");
    t.wait_until("the mouse taken back", |t| t.screen().mouse_protocol_mode() != vt100::MouseProtocolMode::None);
    // Suspended, and back.
    t.send("\x1a");
    t.wait_until("the shell's screen", |t| !t.is_on_alternate_screen());
    assert_clean(&t);
    // It stops a moment after it has given the screen back.
    std::thread::sleep(Duration::from_millis(300));
    t.signal("-CONT");
    t.wait_until("the program's screen", |t| t.is_on_alternate_screen() && t.text().contains("is ready"));
    // Told to end while an answer streams.
    t.send(LONG_QUESTION);
    wait_streaming(&mut t);
    t.signal("-TERM");
    t.wait_end();
    assert_clean(&t);
}

#[test]
fn paste_never_sends_and_no_sequence_of_it_reaches_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    let mut t = halves(home.path());
    let evil = "one\rtwo\n\u{9b}31m three \u{202e}four \x07 \x1b]52;c;ZXZpbA==\x07 \x1bP+q\x1b\\ five";
    t.raw.clear();
    t.send(format!("\x1b[200~{evil}\x1b[201~"));
    t.wait_for("five");
    assert!(t.text().contains("one") && t.text().contains("two") && t.text().contains("is ready"), "{}", t.text());
    let raw = String::from_utf8_lossy(&t.raw).into_owned();
    for sequence in ["\x1b]52", "\x1bP", "\u{9b}", "\u{202e}", "\x07"] {
        assert!(!raw.contains(sequence), "{sequence:?} in {raw:?}");
    }
}

#[test]
fn a_message_is_copied_through_the_terminal() {
    let home = tempfile::tempdir().unwrap();
    let mut t = halves(home.path());
    ask(&mut t);
    t.raw.clear();
    t.send(TO_CHAT);
    t.send("y");
    t.wait_for("copied (through the terminal)");
    let raw = String::from_utf8_lossy(&t.raw).into_owned();
    // "The capital of France is Paris." in base64.
    assert!(raw.contains("\x1b]52;c;VGhlIGNhcGl0YWwgb2YgRnJhbmNlIGlzIFBhcmlzLg==\x07"), "{raw:?}");
}

#[test]
fn without_colours_nothing_is_coloured() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("config.toml"), "colours = \"none\"\nascii = true\n").unwrap();
    let mut t = halves(home.path());
    ask(&mut t);
    let (rows, columns) = t.screen().size();
    for (row, column) in (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |column| (row, column))) {
        let cell = t.screen().cell(row, column).expect("a cell of the screen");
        assert_eq!((cell.fgcolor(), cell.bgcolor()), (vt100::Color::Default, vt100::Color::Default), "{row} {column}");
    }
    let drawn: String = t.text().chars().filter(|c| !c.is_ascii()).collect();
    assert_eq!(drawn, "", "only ASCII is drawn\n{}", t.text());
}
