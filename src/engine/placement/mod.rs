//! Which device holds which part of a model. Pure: nothing here touches memory, files or devices.
//!
//! [`Placement`] is the map, [`parse`] and [`print`] its text form, [`plan`] the moves between two of them, [`fit`] the
//! memory they take and [`auto`] the one that is taken when nobody says otherwise.

pub mod auto;
pub mod fit;
pub mod parse;
pub mod plan;
pub mod print;
mod units;

use std::ops::{Bound, RangeBounds};

use crate::devices::DeviceId;
use crate::engine::part::Part;

pub use auto::{AutoError, AutoInput, AutoResult, auto};
pub use fit::{
    ChangeBuffer, ChangeError, ChangeFit, ChangeUse, DeviceBudget, DeviceUse, Fit, FitError, Needs, PartNeed, fit,
    fit_change,
};
pub use parse::{NamedParts, PlacementError, PlacementErrorKind};
pub use plan::{Move, plan};

/// A device for every part of a model. Its text form is described in [`parse`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Placement {
    n_layer: u32,
    /// In the order of [`Part::all`].
    devices: Vec<DeviceId>,
}

/// A maximal run of consecutive parts on one device: nothing hops inside it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    pub device: DeviceId,
    /// In the model's order; never empty.
    pub parts: Vec<Part>,
}

impl Placement {
    /// Everything on one device.
    pub fn uniform(n_layer: u32, id: DeviceId) -> Placement {
        Placement { n_layer, devices: vec![id; Part::count(n_layer)] }
    }

    /// A placement from a rule.
    pub fn from_fn(n_layer: u32, rule: impl FnMut(Part) -> DeviceId) -> Placement {
        Placement { n_layer, devices: Part::all(n_layer).map(rule).collect() }
    }

    pub fn n_layer(&self) -> u32 {
        self.n_layer
    }

    /// # Panics
    /// When the model has no such layer.
    pub fn get(&self, part: Part) -> DeviceId {
        self.devices[self.index(part)]
    }

    /// # Panics
    /// When the model has no such layer.
    pub fn set(&mut self, part: Part, id: DeviceId) {
        let index = self.index(part);
        self.devices[index] = id;
    }

    /// The same placement with both parts of each of `layers` on `id`. An open end is the model's.
    ///
    /// # Panics
    /// When the model has no such layer.
    pub fn with_layers(mut self, layers: impl RangeBounds<u32>, id: DeviceId) -> Placement {
        let start = match layers.start_bound() {
            Bound::Included(&l) => l,
            Bound::Excluded(&l) => l.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match layers.end_bound() {
            Bound::Included(&l) => l.saturating_add(1),
            Bound::Excluded(&l) => l,
            Bound::Unbounded => self.n_layer,
        };
        for l in start..end {
            self.set(Part::Attn(l), id);
            self.set(Part::Ffn(l), id);
        }
        self
    }

    /// The same placement with one part elsewhere.
    ///
    /// # Panics
    /// When the model has no such layer.
    pub fn with(mut self, part: Part, id: DeviceId) -> Placement {
        self.set(part, id);
        self
    }

    /// Every part with its device, in the model's order.
    pub fn iter(&self) -> impl Iterator<Item = (Part, DeviceId)> + '_ {
        Part::all(self.n_layer).zip(self.devices.iter().copied())
    }

    /// The devices that hold something, in the order of their first part.
    pub fn devices(&self) -> Vec<DeviceId> {
        let mut used = Vec::new();
        for &id in &self.devices {
            if !used.contains(&id) {
                used.push(id);
            }
        }
        used
    }

    /// What a device holds, in the model's order.
    pub fn parts_on(&self, id: DeviceId) -> Vec<Part> {
        self.iter().filter(|&(_, device)| device == id).map(|(part, _)| part).collect()
    }

    /// The model cut where the device changes: one hop between each two segments.
    pub fn segments(&self) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::new();
        for (part, device) in self.iter() {
            match segments.last_mut() {
                Some(last) if last.device == device => last.parts.push(part),
                _ => segments.push(Segment { device, parts: vec![part] }),
            }
        }
        segments
    }

    fn index(&self, part: Part) -> usize {
        // Without this, `Attn(n_layer)` would be the head's place.
        if let Some(l) = part.layer() {
            assert!(l < self.n_layer, "{part} of a model with {} layers", self.n_layer);
        }
        part.index(self.n_layer)
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use proptest::prelude::*;

    use super::*;
    use crate::devices::DeviceKind;

    pub const CUDA0: DeviceId = DeviceId::new(DeviceKind::Cuda, 0);
    pub const CUDA1: DeviceId = DeviceId::new(DeviceKind::Cuda, 1);
    pub const ROCM0: DeviceId = DeviceId::new(DeviceKind::Rocm, 0);
    pub const CPU0: DeviceId = DeviceId::cpu(0);
    pub const CPU1: DeviceId = DeviceId::cpu(1);
    pub const DEVICES: [DeviceId; 5] = [CUDA0, CUDA1, ROCM0, CPU0, CPU1];

    /// Any placement of a model with up to 12 layers; half of them in runs, as people make them.
    pub fn any_placement() -> impl Strategy<Value = Placement> {
        let one = (0u32..12).prop_flat_map(|n_layer| {
            proptest::collection::vec(0..DEVICES.len(), Part::count(n_layer))
                .prop_map(move |at| Placement { n_layer, devices: at.into_iter().map(|i| DEVICES[i]).collect() })
        });
        let runs = (1u32..12, 0..DEVICES.len()).prop_flat_map(|(n_layer, first)| {
            proptest::collection::vec((0..n_layer, 0..n_layer, 0..3usize, 0..DEVICES.len()), 0..5).prop_map(
                move |changes| {
                    let mut placement = Placement::uniform(n_layer, DEVICES[first]);
                    for (a, b, what, id) in changes {
                        for l in a.min(b)..=a.max(b) {
                            if what != 0 {
                                placement.set(Part::Attn(l), DEVICES[id]);
                            }
                            if what != 1 {
                                placement.set(Part::Ffn(l), DEVICES[id]);
                            }
                        }
                    }
                    placement
                },
            )
        });
        prop_oneof![one, runs]
    }
}

#[cfg(test)]
mod tests {
    use super::testing::*;
    use super::*;

    #[test]
    fn layers_move_with_both_parts() {
        let p = Placement::uniform(4, CPU0).with_layers(1..=2, CUDA0).with(Part::Head, ROCM0);
        assert_eq!(p.get(Part::Attn(0)), CPU0);
        assert_eq!(p.get(Part::Attn(1)), CUDA0);
        assert_eq!(p.get(Part::Ffn(2)), CUDA0);
        assert_eq!(p.get(Part::Ffn(3)), CPU0);
        assert_eq!(p.get(Part::Head), ROCM0);
        assert_eq!(p.devices(), [CPU0, CUDA0, ROCM0]);
        assert_eq!(p.parts_on(CUDA0), [Part::Attn(1), Part::Ffn(1), Part::Attn(2), Part::Ffn(2)]);
        assert_eq!(Placement::uniform(4, CPU0).with_layers(2.., CUDA0).parts_on(CUDA0).len(), 4);
    }

    #[test]
    #[should_panic(expected = "attn 4 of a model with 4 layers")]
    fn a_layer_past_the_end_is_not_the_head() {
        Placement::uniform(4, CPU0).get(Part::Attn(4));
    }

    proptest::proptest! {
        #[test]
        fn segments_are_maximal_and_whole(p in any_placement()) {
            let segments = p.segments();
            let parts: Vec<_> = segments.iter().flat_map(|s| s.parts.iter().copied()).collect();
            proptest::prop_assert_eq!(parts, Part::all(p.n_layer()).collect::<Vec<_>>());
            for s in &segments {
                proptest::prop_assert!(s.parts.iter().all(|&part| p.get(part) == s.device));
            }
            for pair in segments.windows(2) {
                proptest::prop_assert_ne!(pair[0].device, pair[1].device);
            }
        }
    }
}
