use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::draw_details;
use crate::devices::telemetry::{PowerState, Reading};
use crate::ui::gauges::Gauges;
use crate::ui::gauges::testing::*;
use crate::ui::theme::{ColourDepth, Theme};
use crate::ui::view::devices::tests::picture;

fn details(gauges: &Gauges, index: usize, width: u16, height: u16, ascii: bool) -> String {
    let (theme, _) = Theme::named("dark", &[], ColourDepth::True, ascii);
    let area = Rect::new(0, 0, width, height);
    let row = &gauges.devices[index];
    picture(area, |buf| draw_details(row, theme.device(index), &theme, gauges.now, area, buf))
}

#[test]
fn a_card_in_80_columns() {
    insta::assert_snapshot!(details(&real_rig(), 0, 80, 20, false));
}

#[test]
fn a_card_in_160_columns() {
    insta::assert_snapshot!(details(&real_rig(), 1, 160, 45, false));
}

#[test]
fn a_processor_with_its_cores() {
    insta::assert_snapshot!(details(&real_rig(), 2, 80, 20, false));
    insta::assert_snapshot!("a_processor_with_high_bars", details(&real_rig(), 2, 100, 36, false));
}

#[test]
fn a_simulated_card() {
    insta::assert_snapshot!(details(&simulated_rig(), 0, 80, 20, false));
}

#[test]
fn a_card_that_sleeps() {
    insta::assert_snapshot!(details(&sleeping_rig(), 1, 80, 20, false));
}

#[test]
fn ascii() {
    let text = details(&real_rig(), 0, 80, 20, true) + &details(&real_rig(), 2, 44, 40, true);
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn any_size() {
    for gauges in [real_rig(), simulated_rig(), sleeping_rig()] {
        for index in 0..gauges.devices.len() {
            let widths = (0..8).chain((8..46).step_by(7));
            for (width, height) in widths.flat_map(|w| (0..6).chain([11, 20, 30]).map(move |h| (w, h))) {
                details(&gauges, index, width, height, width % 2 == 0);
            }
        }
    }
    let (theme, _) = Theme::named("dark", &[], ColourDepth::True, false);
    let mut buf = Buffer::empty(Rect::new(0, 0, 30, 8));
    let gauges = real_rig();
    let area = Rect::new(20, 5, 100, 50);
    draw_details(&gauges.devices[0], theme.device(0), &theme, gauges.now, area, &mut buf);
}

#[test]
fn drivers_cannot_command_the_terminal() {
    let mut gauges = Gauges::new(&[facts(CUDA0, "4090", false)]);
    let hostile = || Some("\x1b]52;c;aGk=\x07\u{202e}".to_owned());
    let card =
        Reading { driver: hostile(), compute: hostile(), state: PowerState::Awake, ..reading(CUDA0, "4090", 9, 1) };
    gauges.on_telemetry(Duration::ZERO, &[card]);
    let text = details(&gauges, 0, 100, 40, false);
    assert!(text.contains("52;c;aGk"), "{text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control() && c != '\u{202e}'), "{text:?}");
}
