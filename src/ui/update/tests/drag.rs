//! The layer map with the mouse.

use crossterm::event::{MouseButton, MouseEventKind};

use super::layers::{at_an_edge, one_preview, repartition};
use super::script::*;
use crate::ui::gauges::testing::{CPU0, CUDA1, reading};
use crate::ui::hits::{PanelId, Target};
use crate::ui::layers::{LayerTarget, MapButton};
use crate::ui::msg::Msg;

#[test]
fn a_block_is_dragged_onto_a_devices_card_with_the_mouse() {
    let mut s = Script::loaded();
    let card = s.place(|t| *t == Target::Device(CPU0));
    let from = s.layer(8);
    s.mouse(MouseEventKind::Down(MouseButton::Left), from);
    s.mouse(MouseEventKind::Drag(MouseButton::Left), card);
    // Before the drop it is drawn, and a forecast asked for.
    assert_eq!(s.draft(), "cuda0=embed,0-5; cpu0=6-11,head");
    assert_eq!(s.state.layers.as_ref().and_then(|l| l.drop_hot), Some(CPU0));
    one_preview(&mut s);
    s.mouse(MouseEventKind::Up(MouseButton::Left), card);
    assert_eq!(s.draft(), "cuda0=embed,0-5; cpu0=6-11,head");
    assert_eq!(s.state.layers.as_ref().and_then(|l| l.drop_hot), None);
    assert_eq!(s.state.focus, PanelId::Layers);
    s.keys("u");
    assert_eq!(s.draft(), PLACEMENT);
}

#[test]
fn an_edge_is_dragged_with_the_mouse() {
    let mut s = Script::loaded();
    let edge = s.place(|t| matches!(t, Target::Layers(LayerTarget::Edge { row, index: 7 }) if row.is_draft()));
    let to = s.layer(3);
    s.drag(edge, to);
    assert!(s.draft().starts_with("cuda0=embed,0-"), "{}", s.draft());
    assert_ne!(s.draft(), PLACEMENT);
}

#[test]
fn a_card_that_the_engine_does_not_have_takes_nothing() {
    let mut s = Script::loaded();
    s.send(Msg::Telemetry(vec![reading(CUDA1, "Quadro P400", 2048, 300)]));
    s.draw();
    let card = s.place(|t| *t == Target::Device(CUDA1));
    let from = s.layer(8);
    s.mouse(MouseEventKind::Down(MouseButton::Left), from);
    s.mouse(MouseEventKind::Drag(MouseButton::Left), card);
    s.mouse(MouseEventKind::Up(MouseButton::Left), card);
    assert_eq!(s.draft(), PLACEMENT);
    assert!(commands(&s.take()).is_empty());
}

#[test]
fn a_drag_that_is_interrupted_comes_to_nothing_and_the_map_works_on() {
    for key in ["ctrl+p", "f2", "ctrl+o", "esc"] {
        let mut s = at_an_edge();
        let (card, from) = (s.place(|t| *t == Target::Device(CPU0)), s.layer(8));
        s.mouse(MouseEventKind::Down(MouseButton::Left), from);
        s.mouse(MouseEventKind::Drag(MouseButton::Left), card);
        s.keys(key);
        s.mouse(MouseEventKind::Up(MouseButton::Left), card);
        let layers = s.state.layers.as_ref().expect("a map");
        assert!(!layers.map.is_pressed(), "{key}");
        assert_eq!((s.draft().as_str(), layers.drop_hot), (PLACEMENT, None), "{key}");
        s.keys(match key {
            "ctrl+p" | "ctrl+o" => "esc",
            _ => "left",
        });
        s.keys("alt+l v m a");
        assert_ne!(s.draft(), PLACEMENT, "{key}");
    }
}

#[test]
fn the_words_on_the_map_can_be_clicked() {
    let mut s = at_an_edge();
    s.keys("h");
    s.take();
    let apply = s.place(|t| matches!(t, Target::Layers(LayerTarget::Button(MapButton::Apply))));
    s.click(apply);
    repartition(&s.take());
}
