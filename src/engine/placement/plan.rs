//! What has to move between two placements.

use super::Placement;
use crate::devices::DeviceId;
use crate::engine::part::Part;

/// One part changes its device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Move {
    pub part: Part,
    pub from: DeviceId,
    pub to: DeviceId,
}

/// The moves that make `new` of `old`, in the model's order. Parts that stay are not named.
///
/// # Panics
/// When the placements are of models with different numbers of layers.
pub fn plan(old: &Placement, new: &Placement) -> Vec<Move> {
    assert_eq!(old.n_layer(), new.n_layer(), "placements of two different models");
    old.iter()
        .zip(new.iter())
        .filter(|((_, from), (_, to))| from != to)
        .map(|((part, from), (_, to))| Move { part, from, to })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::*;
    use super::*;

    #[test]
    fn only_what_changes_moves() {
        let old = Placement::uniform(3, CPU0);
        let new = old.clone().with(Part::Ffn(1), CUDA0).with(Part::Head, ROCM0);
        assert_eq!(
            plan(&old, &new),
            [Move { part: Part::Ffn(1), from: CPU0, to: CUDA0 }, Move { part: Part::Head, from: CPU0, to: ROCM0 }]
        );
        assert_eq!(plan(&old, &old), []);
    }

    proptest! {
        #[test]
        fn the_moves_lead_from_old_to_new(old in any_placement(), seed in any::<u64>()) {
            let mut n = seed;
            let new = Placement::from_fn(old.n_layer(), |part| {
                n = n.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                if n >> 63 == 0 { old.get(part) } else { DEVICES[(n >> 33) as usize % DEVICES.len()] }
            });
            let mut walked = old.clone();
            for m in plan(&old, &new) {
                prop_assert_ne!(m.from, m.to);
                prop_assert_eq!(walked.get(m.part), m.from);
                walked.set(m.part, m.to);
            }
            prop_assert_eq!(walked, new);
        }
    }
}
