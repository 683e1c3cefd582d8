//! Pictures of the map, as text.

use std::fmt::Write;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::*;
use crate::engine::part::Part;
use crate::engine::placement::Placement;
use crate::engine::protocol::{DeviceId, DeviceKind};

const CUDA0: DeviceId = DeviceId::new(DeviceKind::Cuda, 0);
const ROCM0: DeviceId = DeviceId::new(DeviceKind::Rocm, 0);
const CPU0: DeviceId = DeviceId::cpu(0);
const CUDA1: DeviceId = DeviceId::new(DeviceKind::Cuda, 1);
const DEVICES: [DeviceId; 4] = [CUDA0, ROCM0, CPU0, CUDA1];

fn looks(ascii: bool) -> Vec<DeviceLook> {
    let shapes = if ascii { ['A', 'B', 'C', 'D'] } else { ['■', '▲', '●', '◆'] };
    DEVICES
        .into_iter()
        .zip(shapes)
        .zip('A'..)
        .map(|((id, shape), letter)| DeviceLook { id, letter, shape, style: Style::new(), name: id.to_string() })
        .collect()
}

/// What a test shows beside the map.
#[derive(Default)]
struct Scene {
    preview: Option<PreviewView>,
    is_stale: bool,
    change: ChangeView,
    parts: Vec<PartInfoView>,
    ascii: bool,
}

impl Scene {
    fn draw(&self, map: &LayerMap, width: u16, height: u16) -> (Buffer, Columns, Vec<(Rect, LayerTarget)>) {
        let area = Rect::new(0, 0, width, height);
        let (mut buf, mut hits) = (Buffer::empty(area), Vec::new());
        let looks = looks(self.ascii);
        let moved = Style::new().fg(Color::Yellow);
        let styles = MapStyles { ascii: self.ascii, moved, ..MapStyles::default() };
        let picture = MapPicture {
            looks: &looks,
            styles: &styles,
            parts: (!self.parts.is_empty()).then_some(self.parts.as_slice()),
            preview: self.preview.as_ref(),
            preview_is_stale: self.is_stale,
            change: &self.change,
            focused: true,
        };
        let columns = draw_map(map, &picture, area, &mut buf, &mut hits);
        (buf, columns, hits)
    }

    fn text(&self, map: &LayerMap, width: u16, height: u16) -> String {
        let (buf, ..) = self.draw(map, width, height);
        let mut text = String::new();
        for y in 0..height {
            let line: String = (0..width).map(|x| buf[(x, y)].symbol()).collect();
            writeln!(text, "{}", line.trim_end()).unwrap();
        }
        text
    }
}

/// Columns and hits of a plain picture.
pub fn drawn(map: &LayerMap, width: u16, height: u16) -> (Columns, Vec<(Rect, LayerTarget)>) {
    let (_, columns, hits) = Scene::default().draw(map, width, height);
    (columns, hits)
}

fn placement(text: &str, n_layer: u32) -> Placement {
    Placement::parse(text, n_layer, &DEVICES, &Placement::uniform(n_layer, CPU0)).unwrap()
}

fn map(text: &str, n_layer: u32, n_devices: usize) -> LayerMap {
    LayerMap::new(placement(text, n_layer), false, DEVICES[..n_devices].to_vec())
}

fn dense() -> LayerMap {
    map("cuda0=embed,0-16; rocm0=17-24; cpu0=25-29,head", 30, 3)
}

fn parts(n_layer: u32) -> Vec<PartInfoView> {
    Part::all(n_layer)
        .map(|part| PartInfoView {
            weight_bytes: if part.layer().is_some() { 59 << 20 } else { 200 << 20 },
            kv_bytes: if matches!(part, Part::Attn(_)) { 4 << 20 } else { 0 },
            ms: Some(0.155),
        })
        .collect()
}

fn preview(map: &LayerMap) -> PreviewView {
    let device = |id, after: f64| PreviewDevice {
        id,
        after_bytes: (after * (1u64 << 30) as f64) as u64,
        total_bytes: 24 << 30,
        short_bytes: 0,
    };
    PreviewView {
        placement: map.next().clone(),
        refused: None,
        fits: true,
        devices: vec![device(CUDA0, 10.2), device(ROCM0, 15.9), device(CPU0, 3.0)],
        weight_bytes: 2_800_000_000,
        kv_bytes: 100_000_000,
        staging_s: 0.21,
        stall_s: 0.007,
        from_tokens_per_s: Some(41.2),
        to_tokens_per_s: Some(45.8),
    }
}

fn drag_left(map: &mut LayerMap, by: usize) {
    map.act(MapAction::NextItem);
    map.act(MapAction::MoveLeft { by });
}

#[test]
fn thirty_layers_on_three_devices() {
    let mut map = dense();
    let mut scene = Scene { parts: parts(30), ..Scene::default() };
    insta::assert_snapshot!(scene.text(&map, 80, 7), @r"
           0   2   4   6   8   10  12  14  16  18  20  22  24  26  28
    now  E ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■│▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲│● ● ● ● ● H
    next E ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■│▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲│● ● ● ● ● H
    A ■ cuda0 embed,0-16 (17) │ B ▲ rocm0 17-24 (8) │ C ● cpu0 25-29,head (5)
    embed: 200 MiB weights, ~0.16 ms on cuda0
    [Apply] [Apply now] [Undo] [Redo] [Auto] [Cancel]
    ");
    drag_left(&mut map, 8);
    scene.preview = Some(preview(&map));
    insta::assert_snapshot!(scene.text(&map, 80, 7), @r"
           0   2   4   6   8   10  12  14  16  18  20  22  24  26  28
    now  E ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■│▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲│● ● ● ● ● H
    next E ■ ■ ■ ■ ■ ■ ■ ■ ■┃▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲│● ● ● ● ● H
    rocm0 +8 → 15.9/24.0 GiB fits · ~41→46 tok/s · 2.7 GiB ≈0.2 s
    A ■ cuda0 embed,0-8 (9 -8) │ B ▲ rocm0 9-24 (16 +8) │ C ● cpu0 25-29,head (5)
    [Apply] [Apply now] [Undo] [Redo] [Auto] [Cancel]
    cuda0 up to layer 8 · rocm0 from layer 9
    ");
    insta::assert_snapshot!(scene.text(&map, 80, 4), @r"
    now  E ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■│▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲│● ● ● ● ● H
    next E ■ ■ ■ ■ ■ ■ ■ ■ ■┃▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲│● ● ● ● ● H
    rocm0 +8 → 15.9/24.0 GiB fits · ~41→46 tok/s · 2.7 GiB ≈0.2 s
    A ■ cuda0 embed,0-8 (9 -8) │ B ▲ rocm0 9-24 (16 +8) │ C ● cpu0 25-29,head (5)
    ");
    insta::assert_snapshot!(scene.text(&map, 140, 4), @r"
           0   2   4   6   8   10  12  14  16  18  20  22  24  26  28             rocm0 +8 → 15.9/24.0 GiB fits · ~41→46 tok/s · 2.7 GiB ≈0.2 s
    now  E ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■│▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲│● ● ● ● ● H          ■ cuda0 embed,0-8 │ ▲ rocm0 9-24 │ ● cpu0 25-29,head
    next E ■ ■ ■ ■ ■ ■ ■ ■ ■┃▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲│● ● ● ● ● H          [Apply] [Apply now] [Undo] [Redo] [Auto] [Cancel]
                                                                                  cuda0 up to layer 8 · rocm0 from layer 9
    ");
    insta::assert_snapshot!(scene.text(&map, 120, 7), @r"
            0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29
    now  E■ ■■ ■■ ■■ ■■ ■■ ■■ ■■ ■■ ■■ ■■ ■■ ■■ ■■ ■■ ■■ ■■ ■■│▲▲ ▲▲ ▲▲ ▲▲ ▲▲ ▲▲ ▲▲ ▲▲│●● ●● ●● ●● ●● H●
    next E■ ■■ ■■ ■■ ■■ ■■ ■■ ■■ ■■ ■■┃▲▲ ▲▲ ▲▲ ▲▲ ▲▲ ▲▲ ▲▲ ▲▲ ▲▲ ▲▲ ▲▲ ▲▲ ▲▲ ▲▲ ▲▲ ▲▲│●● ●● ●● ●● ●● H●
    rocm0 +8 → 15.9/24.0 GiB fits · cuda0 -8 → 10.2/24.0 GiB · ~41→46 tok/s · 2.7 GiB ≈0.2 s · stall ≈7 ms
    A ■ cuda0 embed,0-8 (9 -8) │ B ▲ rocm0 9-24 (16 +8) │ C ● cpu0 25-29,head (5)
    [Apply] [Apply now] [Undo] [Redo] [Auto] [Cancel]
    cuda0 up to layer 8 · rocm0 from layer 9
    ");
}

#[test]
fn a_preview_of_another_draft_is_not_taken_for_this_one() {
    let mut map = dense();
    drag_left(&mut map, 8);
    let mut scene = Scene { preview: Some(preview(&map)), ..Scene::default() };
    assert!(scene.text(&map, 80, 4).contains("15.9/24.0 GiB fits"));
    map.act(MapAction::MoveLeft { by: 1 });
    let text = scene.text(&map, 80, 4);
    assert!(text.contains("rocm0 +9 → 15.9/24.0 GiB ·") && !text.contains("fits"), "{text}");
    scene.preview = None;
    assert!(scene.text(&map, 80, 4).contains("rocm0 +9 · cuda0 -9 · …"), "{}", scene.text(&map, 80, 4));
}

#[test]
fn what_is_short_says_so_in_place() {
    let mut map = dense();
    drag_left(&mut map, 8);
    let mut answer = preview(&map);
    answer.fits = false;
    answer.devices[1].after_bytes = 27 << 30;
    answer.devices[1].short_bytes = 3 << 30;
    let mut scene = Scene { preview: Some(answer), ..Scene::default() };
    assert!(scene.text(&map, 80, 4).contains("rocm0 +8 → 27.0/24.0 GiB 3.0 GiB short"), "{}", scene.text(&map, 80, 4));
    scene.preview.as_mut().unwrap().refused = Some(
        "rocm0 needs 27.0 GiB of 24.0 GiB: 3,072 MiB short (move 9 layers off it, or lower the context length)".into(),
    );
    insta::assert_snapshot!(scene.text(&map, 80, 6), @r"
           0   2   4   6   8   10  12  14  16  18  20  22  24  26  28
    now  E ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■│▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲│● ● ● ● ● H
    next E ■ ■ ■ ■ ■ ■ ■ ■ ■┃▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲│● ● ● ● ● H
    rocm0 needs 27.0 GiB of 24.0 GiB: 3,072 MiB short (move 9 layers off it, or
    lower the context length)
    A ■ cuda0 embed,0-8 (9 -8) │ B ▲ rocm0 9-24 (16 +8) │ C ● cpu0 25-29,head (5)
    ");
    // One line has to do where there is no other.
    assert!(scene.text(&map, 80, 3).ends_with("…\n"), "{}", scene.text(&map, 80, 3));
}

#[test]
fn a_change_under_way() {
    let map = dense();
    let mut scene = Scene {
        change: ChangeView::Staging { done_bytes: 1_500_000_000, total_bytes: 2_900_000_000, bytes_per_s: 3.1e9 },
        ..Scene::default()
    };
    insta::assert_snapshot!(scene.text(&map, 80, 5), @r"
           0   2   4   6   8   10  12  14  16  18  20  22  24  26  28
    now  E ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■│▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲│● ● ● ● ● H
    next E ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■│▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲│● ● ● ● ● H
    staging · ██████████░░░░░░░░░░ · 1.4/2.7 GiB · 2.9 GiB/s · 0.5 s left
    A ■ cuda0 embed,0-16 (17) │ B ▲ rocm0 17-24 (8) │ C ● cpu0 25-29,head (5)
    ");
    let mut line = |change: ChangeView| {
        scene.change = change;
        scene.text(&map, 80, 4).lines().nth(2).unwrap().to_string()
    };
    insta::assert_snapshot!(
        line(ChangeView::Switched { stall_ms: 7.2, from_tokens_per_s: Some(38.1), to_tokens_per_s: Some(44.3) }), @"switched: stalled 7 ms · 38 → 44 tok/s");
    insta::assert_snapshot!(
        line(ChangeView::Switched { stall_ms: 7.2, from_tokens_per_s: None, to_tokens_per_s: None }), @"switched: stalled 7 ms");
    insta::assert_snapshot!(line(ChangeView::Ready { when_now: false }), @"ready: switches before the next prompt");
    insta::assert_snapshot!(line(ChangeView::Refused("rocm0 is short of 3 GiB".to_string())), @"refused: rocm0 is short of 3 GiB");
    insta::assert_snapshot!(line(ChangeView::Failed("rocm0 went away".to_string())), @"failed: rocm0 went away");
    insta::assert_snapshot!(line(ChangeView::Cancelled), @"cancelled: the old placement works on");
    insta::assert_snapshot!(line(ChangeView::Staging { done_bytes: 0, total_bytes: 0, bytes_per_s: 0.0 }), @"staging · ░░░░░░░░░░░░░░░░░░░░ · 0/0 MiB");
}

#[test]
fn the_line_of_what_is_pointed_at() {
    use MapAction::*;
    let mut map = dense();
    let scene = Scene { parts: parts(30), ..Scene::default() };
    let hits = drawn(&map, 80, 7).1;
    let line = |map: &LayerMap| scene.text(map, 80, 7).lines().find(|l| l.contains(" on ")).map(str::to_string);
    let (area, target) = *hits
        .iter()
        .find(|(_, target)| matches!(target, LayerTarget::Cell { row: Row::Next, first: Part::Attn(20), .. }))
        .unwrap();
    let mouse = MapMouse { kind: MouseKind::Move, x: area.x, y: area.y, shift: false, ctrl: false };
    map.mouse(mouse, &Columns::default(), Some(target), None);
    insta::assert_snapshot!(line(&map).unwrap(), @"layer 20: 118 MiB weights, 4 MiB KV, ~0.31 ms on rocm0");
    map.mouse(mouse, &Columns::default(), None, None);
    for action in [NextItem, NextItem, ExtendRight, ExtendRight] {
        map.act(action);
    }
    insta::assert_snapshot!(line(&map).unwrap(), @"3 selected · layers 17-19: 354 MiB weights, 12 MiB KV, ~0.93 ms on rocm0");
    map.act(MoveTo('a'));
    insta::assert_snapshot!(line(&map).unwrap(), @"layer 19: 118 MiB weights, 4 MiB KV, ~0.31 ms on rocm0 → cuda0");
    // What is typed stands where the verdict is.
    for action in [NextItem, Digit('2'), Digit('1')] {
        map.act(action);
    }
    insta::assert_snapshot!(scene.text(&map, 80, 7), @r"
           0   2   4   6   8   10  12  14  16  18  20  22  24  26  28
    now  E ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■│▲ ▲ ▲ ▲ ▲ ▲ ▲ ▲│● ● ● ● ● H
    next E ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■┃▲ ▲ ▲ ▲│● ● ● ● ● H
    before layer 21┃ · cuda0 +4 · rocm0 -4 · …
    A ■ cuda0 embed,0-20 (21 +4) │ B ▲ rocm0 21-24 (4 -4) │ C ● cpu0 25-29,head (5)
    [Apply] [Apply now] [Undo] [Redo] [Auto] [Cancel]
    cuda0 up to layer 20 · rocm0 from layer 21
    ");
}

#[test]
fn sixty_two_layers_with_experts_apart() {
    let now = placement("cuda0=embed,0-20; cuda1=21-40; rocm0=41-61,head; cpu0=ffn:30-61", 62);
    let mut map = LayerMap::new(now, true, DEVICES.to_vec());
    let scene = Scene { parts: parts(62), ..Scene::default() };
    insta::assert_snapshot!(scene.text(&map, 80, 4), @r"
    now  E■■■■■■■■■■■■■■■■■■■■■│◆◆◆◆◆◆◆◆◆─◆◆◆◆◆◆◆◆◆◆◆│▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲H
    next E■■■■■■■■■■■■■■■■■■■■■│◆◆◆◆◆◆◆◆◆─◆◆◆◆◆◆◆◆◆◆◆│▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲H
    ffn   ■■■■■■■■■■■■■■■■■■■■■│◆◆◆◆◆◆◆◆◆│●●●●●●●●●●●─●●●●●●●●●●●●●●●●●●●●●
    A ■ cuda0 21 │ B ▲ rocm0 21/0 │ C ● cpu0 0/32 │ D ◆ cuda1 20/9
    ");
    map.act(MapAction::RowDown);
    map.act(MapAction::NextItem);
    map.act(MapAction::MoveRight { by: 4 });
    insta::assert_snapshot!(scene.text(&map, 100, 12), @r"
          0    5    10   15   20     25    30   35   40    45   50   55   60
    now  E■■■■■■■■■■■■■■■■■■■■■│◆◆◆◆─◆◆◆◆◆─◆◆◆◆◆◆◆◆◆◆◆│▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲H
    ffn   ■■■■■■■■■■■■■■■■■■■■■│◆◆◆◆─◆◆◆◆◆│●●●●●●●●●●●─●●●●●●●●●●●●●●●●●●●●●
    next E■■■■■■■■■■■■■■■■■■■■■│◆◆◆◆─◆◆◆◆◆─◆◆◆◆◆◆◆◆◆◆◆│▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲▲H
    ffn   ■■■■■■■■■■■■■■■■■■■■■─■■■■┃◆◆◆◆◆│●●●●●●●●●●●─●●●●●●●●●●●●●●●●●●●●●
    cuda0 ffn +4 · cuda1 ffn -4 · …
    A ■ cuda0 embed,0-20,ffn:21-24 (21, ffn 25 +4) │ B ▲ rocm0 head,attn:41-61 (21, ffn 0)
    C ● cpu0 ffn:30-61 (ffn 32) │ D ◆ cuda1 25-29,attn:21-24,30-40 (20, ffn 5 -4)
    [Apply] [Apply now] [Undo] [Redo] [Auto] [Cancel]
    cuda0 up to layer 24 · cuda1 from layer 25
    ");
}

#[test]
fn more_layers_than_columns() {
    let mut map = map("cuda0=embed,0-45; rocm0=46-46; cpu0=47-93,head", 94, 4);
    let scene = Scene { parts: parts(94), ..Scene::default() };
    insta::assert_snapshot!(scene.text(&map, 80, 6), @r"
          0   5  10  15  20 25  30 35  40 45    50  55  60  65 70  75  80  85 90
    now  E■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■│▲│●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●H
    next E■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■│▲│●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●H
    ■ cuda0 embed,0-45 │ ▲ rocm0 46 │ ● cpu0 47-93,head │ ◆ cuda1 –
    embed: 200 MiB weights, ~0.16 ms on cuda0
    [Apply] [Apply now] [Undo] [Redo] [Auto] [Cancel]
    ");
    drag_left(&mut map, 20);
    insta::assert_snapshot!(scene.text(&map, 80, 6), @r"
          0   5   10 15  20 25   30 35  40 45    50  55  60  65 70  75  80  85 90
    now  E■■■■■■■■■■■■■■■■■■■─■■■■■■■■■■■■■■│▲│●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●H
    next E■■■■■■■■■■■■■■■■■■■┃▲▲▲▲▲▲▲▲▲▲▲▲▲▲─▲│●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●●H
    rocm0 +20 · cuda0 -20 · …
    ■ cuda0 embed,0-25 │ ▲ rocm0 26-46 │ ● cpu0 47-93,head │ ◆ cuda1 –
    [Apply] [Apply now] [Undo] [Redo] [Auto] [Cancel]
    ");
    let odd = Placement::from_fn(94, |p| if p.layer().is_some_and(|l| l % 2 == 1) { ROCM0 } else { CUDA0 });
    let map = LayerMap::new(odd, false, DEVICES.to_vec());
    insta::assert_snapshot!(scene.text(&map, 80, 6), @r"
          0   5   10  15  20  25  30 35  40  45  50  55  60  65  70  75 80  85  90
    now  E■▲■▚▲■▚▲■▲▚■▲▚■▲■▚▲■▚▲■▲▚■▲▚■▲■▚▲■▚▲■▲▚■▲▚■▲■▚▲■▚▲■▲▚■▲▚■▲■▚▲■▚▲■▲▚■▲▚■▲▚H
    next E■▲■▚▲■▚▲■▲▚■▲▚■▲■▚▲■▚▲■▲▚■▲▚■▲■▚▲■▚▲■▲▚■▲▚■▲■▚▲■▚▲■▲▚■▲▚■▲■▚▲■▚▲■▲▚■▲▚■▲▚H
    ■ cuda0 embed,0,2,4,…,head │ ▲ rocm0 1,3,5,… │ ● cpu0 – │ ◆ cuda1 –
    embed: 200 MiB weights, ~0.16 ms on cuda0
    [Apply] [Apply now] [Undo] [Redo] [Auto] [Cancel]
    ");
}

#[test]
fn few_layers_and_none() {
    let one = map("cuda0=embed; rocm0=0,head", 1, 3);
    insta::assert_snapshot!(Scene::default().text(&one, 80, 7), @r"
               0
    now  E■■■■│▲▲▲▲▲ H▲▲▲▲
    next E■■■■│▲▲▲▲▲ H▲▲▲▲
    A ■ cuda0 embed │ B ▲ rocm0 0,head (1) │ C ● cpu0 –
    embed on cuda0
    [Apply] [Apply now] [Undo] [Redo] [Auto] [Cancel]
    ");
    let none = map("cuda0=embed; cpu0=head", 0, 3);
    insta::assert_snapshot!(Scene::default().text(&none, 80, 4), @r"
    now  E■■■■│H●●●●
    next E■■■■│H●●●●
    A ■ cuda0 embed │ B ▲ rocm0 – │ C ● cpu0 head
    embed on cuda0
    ");
    let narrow = dense();
    insta::assert_snapshot!(Scene::default().text(&narrow, 30, 6), @r"
          0  5  10 15  20  25
    now  E■■■■■■■■■■│▲▲▲▲▲│●●●●H
    next E■■■■■■■■■■│▲▲▲▲▲│●●●●H
    ■ cuda0 │ ▲ rocm0 │ ● cpu0
    embed on cuda0
    [Apply] [Apply now] [Undo]
    ");
}

#[test]
fn ascii_draws_ascii() {
    let mut map = map("cuda0=embed,0-9; rocm0=10-14; cpu0=15-21,head", 22, 4);
    drag_left(&mut map, 3);
    let mut scene = Scene { ascii: true, parts: parts(22), preview: Some(preview(&map)), ..Scene::default() };
    let text = scene.text(&map, 80, 7);
    assert!(text.is_ascii(), "{text}");
    insta::assert_snapshot!(text, @r"
            0  1  2  3  4  5  6  7  8  9  10 11 12 13 14 15 16 17 18 19 20 21
    now  EA AA AA AA AA AA AA AA AA AA AA|BB BB BB BB BB|CC CC CC CC CC CC CC HC
    next EA AA AA AA AA AA AA AA#BB BB BB BB BB BB BB BB|CC CC CC CC CC CC CC HC
    rocm0 +3 -> 15.9/24.0 GiB fits, ~41->46 tok/s, 2.7 GiB ~0.2 s
    A cuda0 embed,0-6 | B rocm0 7-14 | C cpu0 15-21,head | D cuda1 -
    [Apply] [Apply now] [Undo] [Redo] [Auto] [Cancel]
    cuda0 up to layer 6, rocm0 from layer 7
    ");
    scene.change = ChangeView::Staging { done_bytes: 1 << 30, total_bytes: 2 << 30, bytes_per_s: 1e9 };
    assert!(scene.text(&map, 80, 7).is_ascii());
}

#[test]
fn moved_layers_are_marked_without_colour_too() {
    let mut map = dense();
    drag_left(&mut map, 8);
    let (buf, columns, _) = Scene::default().draw(&map, 80, 7);
    let underlined = |slot: usize, y: u16| {
        let x = columns.column_of(slot).unwrap();
        buf[(x, y)].modifier.contains(Modifier::UNDERLINED)
    };
    // Layers 9 to 16 go from cuda0 to rocm0; the rows stand below the ruler.
    assert!(!underlined(9, 2) && underlined(10, 2) && underlined(17, 2) && !underlined(18, 2));
    assert!((0..32).all(|slot| !underlined(slot, 1)));
}

#[test]
fn hits_are_what_is_drawn() {
    let map = dense();
    for width in [40, 80, 130] {
        let (buf, columns, hits) = Scene::default().draw(&map, width, 7);
        for (x, _) in columns.iter() {
            let at = |y: u16| hits.iter().rfind(|(area, _)| area.contains((x, y).into())).map(|&(_, target)| target);
            match (buf[(x, 2)].symbol(), at(2)) {
                ("│" | "┃", Some(LayerTarget::Edge { row: Row::Next, .. })) => {}
                ("│" | "┃", other) => panic!("{other:?} under an edge"),
                (sign, Some(LayerTarget::Cell { row: Row::Next, first, .. })) => {
                    let device = looks(false).into_iter().find(|l| l.id == map.next().get(first)).unwrap();
                    let letter = match first {
                        Part::Embed => "E",
                        Part::Head => "H",
                        Part::Attn(_) | Part::Ffn(_) => " ",
                    };
                    assert!(sign == device.shape.to_string() || ["─", " ", letter].contains(&sign), "{sign} at {x}");
                }
                (sign, other) => panic!("{other:?} under {sign:?} at {x}"),
            }
        }
        let legend = hits.iter().filter(|(_, target)| matches!(target, LayerTarget::Device(_))).count();
        assert_eq!(legend, 3);
    }
}

#[test]
fn any_size_draws() {
    let moe = LayerMap::new(placement("cuda0=embed,0-29,head; cpu0=ffn:10-29", 30), true, DEVICES.to_vec());
    let maps = [dense(), moe, map("cuda0=all", 0, 4), map("cuda0=0-90; rocm0=91-93", 94, 4)];
    for mut map in maps {
        for width in (0..=40).chain((41..=200).step_by(3)) {
            for height in [0, 1, 2, 3, 4, 6, 14] {
                let scene =
                    Scene { preview: Some(preview(&map)), parts: parts(map.now().n_layer()), ..Scene::default() };
                let (_, _, hits) = scene.draw(&map, width, height);
                let area = Rect::new(0, 0, width, height);
                assert!(hits.iter().all(|(hit, _)| !hit.is_empty() && area.intersection(*hit) == *hit));
            }
            assert!((6..=12).contains(&wanted_height(&map, width)), "{}", wanted_height(&map, width));
            map.act(if width % 3 == 0 { MapAction::NextItem } else { MapAction::MoveRight { by: 1 } });
        }
    }
}

#[test]
fn an_area_outside_the_buffer_draws_nothing() {
    let mut buf = Buffer::empty(Rect::new(0, 0, 10, 2));
    let mut hits = Vec::new();
    let styles = MapStyles::default();
    let picture = MapPicture {
        looks: &[],
        styles: &styles,
        parts: None,
        preview: None,
        preview_is_stale: false,
        change: &ChangeView::None,
        focused: false,
    };
    draw_map(&dense(), &picture, Rect::new(20, 5, 80, 9), &mut buf, &mut hits);
    assert_eq!(buf, Buffer::empty(Rect::new(0, 0, 10, 2)));
    draw_map(&dense(), &picture, Rect::new(5, 1, 80, 9), &mut buf, &mut hits);
    assert!(hits.iter().all(|(area, _)| area.right() <= 10 && area.bottom() <= 2));
}
