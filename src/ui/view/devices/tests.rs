//! Pictures of the panel.

use super::*;
use crate::ui::gauges::testing::*;
use crate::ui::theme::ColourDepth;

fn theme(ascii: bool) -> Theme {
    Theme::named("dark", &[], ColourDepth::True, ascii).0
}

/// What was drawn, as text; blanks at the ends of lines are left out.
pub(crate) fn picture(area: Rect, draw: impl FnOnce(&mut Buffer)) -> String {
    let mut buf = Buffer::empty(area);
    draw(&mut buf);
    let mut text = String::new();
    for y in area.y..area.bottom() {
        let mut line = String::new();
        let mut x = area.x;
        while x < area.right() {
            let symbol = buf[(x, y)].symbol();
            line.push_str(symbol);
            x += (width(symbol) as u16).max(1);
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn panel(gauges: &Gauges, width: u16, height: u16, ascii: bool) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut hits = Hits::default();
    picture(area, |buf| draw_devices(gauges, &theme(ascii), None, None, area, buf, &mut hits))
}

/// Frames of the sizes that a terminal of 80, 120 or 200 columns leaves inside its border, and a narrow one.
fn panels(gauges: &Gauges, ascii: bool) -> String {
    let n = gauges.devices.len() as u16;
    let sizes = [(38, n), (78, n), (78, n + 1), (118, n), (118, 2 * n + 1), (198, n), (198, 2 * n + 1)];
    let texts = sizes.map(|(width, height)| format!("-- {width}x{height}\n{}", panel(gauges, width, height, ascii)));
    texts.concat()
}

#[test]
fn three_simulated_devices() {
    insta::assert_snapshot!(panels(&simulated_rig(), false));
}

#[test]
fn two_cards_and_a_processor() {
    insta::assert_snapshot!(panels(&real_rig(), false));
}

#[test]
fn two_cards_and_a_processor_in_ascii() {
    let text = panels(&real_rig(), true);
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_card_that_sleeps_and_one_that_is_not_used() {
    insta::assert_snapshot!(panels(&sleeping_rig(), false));
}

#[test]
fn devices_that_have_done_nothing_yet() {
    let names = [(CUDA0, "NVIDIA GeForce RTX 4090"), (CPU0, "AMD Ryzen 9 5950X 16-Core Processor")];
    insta::assert_snapshot!(panels(&Gauges::new(&names.map(|(id, name)| facts(id, name, false))), false));
}

#[test]
fn eight_devices_in_five_lines() {
    let gauges = eight_cards();
    let area = Rect::new(0, 0, 100, 5);
    let mut text = String::new();
    for cursor in [None, Some(0), Some(4), Some(7)] {
        let mut hits = Hits::default();
        let draw = |buf: &mut Buffer| draw_devices(&gauges, &theme(false), cursor, None, area, buf, &mut hits);
        text.push_str(&format!("-- {cursor:?}\n{}", picture(area, draw)));
        let shown = hits.areas_of(|t| matches!(t, Target::Device(_))).len();
        assert_eq!(shown, 4);
        if let Some(cursor) = cursor {
            let id = gauges.devices[cursor].id;
            assert_eq!(hits.areas_of(|t| *t == Target::Device(id)).len(), 1, "the cursor is in sight");
        }
    }
    insta::assert_snapshot!(text);
    insta::assert_snapshot!("eight_devices_in_one_line", panel(&gauges, 100, 1, false));
}

/// The first three columns of each card while something is dragged over one.
fn panel_with_drop(gauges: &Gauges, id: DeviceId) -> Vec<String> {
    let area = Rect::new(0, 0, 50, 3);
    let mut hits = Hits::default();
    let text = picture(area, |buf| draw_devices(gauges, &theme(false), Some(0), Some(id), area, buf, &mut hits));
    text.lines().map(|line| line.chars().take(3).collect()).collect()
}

#[test]
fn the_chosen_card_and_the_one_under_a_drag_are_marked_without_colour() {
    let starts = panel_with_drop(&real_rig(), CPU0);
    assert_eq!(starts, ["›■ ", " ▲ ", "»● "]);
}

#[test]
fn a_click_hits_what_is_drawn_there() {
    let gauges = real_rig();
    let area = Rect::new(3, 2, 78, 7);
    let mut buf = Buffer::empty(Rect::new(0, 0, 90, 12));
    let mut hits = Hits::default();
    draw_devices(&gauges, &theme(false), None, None, area, &mut buf, &mut hits);
    let top = |x, y| hits.at(x, y).into_iter().map(|(_, target)| target).next();
    for (i, id) in [CUDA0, ROCM0, CPU0].into_iter().enumerate() {
        for y in [2 + 2 * i as u16, 3 + 2 * i as u16] {
            assert_eq!(top(3, y), Some(Target::Device(id)));
            assert_eq!(top(80, y), Some(Target::Device(id)));
        }
    }
    assert_eq!(top(3, 8), Some(Target::Panel(PanelId::Devices)));
    assert_eq!(top(2, 2), None);
    // One that this program does not use takes nothing.
    let starts = panel_with_drop(&sleeping_rig(), ROCM0);
    assert_eq!(starts, ["›■ ", " ▲ ", " ● "]);
    // The real card beside a simulated one of the same id is no place to drop layers.
    let mut gauges = Gauges::new(&[facts(CUDA0, "4090", true)]);
    gauges.on_telemetry(std::time::Duration::ZERO, &[reading(CUDA0, "P400", 2, 1)]);
    let mut hits = Hits::default();
    draw_devices(&gauges, &theme(false), None, Some(CUDA0), area, &mut buf, &mut hits);
    assert_eq!(hits.areas_of(|t| *t == Target::Device(CUDA0)), [Rect::new(3, 2, 78, 2)]);
}

#[test]
fn what_is_staged_and_what_is_gone_is_seen() {
    let mut gauges = real_rig();
    let mut devices = three_stats([CUDA0, ROCM0, CPU0]);
    devices[1].ours_bytes += mib(6000);
    gauges.on_stats(gauges.now, &stats(&devices));
    let text = panel(&gauges, 100, 4, false);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[1].contains('▚') && !lines[0].contains('▚'), "{text}");
    assert!(lines[3].contains("▚ staged"), "{text}");
    let mut card = reading(ROCM0, "AMD Radeon RX 7900 XTX", 24_560, 11_264);
    card.state = PowerState::Gone;
    gauges.on_telemetry(gauges.now, &[card]);
    let text = panel(&gauges, 100, 4, false);
    assert!(text.lines().nth(1).is_some_and(|line| line.contains(" gone ") && line.contains("—/24.0 GiB")), "{text}");
}

#[test]
fn colours_say_nothing_that_is_not_said_without_them() {
    let area = Rect::new(0, 0, 118, 7);
    let drawn = |name: &str, depth| {
        let (theme, _) = Theme::named(name, &[], depth, false);
        let mut buf = Buffer::empty(area);
        draw_devices(&real_rig(), &theme, None, None, area, &mut buf, &mut Hits::default());
        buf
    };
    let symbols = |buf: &Buffer| buf.content().iter().map(|cell| cell.symbol().to_owned()).collect::<Vec<_>>();
    let dark = drawn("dark", ColourDepth::True);
    for name in Theme::built_in_names() {
        assert_eq!(symbols(&drawn(name, ColourDepth::True)), symbols(&dark), "{name}");
    }
    // Each device in its own colour, in its mark and its past.
    let colours: Vec<_> = [0, 2, 4].map(|y| dark[(1, y)].fg).to_vec();
    assert!(colours[0] != colours[1] && colours[1] != colours[2], "{colours:?}");
    let plain = drawn("dark", ColourDepth::None);
    assert!(plain.content().iter().all(|cell| cell.fg == ratatui::style::Color::Reset));
}

#[test]
fn any_size() {
    for gauges in [real_rig(), simulated_rig(), sleeping_rig(), eight_cards(), Gauges::default()] {
        for width in 0..=42 {
            for height in [0, 1, 2, 3, 7] {
                panel(&gauges, width, height, width % 2 == 0);
            }
        }
    }
    // An area that reaches out of the picture.
    let mut buf = Buffer::empty(Rect::new(0, 0, 30, 3));
    draw_devices(&real_rig(), &theme(false), Some(9), None, Rect::new(10, 1, 90, 9), &mut buf, &mut Hits::default());
}

#[test]
fn heights() {
    assert_eq!(wanted_height(3, 80, 5), 4);
    assert_eq!(wanted_height(3, 200, 20), 7);
    assert_eq!(wanted_height(8, 80, 5), 5);
    assert_eq!(wanted_height(0, 80, 5), 1);
    assert_eq!(wanted_height(usize::MAX, 80, 5), 5);
}

#[test]
fn names_cannot_command_the_terminal() {
    let mut gauges = Gauges::new(&[facts(CUDA0, "4090\x1b[2J\u{202e}", false)]);
    gauges.on_telemetry(std::time::Duration::ZERO, &[]);
    let text = panel(&gauges, 120, 1, false);
    assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text:?}");
}
