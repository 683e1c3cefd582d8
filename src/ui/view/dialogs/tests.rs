use chrono::{DateTime, Duration, Local, TimeZone, Utc};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{DialogData, draw_dialog};
use crate::devices::telemetry::Finding;
use crate::sessions::{SessionHead, SessionId};
use crate::ui::action::Action;
use crate::ui::dialog::{
    Confirm, Confirmed, Dialog, DialogContext, DialogInput, Doctor, Drawn, Help, Palette, Rename, Sessions, Settings,
    System, default_settings,
};
use crate::ui::hits::{Hits, Target};
use crate::ui::keymap::Keymap;
use crate::ui::msg::SessionRow;
use crate::ui::theme::{ColourDepth, Theme};

const SIZES: [(u16, u16); 2] = [(80, 24), (120, 40)];

/// What a terminal of the buffer's size would show.
pub fn picture(buf: &Buffer) -> String {
    use unicode_width::UnicodeWidthStr;
    let mut text = String::new();
    for y in buf.area.top()..buf.area.bottom() {
        let mut line = String::new();
        let mut x = buf.area.left();
        while x < buf.area.right() {
            let symbol = buf[(x, y)].symbol();
            line.push_str(symbol);
            x += symbol.width().max(1) as u16;
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

struct World {
    theme: Theme,
    keymap: Keymap,
    findings: Vec<Finding>,
    sessions: Vec<SessionRow>,
    now: DateTime<Local>,
}

fn id(text: &str) -> SessionId {
    text.parse().expect("an id")
}

fn session(name: &str, title: &str, changed: DateTime<Utc>, n_messages: usize) -> SessionRow {
    let head = SessionHead {
        id: id(name),
        path: format!("/state/sessions/{name}.jsonl").into(),
        title: title.to_owned(),
        created: changed,
        changed,
        model: Some("Qwen3-30B-A3B-Instruct-2507 Q4_K_M".to_owned()),
        n_messages,
        bytes: 4096,
    };
    SessionRow { head, snippet: None }
}

fn world(theme: &str, ascii: bool) -> World {
    let now = Local.with_ymd_and_hms(2026, 12, 1, 14, 30, 0).unwrap();
    let ago = |hours| (now - Duration::hours(hours)).to_utc();
    let places = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    World {
        theme: Theme::named(theme, &[], ColourDepth::True, ascii).0,
        keymap: Keymap::default(),
        findings: vec![
            Finding::ok("NVML", places(&["libnvidia-ml.so.1"]), "driver 570.86.15, 2 devices"),
            Finding::warning(
                "AMD: amdgpu sysfs",
                places(&["/sys/class/drm/card0", "/sys/class/drm/card1"]),
                "card1: power1_average cannot be read: permission denied",
                "add yourself to the group render and log in again",
            ),
            Finding::missing(
                "ROCm SMI",
                places(&[
                    "librocm_smi64.so.7",
                    "librocm_smi64.so.6",
                    "/opt/rocm/lib/librocm_smi64.so.7",
                    "/opt/rocm/lib/librocm_smi64.so.6",
                    "/opt/rocm-6.4.0/lib/librocm_smi64.so\u{1b}[2J",
                ]),
                "no such library",
                "install rocm-smi-lib; sysfs tells most of it without",
            ),
            Finding::ok("Host", places(&["/proc"]), "32 cores, 125.7 GiB of memory"),
        ],
        sessions: vec![
            session("a", "Why is the sky blue?", ago(0), 6),
            session(
                "b",
                "Umbau der Küche: Maße für die Arbeitsplatte, Anschlüsse und was alles noch fehlt",
                ago(15),
                42,
            ),
            session("c", "日本語の文法について", ago(72), 1234),
            session("d", "", ago(24 * 40), 1),
            session("e", "evil \u{1b}]52;c;x\u{7}title", ago(24 * 41), 2),
        ],
        now,
    }
}

impl World {
    fn data(&self) -> DialogData<'_> {
        DialogData {
            theme: &self.theme,
            keymap: &self.keymap,
            findings: &self.findings,
            sessions: &self.sessions,
            open_session: self.sessions.get(1).map(|row| &row.head.id),
            now: self.now,
        }
    }

    fn draw(&self, dialog: &Dialog, (columns, rows): (u16, u16)) -> (Buffer, Hits, Drawn) {
        let area = Rect::new(0, 0, columns, rows);
        let (mut buf, mut hits) = (Buffer::empty(area), Hits::default());
        let drawn = draw_dialog(dialog, &self.data(), area, &mut buf, &mut hits);
        (buf, hits, drawn)
    }

    fn input(&self, dialog: &mut Dialog, input: DialogInput<'_>) {
        dialog.input(input, &DialogContext { keymap: &self.keymap, sessions: &self.sessions });
    }
}

fn type_into(world: &World, mut dialog: Dialog, text: &str) -> Dialog {
    for c in text.chars() {
        world.input(&mut dialog, DialogInput::Typed(c));
    }
    dialog
}

fn every_dialog(world: &World) -> Vec<(&'static str, Dialog)> {
    let typed = |dialog, text| type_into(world, dialog, text);
    let mut settings = default_settings();
    settings.sampling.temperature = 0.65;
    settings.max_tokens = Some(512);
    let form = Dialog::Settings(Box::new(Settings::new(&settings, &default_settings())));
    let delete = Confirmed::DeleteSession(id("a"));
    let prompt = "You are a careful assistant.\n\nAnswer in one paragraph, with the figures that matter, and say what you \
                  do not know.\n日本語でも答えてください。";
    vec![
        ("help", Dialog::Help(Help::default())),
        ("help_filtered", typed(Dialog::Help(Help::default()), "edge")),
        ("doctor", Dialog::Doctor(Doctor::default())),
        ("palette", Dialog::Palette(Palette::default())),
        ("palette_filtered", typed(Dialog::Palette(Palette::default()), "theme")),
        ("settings", form.clone()),
        ("settings_wrong", typed(form, "-1")),
        ("system", Dialog::System(System::new(Some(prompt)))),
        ("sessions", Dialog::Sessions(Sessions::default())),
        ("rename", Dialog::Rename(Rename::new(id("a"), "Why is the sky blue?"))),
        (
            "confirm",
            Dialog::Confirm(Confirm::new("Delete \"Why is the sky blue?\" for good?", "It has 6 messages.", delete)),
        ),
    ]
}

#[test]
fn pictures() {
    let world = world("dark", false);
    for (name, dialog) in every_dialog(&world) {
        for size in SIZES {
            let (buf, ..) = world.draw(&dialog, size);
            insta::assert_snapshot!(format!("{name}_{}x{}", size.0, size.1), picture(&buf));
        }
    }
}

#[test]
fn pictures_of_a_search() {
    let mut world = world("dark", false);
    for row in &mut world.sessions {
        row.snippet = Some("... because short waves are scattered more than long ones, the sky ...".to_owned());
    }
    let dialog = type_into(&world, Dialog::Sessions(Sessions::default()), "sky");
    insta::assert_snapshot!("sessions_found_80x24", picture(&world.draw(&dialog, (80, 24)).0));
    world.sessions.clear();
    insta::assert_snapshot!("sessions_none_80x24", picture(&world.draw(&dialog, (80, 24)).0));
}

#[test]
fn with_ascii_every_sign_of_ours_is_ascii() {
    let mut world = world("mono", true);
    world.sessions.remove(2);
    world.sessions.remove(1);
    world.findings.remove(2);
    for (name, dialog) in every_dialog(&world) {
        let text = picture(&world.draw(&dialog, (80, 24)).0).replace(['\u{fffd}', '日', '本', '語'], "");
        let text: String = if name == "system" { text.lines().take(8).collect() } else { text };
        assert!(text.is_ascii(), "{name}: {text}");
    }
    let (_, dialog) = every_dialog(&world).remove(5);
    insta::assert_snapshot!("settings_ascii_80x24", picture(&world.draw(&dialog, (80, 24)).0));
}

#[test]
fn no_size_is_too_small() {
    for ascii in [false, true] {
        let world = world("dark", ascii);
        for (_, dialog) in every_dialog(&world) {
            for columns in (0..=12).chain([17, 24, 30, 45, 79]) {
                for rows in 0..=10 {
                    let (.., drawn) = world.draw(&dialog, (columns, rows));
                    assert!(drawn.cursor.is_none_or(|at| at.x < columns && at.y < rows));
                }
            }
        }
    }
}

#[test]
fn nothing_that_others_wrote_commands_the_terminal() {
    let world = world("dark", false);
    let hostile = "a\u{1b}[2Jb\u{202e}c\u{9b}m\u{7}";
    let mut dialogs = every_dialog(&world);
    dialogs.push(("hostile", Dialog::Confirm(Confirm::new(hostile, hostile, Confirmed::Run(Action::Quit)))));
    for (name, dialog) in dialogs {
        let (buf, ..) = world.draw(&dialog, (120, 40));
        let text = picture(&buf);
        assert!(!text.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{name}");
    }
}

#[test]
fn a_click_hits_the_line_that_is_seen() {
    let world = world("dark", false);
    let (buf, hits, _) = world.draw(&Dialog::Sessions(Sessions::default()), (80, 24));
    let lines: Vec<_> = picture(&buf).lines().map(str::to_owned).collect();
    let y = lines.iter().position(|line| line.contains("Why is the sky")).expect("a line") as u16;
    let under: Vec<_> = hits.at(30, y).into_iter().map(|(_, target)| target).collect();
    assert_eq!(under, [Target::Item(0), Target::Dialog, Target::Outside]);
    let y = lines.iter().position(|line| line.contains("esc close")).expect("keys") as u16;
    let x = lines[usize::from(y)].chars().position(|c| c == 'e').expect("a letter") as u16;
    assert_eq!(hits.at(x, y)[0].1, Target::Button(Action::Choose));
    assert_eq!(hits.at(0, 0)[0].1, Target::Outside);
}

#[test]
fn the_chosen_line_stands_out_in_every_theme() {
    for name in Theme::built_in_names() {
        for depth in [ColourDepth::None, ColourDepth::Ansi16, ColourDepth::True] {
            let world = World { theme: Theme::named(name, &[], depth, false).0, ..world("dark", false) };
            let (buf, hits, _) = world.draw(&Dialog::Palette(Palette::default()), (80, 24));
            let lines = hits.areas_of(|target| matches!(target, Target::Item(_)));
            let style = |line: &Rect| buf[(line.right() - 10, line.y)].style();
            assert_ne!(style(&lines[0]), style(&lines[1]), "{name}, {depth:?}");
            assert_eq!(style(&lines[1]), style(&lines[2]), "{name}, {depth:?}");
        }
    }
}

#[test]
fn what_is_below_does_not_shine_through() {
    let world = world("dark", false);
    let area = Rect::new(0, 0, 80, 24);
    let (mut buf, mut hits) = (Buffer::empty(area), Hits::default());
    for y in 0..24 {
        buf.set_string(0, y, "日".repeat(40), ratatui::style::Style::new());
    }
    let dialog = Dialog::Rename(Rename::new(id("a"), ""));
    draw_dialog(&dialog, &world.data(), area, &mut buf, &mut hits);
    let outer = hits.areas_of(|target| *target == Target::Dialog)[0];
    let inside: String = outer.positions().map(|at| buf[(at.x, at.y)].symbol().to_owned()).collect::<Vec<_>>().concat();
    assert!(!inside.contains('日'));
    assert!(picture(&buf).lines().all(|line| unicode_width::UnicodeWidthStr::width(line) <= 80));
}
