//! Prints a placement in the text form that [`super::parse`] reads.

use std::fmt;

use super::Placement;
use crate::devices::DeviceId;
use crate::engine::part::Part;

/// The form with the fewest ranges: devices in the order of their first part; for each embed, whole layers, head, then
/// `attn:` and `ffn:`.
///
/// A layer whose parts lie apart is written as a layer of one of the two devices and a prefixed item of the other,
/// because a prefix wins; which way round is chosen so that ranges run on.
impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layers = written(self);
        for (i, id) in self.devices().into_iter().enumerate() {
            let mut items = Vec::new();
            if self.get(Part::Embed) == id {
                items.push("embed".to_string());
            }
            items.extend(ranges(&layers, |layer| layer.whole == id));
            if self.get(Part::Head) == id {
                items.push("head".to_string());
            }
            for (prefix, kind) in [("attn:", Apart::Attn(id)), ("ffn:", Apart::Ffn(id))] {
                let ranges = ranges(&layers, |layer| layer.apart == Some(kind));
                if !ranges.is_empty() {
                    items.push(format!("{prefix}{}", ranges.join(",")));
                }
            }
            write!(f, "{}{id}={}", if i == 0 { "" } else { "; " }, items.join(","))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// How one layer is written: as a layer of `whole`, with one part elsewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Written {
    whole: DeviceId,
    apart: Option<Apart>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Apart {
    Attn(DeviceId),
    Ffn(DeviceId),
}

impl Written {
    /// Ranges that begin at this layer when `before` stands before it.
    fn n_new_ranges(self, before: Option<Written>) -> u32 {
        let whole = before.is_none_or(|b| b.whole != self.whole);
        let apart = self.apart.is_some() && before.is_none_or(|b| b.apart != self.apart);
        u32::from(whole) + u32::from(apart)
    }
}

/// The choice for each layer that begins the fewest ranges: a shortest path with at most two ways per layer.
fn written(placement: &Placement) -> Vec<Written> {
    // For each layer its ways, each with the ranges so far and the way before it.
    let mut steps: Vec<Vec<(Written, u32, usize)>> = Vec::new();
    for l in 0..placement.n_layer() {
        let (attn, ffn) = (placement.get(Part::Attn(l)), placement.get(Part::Ffn(l)));
        let ways = if attn == ffn {
            vec![Written { whole: attn, apart: None }]
        } else {
            let experts_away = Written { whole: attn, apart: Some(Apart::Ffn(ffn)) };
            vec![experts_away, Written { whole: ffn, apart: Some(Apart::Attn(attn)) }]
        };
        let before = steps.last();
        let reached = ways.into_iter().map(|way| {
            let from = before.into_iter().flatten().enumerate();
            let (n, at) = from.map(|(i, &(b, n, _))| (n + way.n_new_ranges(Some(b)), i)).min().unwrap_or((0, 0));
            (way, n, at)
        });
        let reached = reached.collect();
        steps.push(reached);
    }
    let mut at = steps.last().and_then(|ways| (0..ways.len()).min_by_key(|&i| ways[i].1)).unwrap_or(0);
    let mut chosen = Vec::with_capacity(steps.len());
    for ways in steps.iter().rev() {
        let (way, _, before) = ways[at];
        chosen.push(way);
        at = before;
    }
    chosen.reverse();
    chosen
}

/// The layers that `is_in` picks, as `3` and `5-9`.
fn ranges(layers: &[Written], is_in: impl Fn(&Written) -> bool) -> Vec<String> {
    layer_ranges((0u32..).zip(layers).filter(|(_, layer)| is_in(layer)).map(|(l, _)| l))
}

/// Rising layer numbers as `3` and `5-9`.
pub(super) fn layer_ranges(layers: impl IntoIterator<Item = u32>) -> Vec<String> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for l in layers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == l => *last = l,
            _ => ranges.push((l, l)),
        }
    }
    ranges.into_iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::*;
    use super::*;

    #[test]
    fn the_short_form() {
        for text in [
            "cuda0=embed,0-19; rocm0=20-61,head",
            "cuda0=embed,0-61,head; cpu0=ffn:40-61",
            "cpu0=embed,head; cuda0=0-3,5-61; rocm0=4",
            "cuda0=embed,0-61,head; cpu0=attn:5",
            "cuda0=embed,0-61,head; cpu0=attn:5,9; rocm0=ffn:30-31",
            "cpu0=embed; cuda0=0-61,head; cpu1=ffn:0-61",
            "cpu0=embed,0-61,head",
        ] {
            let p = Placement::parse(text, 62, &DEVICES, &Placement::uniform(62, CUDA1)).unwrap();
            assert_eq!(p.to_string(), text);
        }
        assert_eq!(Placement::uniform(0, CPU0).to_string(), "cpu0=embed,head");
        assert_eq!(Placement::uniform(1, CPU0).to_string(), "cpu0=embed,0,head");
    }

    /// Every way of writing the layers, to compare the shortest path with.
    fn fewest_ranges(p: &Placement, l: u32, before: Option<Written>) -> u32 {
        if l == p.n_layer() {
            return 0;
        }
        let (attn, ffn) = (p.get(Part::Attn(l)), p.get(Part::Ffn(l)));
        let ways = if attn == ffn {
            vec![Written { whole: attn, apart: None }]
        } else {
            vec![
                Written { whole: attn, apart: Some(Apart::Ffn(ffn)) },
                Written { whole: ffn, apart: Some(Apart::Attn(attn)) },
            ]
        };
        ways.into_iter().map(|w| w.n_new_ranges(before) + fewest_ranges(p, l + 1, Some(w))).min().unwrap()
    }

    proptest! {
        #[test]
        fn print_and_parse_are_inverse(p in any_placement(), fallback in 0..DEVICES.len()) {
            let fallback = Placement::uniform(p.n_layer(), DEVICES[fallback]);
            let text = p.to_string();
            let read = Placement::parse(&text, p.n_layer(), &p.devices(), &fallback);
            prop_assert_eq!(read.unwrap(), p.clone(), "{}", text);
            prop_assert!(super::super::NamedParts::parse(&text, p.n_layer(), &DEVICES).unwrap().complete().is_some());
        }

        #[test]
        fn no_way_has_fewer_ranges(p in any_placement()) {
            let mut before = None;
            let mut n = 0;
            for layer in written(&p) {
                n += layer.n_new_ranges(before);
                before = Some(layer);
            }
            prop_assert_eq!(n, fewest_ranges(&p, 0, None));
        }
    }
}
