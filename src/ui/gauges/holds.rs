//! What a device holds of the model, in words.

use crate::engine::protocol::{DeviceId, Part, Placement};

/// Parts on one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holds {
    /// `embed`, `0-22`, `head`, `ffn 40-61`, in this order.
    pub items: Vec<String>,
    /// Layers of which at least one part is here.
    pub n_layers: usize,
}

impl Holds {
    /// `0-22, head` in at most `columns`: whole items, and a mark where some are left out.
    pub fn text(&self, columns: usize, mark: &str) -> String {
        let whole = self.items.join(", ");
        if whole.len() <= columns {
            return whole;
        }
        let mut text = String::new();
        for item in &self.items {
            if text.len() + item.len() + 2 + mark.chars().count() > columns {
                break;
            }
            text.push_str(item);
            text.push_str(", ");
        }
        text.push_str(mark);
        if text.chars().count() > columns { String::new() } else { text }
    }
}

/// Embed, whole layers, head; then attention and FFN that lie apart.
pub fn holds(placement: &Placement, id: DeviceId) -> Holds {
    let n_layer = placement.n_layer();
    let on = |part: Part| placement.get(part) == id;
    let mut items = vec![];
    if on(Part::Embed) {
        items.push("embed".to_owned());
    }
    items.extend(ranges(n_layer, |l| on(Part::Attn(l)) && on(Part::Ffn(l))));
    if on(Part::Head) {
        items.push("head".to_owned());
    }
    let attn = ranges(n_layer, |l| on(Part::Attn(l)) && !on(Part::Ffn(l)));
    items.extend(attn.map(|range| format!("attn {range}")));
    let ffn = ranges(n_layer, |l| on(Part::Ffn(l)) && !on(Part::Attn(l)));
    items.extend(ffn.map(|range| format!("ffn {range}")));
    let n_layers = (0..n_layer).filter(|&l| on(Part::Attn(l)) || on(Part::Ffn(l))).count();
    Holds { items, n_layers }
}

/// Maximal runs of the layers that `wanted` holds for: `3`, `5-9`.
fn ranges(n_layer: u32, wanted: impl Fn(u32) -> bool) -> impl Iterator<Item = String> {
    let mut runs: Vec<(u32, u32)> = vec![];
    for l in (0..n_layer).filter(|&l| wanted(l)) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == l => *last = l,
            _ => runs.push((l, l)),
        }
    }
    runs.into_iter().map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::protocol::DeviceKind;

    const CUDA0: DeviceId = DeviceId::new(DeviceKind::Cuda, 0);
    const CPU0: DeviceId = DeviceId::cpu(0);

    #[test]
    fn parts_in_words() {
        let placement = Placement::uniform(8, CUDA0).with_layers(5..7, CPU0).with(Part::Head, CPU0);
        assert_eq!(holds(&placement, CUDA0).items, ["embed", "0-4", "7"]);
        assert_eq!(holds(&placement, CPU0), Holds { items: vec!["5-6".into(), "head".into()], n_layers: 2 });
        let placement = placement.with(Part::Ffn(1), CPU0).with(Part::Ffn(2), CPU0);
        assert_eq!(holds(&placement, CUDA0).items, ["embed", "0", "3-4", "7", "attn 1-2"]);
        assert_eq!(holds(&placement, CPU0).items, ["5-6", "head", "ffn 1-2"]);
        assert_eq!(holds(&placement, CPU0).n_layers, 4);
        assert_eq!(holds(&placement, DeviceId::cpu(1)), Holds::default());
    }

    #[test]
    fn items_are_never_cut() {
        let placement = Placement::uniform(8, CUDA0).with_layers(5..7, CPU0);
        let holds = holds(&placement, CUDA0);
        assert_eq!(holds.text(40, "…"), "embed, 0-4, 7, head");
        assert_eq!(holds.text(18, "…"), "embed, 0-4, 7, …");
        assert_eq!(holds.text(13, "…"), "embed, 0-4, …");
        assert_eq!(holds.text(12, "…"), "embed, …");
        assert_eq!(holds.text(1, "…"), "…");
        assert_eq!(holds.text(0, "…"), "");
    }
}
