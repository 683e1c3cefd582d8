//! The layer map: drafts, forecasts, changes.

use super::script::*;
use crate::engine::protocol::*;
use crate::sessions::Record;
use crate::ui::gauges::holds;
use crate::ui::gauges::testing::{CUDA0, ROCM0, mib};
use crate::ui::hits::PanelId;
use crate::ui::layers::ChangeView;
use crate::ui::msg::{Effect, Msg};
use crate::ui::state::State;

/// With the focus on the map, and the cursor on the edge before layer 6.
pub fn at_an_edge() -> Script {
    let mut s = Script::loaded();
    s.keys("alt+l tab");
    s
}

fn previews(effects: &[Effect]) -> Vec<(RequestId, String)> {
    let preview = |command: &&Command| match command {
        Command::Preview { id, placement } => Some((*id, placement.clone())),
        _ => None,
    };
    commands(effects).iter().filter_map(preview).collect()
}

pub fn one_preview(s: &mut Script) -> (RequestId, String) {
    match &previews(&s.take())[..] {
        [one] => one.clone(),
        other => panic!("one forecast: {other:?}"),
    }
}

fn answer(s: &mut Script, id: RequestId, placement: &str) {
    s.engine(Event::Previewed { id, preview: Box::new(preview(placement)) });
    s.draw();
}

pub fn repartition(effects: &[Effect]) -> (RequestId, String, When) {
    match &commands(effects)[..] {
        [Command::Repartition { id, placement, when }] => (*id, placement.clone(), *when),
        other => panic!("one change: {other:?}"),
    }
}

fn view(state: &State) -> &ChangeView {
    &state.layers.as_ref().expect("a map").change.view
}

fn change(s: &mut Script, id: RequestId, state: ChangeState) {
    s.engine(Event::Repartition { id, state });
    s.draw();
}

/// A draft that was applied.
fn applied(s: &mut Script, key: &str) -> (RequestId, String, When) {
    s.keys("h");
    let (id, text) = one_preview(s);
    answer(s, id, &text);
    s.keys(key);
    repartition(&s.take())
}

#[test]
fn one_forecast_is_asked_for_at_a_time_and_then_that_of_the_newest_draft() {
    let mut s = at_an_edge();
    s.keys("h");
    let (id, text) = one_preview(&mut s);
    assert_eq!(text, "cuda0=embed,0-4; rocm0=5-9; cpu0=10-11,head");
    s.keys("h h h");
    assert!(s.take().is_empty(), "the first is not answered yet");
    let newest = s.draft();
    answer(&mut s, id, &text);
    // The answer to the old draft is known as such.
    let shown = |s: &Script| s.state.layers.as_ref().and_then(|l| l.preview.as_ref().map(|p| p.placement.to_string()));
    assert_eq!(shown(&s).as_deref(), Some(text.as_str()));
    let (id, text) = one_preview(&mut s);
    assert_eq!(text, newest);
    // One that nobody waits for changes nothing.
    answer(&mut s, RequestId(9999), "cpu0=embed,0-11,head");
    answer(&mut s, id, &text);
    assert_eq!(shown(&s).as_deref(), Some(newest.as_str()));
    assert!(s.take().is_empty());
    // Back at what runs there is nothing to forecast.
    s.keys("l l l l");
    s.take();
    assert_eq!((s.draft().as_str(), shown(&s)), (PLACEMENT, None));
}

#[test]
fn a_forecast_that_fails_is_not_waited_for() {
    let mut s = at_an_edge();
    s.keys("h");
    let (id, _) = one_preview(&mut s);
    s.keys("h");
    let newest = s.draft();
    s.engine(Event::Failed { id, message: "no forecast".into() });
    assert_eq!(s.notices(), ["no forecast"]);
    let (id, text) = one_preview(&mut s);
    assert_eq!(text, newest);
    s.engine(Event::Failed { id, message: "no forecast".into() });
    assert!(s.take().is_empty(), "the same is not asked again");
    s.keys("h");
    one_preview(&mut s);
}

#[test]
fn enter_changes_before_the_next_prompt_and_the_exclamation_mark_now() {
    for (key, when) in [("enter", When::NextPrefill), ("!", When::Now)] {
        let mut s = at_an_edge();
        let (id, text, at) = applied(&mut s, key);
        assert_eq!((text, at), (s.draft(), when));
        change(&mut s, id, ChangeState::Checked { n_moves: 2, move_bytes: mib(100) });
        change(&mut s, id, ChangeState::Reserved { reserved_bytes: mib(100) });
        s.wait(500);
        change(&mut s, id, ChangeState::Staging { done_bytes: mib(50), total_bytes: mib(100) });
        match view(&s.state) {
            ChangeView::Staging { done_bytes, total_bytes, bytes_per_s } => {
                assert_eq!((*done_bytes, *total_bytes), (mib(50), mib(100)));
                assert_eq!(*bytes_per_s, mib(100) as f64);
            }
            other => panic!("{other:?}"),
        }
        change(&mut s, id, ChangeState::Ready { staging_ms: 300.0 });
        assert_eq!(*view(&s.state), ChangeView::Ready { when_now: when == When::Now });
        assert_eq!(s.now(), PLACEMENT);
    }
}

#[test]
fn a_switch_moves_the_map_the_devices_and_the_session() {
    let mut s = at_an_edge();
    s.state.chat.decode_tokens_per_s = Some(38.0);
    let (id, text, _) = applied(&mut s, "enter");
    change(&mut s, id, switched(&text));
    assert_eq!((s.now(), s.draft()), (text.clone(), text.clone()));
    assert_eq!(s.state.chat.session.placement.as_deref(), Some(text.as_str()));
    let effects = s.take();
    assert!(matches!(&records(&effects)[..], [Record::Placement { text: t }] if *t == text));
    let now = s.state.layers.as_ref().expect("a map").map.now();
    let (_, rocm) = s.state.gauges.find(ROCM0).expect("a device");
    assert_eq!(rocm.holds, holds(now, ROCM0));
    let before = Script::loaded();
    assert_ne!(rocm.holds, before.state.gauges.find(ROCM0).expect("a device").1.holds);

    // The rate after it is that of eight tokens.
    s.keys("alt+i");
    let (id, _) = s.ask("q");
    for i in 0..9 {
        match view(&s.state) {
            ChangeView::Switched { stall_ms, from_tokens_per_s, to_tokens_per_s } => {
                assert_eq!((*stall_ms, *from_tokens_per_s), (12.0, Some(38.0)));
                assert_eq!(*to_tokens_per_s, None, "{i}");
            }
            other => panic!("{other:?}"),
        }
        s.wait(20);
        s.token(id, "x ");
    }
    match view(&s.state) {
        ChangeView::Switched { to_tokens_per_s: Some(rate), .. } => assert!((rate - 50.0).abs() < 1e-6, "{rate}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_draft_that_went_on_survives_the_switch_with_a_new_forecast() {
    let mut s = at_an_edge();
    let (id, text, _) = applied(&mut s, "enter");
    s.keys("h");
    let (asked, draft) = one_preview(&mut s);
    answer(&mut s, asked, &draft);
    change(&mut s, id, switched(&text));
    assert_eq!((s.now(), s.draft()), (text, draft.clone()));
    // From the new place it is another move.
    let (_, text) = one_preview(&mut s);
    assert_eq!(text, draft);
    assert!(matches!(view(&s.state), ChangeView::Switched { .. }));
}

#[test]
fn esc_gives_up_the_change_then_the_draft_then_the_place() {
    let mut s = at_an_edge();
    let (id, _, _) = applied(&mut s, "enter");
    s.keys("esc");
    assert!(matches!(commands(&s.take())[..], [Command::CancelRepartition { .. }]));
    change(&mut s, id, ChangeState::Cancelled);
    assert_eq!(*view(&s.state), ChangeView::Cancelled);
    assert_ne!(s.draft(), PLACEMENT);
    s.keys("esc");
    assert_eq!((s.draft().as_str(), s.state.focus), (PLACEMENT, PanelId::Layers));
    s.keys("esc");
    assert_eq!(s.state.focus, PanelId::Input);
    assert!(s.take().is_empty());
}

#[test]
fn a_change_that_is_refused_says_why_in_its_place() {
    let mut s = at_an_edge();
    let (id, _, _) = applied(&mut s, "enter");
    change(&mut s, id, ChangeState::Refused { message: "rocm0 is 300 MiB short".into() });
    assert_eq!(*view(&s.state), ChangeView::Refused("rocm0 is 300 MiB short".into()));
    assert!(s.draw().contains("rocm0 is 300 MiB short"));
    assert_ne!(s.draft(), PLACEMENT);
    // With the next draft it is over.
    s.keys("h");
    assert_eq!(*view(&s.state), ChangeView::None);
    // A failure of an older change is not one of the newer.
    s.take();
    s.keys("enter");
    let (old, _, _) = repartition(&s.take());
    s.keys("h");
    s.take();
    s.keys("enter");
    let (new, _, _) = repartition(&s.take());
    change(&mut s, old, ChangeState::Cancelled);
    s.engine(Event::Failed { id: old, message: "old".into() });
    assert!(matches!(view(&s.state), ChangeView::Staging { .. }));
    s.engine(Event::Failed { id: new, message: "no model is loaded".into() });
    assert_eq!(*view(&s.state), ChangeView::Failed("no model is loaded".into()));
    assert!(s.state.layers.as_ref().is_some_and(|l| l.change.id.is_none()));
}

#[test]
fn drafts_are_undone_and_done_again() {
    let mut s = at_an_edge();
    s.keys("l l");
    let moved = s.draft();
    assert_eq!(moved, "cuda0=embed,0-7; rocm0=8-9; cpu0=10-11,head");
    s.keys("u");
    assert_eq!(s.draft(), PLACEMENT);
    s.keys("U");
    assert_eq!(s.draft(), moved);
    s.keys("u u");
    assert!(s.notices().contains(&"nothing to undo"));
}

#[test]
fn digits_say_where_an_edge_is_to_lie() {
    let mut s = at_an_edge();
    s.keys("1 0 backspace enter");
    assert_eq!(s.draft(), "cuda0=embed,0; rocm0=1-9; cpu0=10-11,head");
    // The first Enter ended the typing, the second applies.
    assert!(!s.take().iter().any(|e| matches!(e, Effect::Engine(Command::Repartition { .. }))));
    s.keys("enter");
    repartition(&s.take());
}

#[test]
fn a_block_moves_to_the_device_of_the_letter_that_is_typed() {
    let mut s = at_an_edge();
    s.keys("tab m C");
    assert_eq!(s.draft(), "cuda0=embed,0-5; cpu0=6-11,head");
    s.keys("u m");
    // Whoever goes away types no device's letter any more.
    s.keys("alt+i");
    assert_eq!(s.state.focus, PanelId::Input);
    s.keys("alt+l ?");
    assert_eq!(s.draft(), PLACEMENT);
    assert_eq!(s.state.dialogs.len(), 1, "the key means what it means");
    s.keys("esc m z");
    assert!(s.notices().contains(&"there is no device z"));
    s.keys("m esc a");
    assert_eq!((s.draft().as_str(), s.state.focus), (PLACEMENT, PanelId::Layers));
}

#[test]
fn auto_makes_a_draft_that_can_be_undone() {
    let mut s = at_an_edge();
    s.keys("a");
    let (id, text) = one_preview(&mut s);
    assert_eq!(text, "auto");
    let best = "cuda0=embed,0-11,head";
    let notes = vec!["cuda0 holds everything".to_owned()];
    s.engine(Event::Previewed { id, preview: Box::new(Preview { notes, ..preview(best) }) });
    assert_eq!(s.draft(), best);
    assert_eq!(s.notices(), ["cuda0 holds everything"]);
    assert_eq!(one_preview(&mut s).1, best);
    s.keys("u");
    assert_eq!(s.draft(), PLACEMENT);
    s.keys("a");
    let (id, _) = previews(&s.take()).pop().expect("asked");
    s.engine(Event::Previewed { id, preview: Box::new(preview(PLACEMENT)) });
    assert!(s.notices().iter().any(|n| n.contains("auto has nothing better")), "{:?}", s.notices());
    s.keys("a");
    let (id, _) = one_preview(&mut s);
    let refused = Preview { refused: Some("nothing fits".into()), ..preview(PLACEMENT) };
    s.engine(Event::Previewed { id, preview: Box::new(refused) });
    assert!(s.notices().contains(&"nothing fits"));
}

#[test]
fn without_a_model_the_map_says_so_and_lets_go() {
    let mut s = Script::begin(crate::ui::Start::Load(Box::new(options("/models/a.gguf"))));
    let id = load_id(&s.take());
    s.engine(Event::Failed { id, message: "no such file".into() });
    s.keys("alt+l a");
    assert!(s.notices().iter().any(|n| n.contains("no model is loaded")), "{:?}", s.notices());
    s.keys("m enter u");
    s.keys("esc");
    assert_eq!(s.state.focus, PanelId::Input);
}

#[test]
fn another_model_begins_a_map_of_its_own() {
    let mut s = at_an_edge();
    let (id, text, _) = applied(&mut s, "enter");
    s.keys("h");
    let (asked, draft) = one_preview(&mut s);
    s.send(Msg::Resolved(Ok("/models/b.gguf".into())));
    let load = load_id(&s.take());
    // The engine gives up what was under way, in its own order.
    change(&mut s, id, ChangeState::Cancelled);
    answer(&mut s, asked, &draft);
    s.engine(Event::Loaded { id: load, info: Box::new(model("/models/b.gguf")) });
    change(&mut s, id, switched(&text));
    assert_eq!((s.now().as_str(), s.draft().as_str()), (PLACEMENT, PLACEMENT));
    assert_eq!(*view(&s.state), ChangeView::None);
    assert_eq!(s.state.gauges.find(CUDA0).map(|(_, d)| d.in_engine), Some(true));
}
