//! Scripts of keys and mouse on the map.

use proptest::prelude::*;

use super::view::MapButton;
use super::*;
use crate::engine::part::Part;
use crate::engine::placement::Placement;
use crate::engine::protocol::{DeviceId, DeviceKind};

const CUDA0: DeviceId = DeviceId::new(DeviceKind::Cuda, 0);
const CUDA1: DeviceId = DeviceId::new(DeviceKind::Cuda, 1);
const ROCM0: DeviceId = DeviceId::new(DeviceKind::Rocm, 0);
const CPU0: DeviceId = DeviceId::cpu(0);

fn placement(text: &str, n_layer: u32) -> Placement {
    let devices = [CUDA0, ROCM0, CPU0, CUDA1];
    Placement::parse(text, n_layer, &devices, &Placement::uniform(n_layer, CPU0)).unwrap()
}

/// Thirty layers on three devices; a fourth is empty.
fn map() -> LayerMap {
    let now = placement("cuda0=embed,0-9; rocm0=10-19; cpu0=20-29,head", 30);
    LayerMap::new(now, false, vec![CUDA0, ROCM0, CPU0, CUDA1])
}

fn moe() -> LayerMap {
    let now = placement("cuda0=embed,0-29,head; cpu0=ffn:10-29", 30);
    LayerMap::new(now, true, vec![CUDA0, ROCM0, CPU0, CUDA1])
}

fn acts(map: &mut LayerMap, actions: &[MapAction]) -> MapOutcome {
    actions.iter().fold(MapOutcome::Nothing, |_, &action| map.act(action))
}

fn text(map: &LayerMap) -> String {
    map.next().to_string()
}

/// The mouse over a map whose rows begin in column 0.
struct Hand {
    columns: Columns,
}

impl Hand {
    fn over(map: &LayerMap) -> Hand {
        Hand { columns: map.columns(0, 70) }
    }

    fn event(&self, map: &mut LayerMap, kind: MouseKind, x: u16, target: Option<LayerTarget>) -> MapOutcome {
        self.with(map, kind, x, target, None, "")
    }

    fn with(
        &self,
        map: &mut LayerMap,
        kind: MouseKind,
        x: u16,
        target: Option<LayerTarget>,
        card: Option<DeviceId>,
        keys: &str,
    ) -> MapOutcome {
        let mouse = MapMouse { kind, x, y: 1, shift: keys == "shift", ctrl: keys == "ctrl" };
        map.mouse(mouse, &self.columns, target, card)
    }

    /// The column of the edge before a layer.
    fn edge(&self, layer: usize) -> u16 {
        (0..70).find(|&x| self.columns.boundary_at(x) == Some(layer + 1)).unwrap()
    }

    fn click(&self, map: &mut LayerMap, layer: u32, keys: &str) {
        let x = self.columns.column_of(layer as usize + 1).unwrap();
        self.with(map, MouseKind::Down, x, cell(layer), None, keys);
        self.with(map, MouseKind::Up, x, cell(layer), None, keys);
    }
}

fn cell(layer: u32) -> Option<LayerTarget> {
    let part = Part::Attn(layer);
    Some(LayerTarget::Cell { row: Row::Next, first: part, last: part })
}

fn edge(layer: usize) -> Option<LayerTarget> {
    Some(LayerTarget::Edge { row: Row::Next, index: layer + 1 })
}

#[test]
fn an_edge_is_dragged_there_and_back() {
    let mut map = map();
    let hand = Hand::over(&map);
    assert_eq!(hand.event(&mut map, MouseKind::Down, hand.edge(10), edge(10)), MapOutcome::Redraw);
    assert_eq!(hand.event(&mut map, MouseKind::Drag, hand.edge(6), cell(6)), MapOutcome::DraftChanged);
    assert_eq!(text(&map), "cuda0=embed,0-5; rocm0=6-19; cpu0=20-29,head");
    assert!(map.is_dragging());
    // Past the next edge it swallows that block; above the map only the column counts.
    assert_eq!(hand.event(&mut map, MouseKind::Drag, hand.edge(24), None), MapOutcome::DraftChanged);
    assert_eq!(text(&map), "cuda0=embed,0-23; cpu0=24-29,head");
    assert_eq!(hand.event(&mut map, MouseKind::Drag, hand.edge(10), cell(10)), MapOutcome::DraftChanged);
    assert!(!map.has_changes());
    hand.event(&mut map, MouseKind::Drag, hand.edge(12), cell(12));
    assert_eq!(hand.event(&mut map, MouseKind::Up, hand.edge(12), cell(12)), MapOutcome::Redraw);
    assert_eq!(text(&map), "cuda0=embed,0-11; rocm0=12-19; cpu0=20-29,head");
    assert!(!map.is_dragging());
    // The whole drag is one step.
    assert_eq!(map.act(MapAction::Undo), MapOutcome::DraftChanged);
    assert!(!map.has_changes());
    assert_eq!(map.act(MapAction::Undo), MapOutcome::Refused("nothing to undo".to_string()));
    map.act(MapAction::Redo);
    assert_eq!(text(&map), "cuda0=embed,0-11; rocm0=12-19; cpu0=20-29,head");
}

#[test]
fn an_edge_dragged_past_the_end_takes_everything() {
    let mut map = map();
    let hand = Hand::over(&map);
    hand.event(&mut map, MouseKind::Down, hand.edge(20), edge(20));
    hand.event(&mut map, MouseKind::Up, 69, None);
    assert_eq!(text(&map), "cuda0=embed,0-9; rocm0=10-29,head");
}

#[test]
fn a_block_goes_to_a_card_a_block_a_legend_entry_or_an_empty_device() {
    let drops = [
        (None, Some(CPU0), "cuda0=embed,0-9; cpu0=10-29,head"),
        (cell(25), None, "cuda0=embed,0-9; cpu0=10-29,head"),
        (Some(LayerTarget::Device(CUDA0)), None, "cuda0=embed,0-19; cpu0=20-29,head"),
        (None, Some(CUDA1), "cuda0=embed,0-9; cuda1=10-19; cpu0=20-29,head"),
        (Some(LayerTarget::Device(CUDA1)), None, "cuda0=embed,0-9; cuda1=10-19; cpu0=20-29,head"),
    ];
    for (target, card, expected) in drops {
        let mut map = map();
        let hand = Hand::over(&map);
        hand.event(&mut map, MouseKind::Down, 20, cell(12));
        // On its way it lies where the pointer is, and nowhere else when that is no device.
        hand.event(&mut map, MouseKind::Drag, 5, cell(3));
        assert_eq!(text(&map), "cuda0=embed,0-19; cpu0=20-29,head");
        hand.event(&mut map, MouseKind::Drag, 5, None);
        assert!(!map.has_changes());
        assert_eq!(hand.with(&mut map, MouseKind::Up, 60, target, card, ""), MapOutcome::DraftChanged);
        assert_eq!(text(&map), expected);
        map.act(MapAction::Undo);
        assert!(!map.has_changes());
    }
}

#[test]
fn a_drop_on_nothing_or_on_a_stranger_changes_nothing() {
    for card in [None, Some(DeviceId::cpu(7))] {
        let mut map = map();
        let hand = Hand::over(&map);
        hand.event(&mut map, MouseKind::Down, 20, cell(12));
        hand.event(&mut map, MouseKind::Drag, 5, cell(3));
        hand.with(&mut map, MouseKind::Up, 60, None, card, "");
        assert!(!map.has_changes());
        assert!(!map.can_undo());
    }
}

#[test]
fn clicks_select_a_range_that_is_dragged_whole() {
    let mut map = map();
    let hand = Hand::over(&map);
    hand.click(&mut map, 14, "");
    hand.click(&mut map, 17, "shift");
    hand.click(&mut map, 12, "shift");
    assert_eq!(map.selection.as_ref().map(|s| s.slots.clone()), Some(13..16));
    hand.event(&mut map, MouseKind::Down, 20, cell(13));
    hand.event(&mut map, MouseKind::Up, 60, cell(22));
    assert_eq!(text(&map), "cuda0=embed,0-9; rocm0=10-11,15-19; cpu0=12-14,20-29,head");
    assert_eq!(map.selection, None);
    // With Ctrl a single layer leaves its block.
    hand.with(&mut map, MouseKind::Down, 20, cell(3), None, "ctrl");
    hand.event(&mut map, MouseKind::Up, 60, cell(22));
    assert_eq!(text(&map), "cuda0=embed,0-2,4-9; cpu0=3,12-14,20-29,head; rocm0=10-11,15-19");
}

#[test]
fn escape_in_mid_drag_restores() {
    let mut map = map();
    let hand = Hand::over(&map);
    hand.event(&mut map, MouseKind::Down, hand.edge(10), edge(10));
    hand.event(&mut map, MouseKind::Drag, hand.edge(2), cell(2));
    assert!(map.has_changes());
    // Other keys wait until the mouse lets go.
    assert_eq!(map.act(MapAction::Undo), MapOutcome::Nothing);
    assert_eq!(map.act(MapAction::Cancel), MapOutcome::DraftChanged);
    assert!(!map.has_changes());
    // What is still to come of that drag moves nothing, it only hovers.
    assert_eq!(hand.event(&mut map, MouseKind::Drag, hand.edge(4), cell(4)), MapOutcome::Redraw);
    assert_eq!(hand.event(&mut map, MouseKind::Up, hand.edge(4), cell(4)), MapOutcome::Nothing);
    assert!(!map.has_changes() && !map.can_undo());
    assert_eq!(map.act(MapAction::Cancel), MapOutcome::Cancel);
}

#[test]
fn buttons_act_when_let_go_on_them() {
    let mut map = map();
    let hand = Hand::over(&map);
    let apply = Some(LayerTarget::Button(MapButton::Apply));
    acts(&mut map, &[MapAction::NextItem, MapAction::MoveLeft { by: 1 }]);
    hand.event(&mut map, MouseKind::Down, 3, apply);
    assert_eq!(hand.event(&mut map, MouseKind::Up, 3, apply), MapOutcome::Apply);
    hand.event(&mut map, MouseKind::Down, 3, apply);
    assert_eq!(hand.event(&mut map, MouseKind::Up, 20, None), MapOutcome::Redraw);
    let undo = Some(LayerTarget::Button(MapButton::Undo));
    hand.event(&mut map, MouseKind::Down, 9, undo);
    assert_eq!(hand.event(&mut map, MouseKind::Up, 9, undo), MapOutcome::DraftChanged);
    assert!(!map.has_changes());
}

#[test]
fn keys_move_an_edge() {
    use MapAction::*;
    let mut map = map();
    assert!(matches!(map.act(MoveLeft { by: 1 }), MapOutcome::Refused(_)));
    assert_eq!(acts(&mut map, &[NextItem, MoveLeft { by: 1 }]), MapOutcome::DraftChanged);
    assert_eq!(text(&map), "cuda0=embed,0-8; rocm0=9-19; cpu0=20-29,head");
    acts(&mut map, &[MoveRight { by: 5 }, MoveRight { by: 1 }]);
    assert_eq!(text(&map), "cuda0=embed,0-14; rocm0=15-19; cpu0=20-29,head");
    // A run of moves is one step, and it comes back through a block that it had swallowed.
    acts(&mut map, &[MoveRight { by: 5 }, MoveRight { by: 5 }, MoveLeft { by: 8 }]);
    assert_eq!(text(&map), "cuda0=embed,0-16; rocm0=17-19; cpu0=20-29,head");
    acts(&mut map, &[Undo]);
    assert!(!map.has_changes());
}

#[test]
fn a_picked_edge_is_put_down_or_brought_back() {
    use MapAction::*;
    let mut map = map();
    acts(&mut map, &[NextItem, Pick, CursorRight, ExtendRight]);
    assert!(map.is_picked());
    assert_eq!(text(&map), "cuda0=embed,0-15; rocm0=16-19; cpu0=20-29,head");
    assert_eq!(map.act(Cancel), MapOutcome::DraftChanged);
    assert!(!map.has_changes() && map.is_at_edge());
    acts(&mut map, &[Pick, CursorLeft]);
    assert_eq!(map.act(Apply), MapOutcome::Redraw);
    assert!(!map.is_picked());
    assert_eq!(map.act(Apply), MapOutcome::Apply);
    assert_eq!(text(&map), "cuda0=embed,0-8; rocm0=9-19; cpu0=20-29,head");
}

#[test]
fn a_picked_block_goes_from_device_to_device() {
    use MapAction::*;
    let mut map = map();
    acts(&mut map, &[NextItem, NextItem, Pick, CursorRight]);
    assert_eq!(text(&map), "cuda0=embed,0-9; cpu0=10-29,head");
    acts(&mut map, &[CursorRight, CursorRight]);
    assert_eq!(text(&map), "cuda0=embed,0-9; cuda1=10-19; cpu0=20-29,head");
    acts(&mut map, &[CursorLeft, CursorLeft, CursorLeft, Pick]);
    assert_eq!(text(&map), "cuda0=embed,0-19; cpu0=20-29,head");
    acts(&mut map, &[Undo]);
    assert!(!map.has_changes());
}

#[test]
fn digits_type_a_boundary() {
    use MapAction::*;
    let mut map = map();
    assert!(matches!(map.act(Digit('2')), MapOutcome::Refused(_)));
    acts(&mut map, &[NextItem, Digit('2')]);
    assert_eq!(text(&map), "cuda0=embed,0-1; rocm0=2-19; cpu0=20-29,head");
    acts(&mut map, &[Digit('4')]);
    assert_eq!(text(&map), "cuda0=embed,0-23; cpu0=24-29,head");
    assert!(matches!(map.act(Digit('0')), MapOutcome::Refused(_)));
    acts(&mut map, &[Backspace]);
    assert_eq!(text(&map), "cuda0=embed,0-1; rocm0=2-19; cpu0=20-29,head");
    acts(&mut map, &[Backspace]);
    assert!(!map.has_changes());
    // Enter ends the typing, the next one applies.
    assert_eq!(acts(&mut map, &[Digit('1'), Digit('5'), Apply]), MapOutcome::Redraw);
    assert_eq!(text(&map), "cuda0=embed,0-14; rocm0=15-19; cpu0=20-29,head");
    assert_eq!(map.act(Apply), MapOutcome::Apply);
    acts(&mut map, &[Undo]);
    assert!(!map.has_changes());
    assert!(matches!(map.act(Apply), MapOutcome::Refused(_)));
}

#[test]
fn a_selection_moves_by_letter() {
    use MapAction::*;
    let mut map = map();
    acts(&mut map, &[NextItem, NextItem, CursorRight, ExtendRight, ExtendRight]);
    assert_eq!(map.act(MoveTo('c')), MapOutcome::DraftChanged);
    assert_eq!(text(&map), "cuda0=embed,0-9; rocm0=10,14-19; cpu0=11-13,20-29,head");
    acts(&mut map, &[Undo, SelectBlock]);
    assert_eq!(map.act(MoveTo('D')), MapOutcome::DraftChanged);
    assert_eq!(text(&map), "cuda0=embed,0-9; cuda1=10-19; cpu0=20-29,head");
    assert!(matches!(map.act(MoveTo('e')), MapOutcome::Refused(_)));
    // Without a selection it is the block at the cursor, and embed and head are part of one.
    acts(&mut map, &[Undo, PreviousItem, PreviousItem, PreviousItem, MoveTo('b')]);
    assert_eq!(text(&map), "rocm0=embed,0-19; cpu0=20-29,head");
}

#[test]
fn ffn_parts_move_alone_in_their_row() {
    use MapAction::*;
    let mut map = moe();
    assert!(map.has_ffn_row());
    // The edge of the Ffn row.
    acts(&mut map, &[RowDown, NextItem, MoveRight { by: 4 }]);
    assert_eq!(text(&map), "cuda0=embed,0-29,head; cpu0=ffn:14-29");
    // Attention moves without the experts that lie elsewhere, and with those that lie with it.
    acts(&mut map, &[RowUp, SelectBlock, MoveTo('b')]);
    assert_eq!(text(&map), "rocm0=embed,0-29,head; cpu0=ffn:14-29");
    let hand = Hand::over(&map);
    let ffn = |l| Some(LayerTarget::Cell { row: Row::Ffn, first: Part::Ffn(l), last: Part::Ffn(l) });
    hand.event(&mut map, MouseKind::Down, 60, ffn(28));
    hand.with(&mut map, MouseKind::Up, 3, None, Some(CUDA1), "");
    assert_eq!(text(&map), "rocm0=embed,0-29,head; cuda1=ffn:14-29");
}

#[test]
fn a_dense_model_gets_an_ffn_row_when_parts_lie_apart() {
    let mut map = map();
    assert!(!map.has_ffn_row());
    assert_eq!(map.act(MapAction::RowDown), MapOutcome::Nothing);
    map.set_draft(map.next().clone().with(Part::Ffn(3), CPU0));
    assert!(map.has_ffn_row());
    map.act(MapAction::RowDown);
    map.act(MapAction::Undo);
    assert!(!map.has_ffn_row());
    assert_eq!(map.row, Row::Next);
}

#[test]
fn the_draft_follows_what_runs_unless_edited() {
    let mut map = map();
    let other = placement("cuda0=embed,0-29,head", 30);
    map.set_now(other.clone());
    assert_eq!(*map.next(), other);
    let auto = placement("rocm0=embed,0-29,head", 30);
    assert_eq!(map.set_draft(auto.clone()), MapOutcome::DraftChanged);
    map.set_now(placement("cpu0=embed,0-29,head", 30));
    assert_eq!(*map.next(), auto);
    map.set_now(auto.clone());
    assert!(!map.has_changes());
    // What ran before can be undone to.
    map.act(MapAction::Undo);
    assert_eq!(*map.next(), other);
    assert_eq!(map.discard(), MapOutcome::DraftChanged);
    assert_eq!(*map.next(), auto);
    // Another model starts anew.
    map.set_now(Placement::uniform(4, CPU0));
    assert_eq!(map.next().n_layer(), 4);
    assert!(!map.can_undo());
}

#[test]
fn a_foreign_draft_is_refused() {
    let mut map = map();
    assert!(matches!(map.set_draft(Placement::uniform(4, CPU0)), MapOutcome::Refused(_)));
    assert!(matches!(map.set_draft(Placement::uniform(30, DeviceId::cpu(9))), MapOutcome::Refused(_)));
    assert!(!map.has_changes());
}

#[derive(Clone, Debug)]
enum Step {
    Act(MapAction),
    Mouse(MouseKind, u16, u16, u8, Option<LayerTarget>, Option<DeviceId>),
    /// The mouse on what is drawn there.
    Drawn(MouseKind, u16, u16, u8),
    Now(u32),
}

fn any_action() -> impl Strategy<Value = MapAction> {
    use MapAction::*;
    prop_oneof![
        proptest::sample::select(vec![
            CursorLeft,
            CursorRight,
            NextItem,
            PreviousItem,
            RowUp,
            RowDown,
            Pick,
            ExtendLeft,
            ExtendRight,
            Backspace,
            SelectBlock,
            Undo,
            Redo,
            Auto,
            Apply,
            ApplyNow,
            Cancel,
        ]),
        (0usize..40).prop_map(|by| MoveLeft { by }),
        (0usize..40).prop_map(|by| MoveRight { by }),
        proptest::char::range('0', '9').prop_map(Digit),
        any::<char>().prop_map(Digit),
        proptest::char::range('A', 'f').prop_map(MoveTo),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    let kind = || proptest::sample::select(vec![MouseKind::Down, MouseKind::Drag, MouseKind::Up, MouseKind::Move]);
    let row = proptest::sample::select(vec![Row::Now, Row::NowFfn, Row::Next, Row::Ffn]);
    let part = || {
        prop_oneof![
            Just(Part::Embed),
            (0u32..40).prop_map(Part::Attn),
            (0u32..40).prop_map(Part::Ffn),
            Just(Part::Head)
        ]
    };
    let id = || proptest::sample::select(vec![CUDA0, ROCM0, CPU0, CUDA1, DeviceId::cpu(3)]);
    let target = prop_oneof![
        (row.clone(), part(), part()).prop_map(|(row, first, last)| LayerTarget::Cell { row, first, last }),
        (row, 0usize..45).prop_map(|(row, index)| LayerTarget::Edge { row, index }),
        id().prop_map(LayerTarget::Device),
        Just(LayerTarget::Button(MapButton::Undo)),
    ];
    prop_oneof![
        6 => any_action().prop_map(Step::Act),
        2 => (kind(), 0u16..90, 0u16..9, any::<u8>(), proptest::option::of(target), proptest::option::of(id()))
            .prop_map(|(kind, x, y, keys, target, card)| Step::Mouse(kind, x, y, keys, target, card)),
        6 => (kind(), 0u16..90, 0u16..9, any::<u8>()).prop_map(|(kind, x, y, keys)| Step::Drawn(kind, x, y, keys)),
        1 => (0u32..4).prop_map(Step::Now),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whatever_is_done_every_part_has_a_listed_device(
        n_layer in 0u32..34,
        is_moe in any::<bool>(),
        steps in proptest::collection::vec(any_step(), 0..60),
    ) {
        let three = |l: Part| [CUDA0, ROCM0, CPU0][l.layer().map_or(0, |l| l as usize * 3 / n_layer.max(1) as usize)];
        let start = Placement::from_fn(n_layer, three);
        let mut map = LayerMap::new(start.clone(), is_moe, vec![CUDA0, ROCM0, CPU0, CUDA1]);
        for step in steps {
            let before = map.next().clone();
            let (columns, hits) = super::draw_tests::drawn(&map, 84, 9);
            let outcome = match step {
                Step::Act(action) => map.act(action),
                Step::Mouse(kind, x, y, keys, target, card) => {
                    let mouse = MapMouse { kind, x, y, shift: keys & 1 == 1, ctrl: keys & 6 == 6 };
                    map.mouse(mouse, &columns, target, card)
                }
                Step::Drawn(kind, x, y, keys) => {
                    let under = |(area, _): &&(ratatui::layout::Rect, LayerTarget)| area.contains((x, y).into());
                    let target = hits.iter().rfind(under).map(|&(_, target)| target);
                    let mouse = MapMouse { kind, x, y, shift: keys & 1 == 1, ctrl: keys & 6 == 6 };
                    map.mouse(mouse, &columns, target, None)
                }
                Step::Now(n) => {
                    map.set_now(Placement::from_fn(n_layer, |p| if n % 2 == 0 { CPU0 } else { three(p) }));
                    continue;
                }
            };
            prop_assert_eq!(map.next().n_layer(), n_layer);
            prop_assert!(map.next().iter().all(|(_, id)| map.devices().contains(&id)));
            // Who draws previews relies on being told.
            prop_assert!(*map.next() == before || outcome == MapOutcome::DraftChanged, "{:?} unannounced", outcome);
        }
        // Undo leads back to where it began.
        map.act(MapAction::Cancel);
        while map.can_undo() {
            map.act(MapAction::Undo);
        }
        prop_assert!(map.next().iter().all(|(_, id)| map.devices().contains(&id)));
    }
}
