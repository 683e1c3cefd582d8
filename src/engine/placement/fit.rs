//! Whether a placement fits, and whether a change does while the old placement still stands.
//!
//! Pure: what parts need and what devices have comes in as data, so that a plan is the same before and after loading.

use std::fmt;

use super::print::layer_ranges;
use super::units::{mib_up, size};
use super::{Placement, plan};
use crate::devices::DeviceId;
use crate::engine::part::Part;

/// What one part takes on one device.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PartNeed {
    pub weight_bytes: u64,
    /// KV cache for the whole context.
    pub kv_bytes: u64,
}

/// What a model takes, part by part.
#[derive(Clone, Copy)]
pub struct Needs<'a> {
    pub part: &'a dyn Fn(Part, DeviceId) -> PartNeed,
    /// Activations and working memory of a device that runs these parts (in the model's order, never empty). One more
    /// part must never take less.
    pub scratch: &'a dyn Fn(DeviceId, &[Part]) -> u64,
    /// Weights that Embed and Head are one copy of where both lie on this device: a tied token table. 0: not tied.
    pub tied_bytes: &'a dyn Fn(DeviceId) -> u64,
}

impl Needs<'_> {
    /// Weights and KV cache of parts that lie on one device.
    pub fn sum(&self, id: DeviceId, parts: &[Part]) -> PartNeed {
        let mut sum = PartNeed::default();
        for &part in parts {
            let need = (self.part)(part, id);
            sum.weight_bytes = sum.weight_bytes.saturating_add(need.weight_bytes);
            sum.kv_bytes = sum.kv_bytes.saturating_add(need.kv_bytes);
        }
        if parts.contains(&Part::Embed) && parts.contains(&Part::Head) {
            sum.weight_bytes -= self.tied(id).min(sum.weight_bytes);
        }
        sum
    }

    /// A shared table is never larger than either of its two owners.
    pub(super) fn tied(&self, id: DeviceId) -> u64 {
        let of = |part| (self.part)(part, id).weight_bytes;
        match (self.tied_bytes)(id) {
            0 => 0,
            n => n.min(of(Part::Embed)).min(of(Part::Head)),
        }
    }
}

/// What a device has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceBudget {
    pub id: DeviceId,
    /// What could be taken now. For [`fit`]: before anything of this model is loaded; for [`fit_change`]: beside the
    /// old placement.
    pub free_bytes: u64,
    pub total_bytes: u64,
    /// What is to stay free when the device is used.
    pub margin_bytes: u64,
}

/// What a placement takes on one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceUse {
    pub id: DeviceId,
    pub weight_bytes: u64,
    pub kv_bytes: u64,
    pub scratch_bytes: u64,
    /// 0 on a device that is not used.
    pub margin_bytes: u64,
    pub free_bytes: u64,
    pub total_bytes: u64,
    /// 0: it fits.
    pub short_bytes: u64,
}

impl DeviceUse {
    /// Weights, KV cache and scratch: what is allocated.
    pub fn taken_bytes(&self) -> u64 {
        self.weight_bytes.saturating_add(self.kv_bytes).saturating_add(self.scratch_bytes)
    }

    pub fn is_used(&self) -> bool {
        self.taken_bytes() > 0
    }
}

/// What a placement takes on every device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fit {
    /// In the order of the budgets; then devices that the placement uses and that have no budget, as full ones.
    pub devices: Vec<DeviceUse>,
}

impl Fit {
    pub fn fits(&self) -> bool {
        self.devices.iter().all(|d| d.short_bytes == 0)
    }

    /// Bytes short on all devices together.
    pub fn short_bytes(&self) -> u64 {
        self.devices.iter().fold(0, |sum, d| sum.saturating_add(d.short_bytes))
    }

    pub fn check(&self) -> Result<(), FitError> {
        let short: Vec<_> = self.devices.iter().filter(|d| d.short_bytes > 0).copied().collect();
        if short.is_empty() { Ok(()) } else { Err(FitError { short }) }
    }
}

/// The devices that are too small. One line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", .short.iter().map(short_text).collect::<Vec<_>>().join("; "))]
pub struct FitError {
    /// Never empty.
    pub short: Vec<DeviceUse>,
}

fn short_text(d: &DeviceUse) -> String {
    format!(
        "{} is {} short: weights {} + KV {} + scratch {} + margin {} > free {}",
        d.id,
        mib_up(d.short_bytes),
        size(d.weight_bytes),
        size(d.kv_bytes),
        size(d.scratch_bytes),
        size(d.margin_bytes),
        size(d.free_bytes)
    )
}

/// What a placement takes on every device, before anything of the model is loaded.
pub fn fit(placement: &Placement, needs: &Needs<'_>, budgets: &[DeviceBudget]) -> Fit {
    let devices = with_all_used(placement, budgets).into_iter().map(|budget| {
        let parts = placement.parts_on(budget.id);
        device_use(&budget, &parts, needs)
    });
    Fit { devices: devices.collect() }
}

/// What `parts` take on one device.
pub(super) fn device_use(budget: &DeviceBudget, parts: &[Part], needs: &Needs<'_>) -> DeviceUse {
    let used = !parts.is_empty();
    let sum = needs.sum(budget.id, parts);
    let mut d = DeviceUse {
        id: budget.id,
        weight_bytes: sum.weight_bytes,
        kv_bytes: sum.kv_bytes,
        scratch_bytes: if used { (needs.scratch)(budget.id, parts) } else { 0 },
        margin_bytes: if used { budget.margin_bytes } else { 0 },
        free_bytes: budget.free_bytes,
        total_bytes: budget.total_bytes,
        short_bytes: 0,
    };
    d.short_bytes = d.taken_bytes().saturating_add(d.margin_bytes).saturating_sub(d.free_bytes);
    if !used {
        d.short_bytes = 0;
    }
    d
}

fn with_all_used(placement: &Placement, budgets: &[DeviceBudget]) -> Vec<DeviceBudget> {
    let mut all = budgets.to_vec();
    for id in placement.devices() {
        if !all.iter().any(|b| b.id == id) {
            all.push(DeviceBudget { id, free_bytes: 0, total_bytes: 0, margin_bytes: 0 });
        }
    }
    all
}

/// What a live change takes on one device beside the old placement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeUse {
    pub id: DeviceId,
    /// Weights of the parts that come.
    pub weight_bytes: u64,
    /// KV cache of the parts that come.
    pub kv_bytes: u64,
    /// A new scratch buffer, when the device has none or too small a one: a buffer does not grow in place.
    pub scratch_bytes: u64,
    /// 0 on a device that takes nothing.
    pub margin_bytes: u64,
    /// Beside the old placement.
    pub free_bytes: u64,
    /// The first buffer that does not fit, when the KV cache is taken first, then scratch, then weights.
    pub short: Option<ChangeBuffer>,
    /// Of all that the device would take. 0: it fits.
    pub short_bytes: u64,
}

/// A buffer that a change allocates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ChangeBuffer {
    KvCache,
    Scratch,
    /// Of these parts, in the model's order.
    Weights(Vec<Part>),
}

impl fmt::Display for ChangeBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChangeBuffer::KvCache => f.write_str("the KV cache"),
            ChangeBuffer::Scratch => f.write_str("scratch"),
            ChangeBuffer::Weights(parts) => write!(f, "the weights of {}", parts_text(parts)),
        }
    }
}

/// `embed, layers 20-27, ffn 30-31, head`.
pub(super) fn parts_text(parts: &[Part]) -> String {
    let has = |part: Part| parts.contains(&part);
    let layers = |pick: &dyn Fn(u32, Part) -> bool| {
        let mut picked: Vec<_> = parts.iter().filter_map(|&p| p.layer().filter(|&l| pick(l, p))).collect();
        picked.dedup();
        layer_ranges(picked).join(", ")
    };
    let whole = layers(&|l, _| has(Part::Attn(l)) && has(Part::Ffn(l)));
    let attn = layers(&|l, p| p == Part::Attn(l) && !has(Part::Ffn(l)));
    let ffn = layers(&|l, p| p == Part::Ffn(l) && !has(Part::Attn(l)));
    let mut words = Vec::new();
    if has(Part::Embed) {
        words.push("embed".to_string());
    }
    let several = whole.contains([',', '-']);
    for (word, layers) in [(if several { "layers" } else { "layer" }, whole), ("attn", attn), ("ffn", ffn)] {
        if !layers.is_empty() {
            words.push(format!("{word} {layers}"));
        }
    }
    if has(Part::Head) {
        words.push("head".to_string());
    }
    words.join(", ")
}

/// What a live change takes on every device beside the old placement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangeFit {
    /// In the order of the budgets; then destinations that have no budget, as full ones.
    pub devices: Vec<ChangeUse>,
}

impl ChangeFit {
    pub fn fits(&self) -> bool {
        self.devices.iter().all(|d| d.short_bytes == 0)
    }

    pub fn check(&self) -> Result<(), ChangeError> {
        let short: Vec<_> = self.devices.iter().filter(|d| d.short_bytes > 0).cloned().collect();
        if short.is_empty() { Ok(()) } else { Err(ChangeError { short }) }
    }
}

/// The destinations that are too small while the old placement stands. One line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{}", .short.iter().map(change_text).collect::<Vec<_>>().join("; "))]
pub struct ChangeError {
    /// Never empty.
    pub short: Vec<ChangeUse>,
}

fn change_text(d: &ChangeUse) -> String {
    let buffer = d.short.as_ref().map_or_else(String::new, |b| format!(" for {b}"));
    format!(
        "{} is {} short{buffer}: the change takes weights {} + KV {} + scratch {} + margin {} > free {} beside the \
         present placement",
        d.id,
        mib_up(d.short_bytes),
        size(d.weight_bytes),
        size(d.kv_bytes),
        size(d.scratch_bytes),
        size(d.margin_bytes),
        size(d.free_bytes)
    )
}

/// What going from `old` to `new` takes in addition while `old` stands: nothing of it is freed before the switch.
///
/// # Panics
/// When the placements are of models with different numbers of layers.
pub fn fit_change(old: &Placement, new: &Placement, needs: &Needs<'_>, budgets: &[DeviceBudget]) -> ChangeFit {
    let moves = plan(old, new);
    let devices = with_all_used(new, budgets).into_iter().map(|budget| {
        let id = budget.id;
        let come: Vec<_> = moves.iter().filter(|m| m.to == id).map(|m| m.part).collect();
        let (before, after) = (old.parts_on(id), new.parts_on(id));
        let mut sum = needs.sum(id, &come);
        // The table is here already when only one of its two owners comes and the other stays.
        let ends = [Part::Embed, Part::Head];
        if ends.iter().all(|p| after.contains(p)) && ends.iter().filter(|p| come.contains(p)).count() == 1 {
            sum.weight_bytes -= needs.tied(id).min(sum.weight_bytes);
        }
        let scratch = |parts: &[Part]| if parts.is_empty() { 0 } else { (needs.scratch)(id, parts) };
        let (now, then) = (scratch(&before), scratch(&after));
        let scratch_bytes = if then > now { then } else { 0 };
        let used = !come.is_empty() || scratch_bytes > 0;
        let mut d = ChangeUse {
            id,
            weight_bytes: sum.weight_bytes,
            kv_bytes: sum.kv_bytes,
            scratch_bytes,
            margin_bytes: if used { budget.margin_bytes } else { 0 },
            free_bytes: budget.free_bytes,
            short: None,
            short_bytes: 0,
        };
        let mut taken = d.margin_bytes;
        for (buffer, n_bytes) in [
            (ChangeBuffer::KvCache, d.kv_bytes),
            (ChangeBuffer::Scratch, d.scratch_bytes),
            (ChangeBuffer::Weights(come), d.weight_bytes),
        ] {
            taken = taken.saturating_add(n_bytes);
            if n_bytes > 0 && taken > d.free_bytes && d.short.is_none() {
                d.short = Some(buffer);
            }
        }
        if d.short.is_some() {
            d.short_bytes = taken - d.free_bytes;
        }
        d
    });
    ChangeFit { devices: devices.collect() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::*;
    use super::*;

    const MIB: u64 = 1 << 20;

    /// 100 MiB of attention with 10 MiB of KV, 300 MiB of FFN, 50 MiB of token table.
    fn part(part: Part, _: DeviceId) -> PartNeed {
        match part {
            Part::Embed | Part::Head => PartNeed { weight_bytes: 50 * MIB, kv_bytes: 0 },
            Part::Attn(_) => PartNeed { weight_bytes: 100 * MIB, kv_bytes: 10 * MIB },
            Part::Ffn(_) => PartNeed { weight_bytes: 300 * MIB, kv_bytes: 0 },
        }
    }

    /// 20 MiB, and 30 more for logits.
    fn scratch(_: DeviceId, parts: &[Part]) -> u64 {
        if parts.contains(&Part::Head) { 50 * MIB } else { 20 * MIB }
    }

    const NEEDS: Needs<'static> = Needs { part: &part, scratch: &scratch, tied_bytes: &|_| 0 };
    const TIED: Needs<'static> = Needs { tied_bytes: &|_| 50 * MIB, ..NEEDS };

    fn budget(id: DeviceId, free_mib: u64) -> DeviceBudget {
        DeviceBudget { id, free_bytes: free_mib * MIB, total_bytes: 10_000 * MIB, margin_bytes: 5 * MIB }
    }

    #[test]
    fn every_byte_is_counted_once() {
        let p = Placement::uniform(4, CPU0).with_layers(2..4, CUDA0).with(Part::Head, CUDA0);
        let fit = fit(&p, &NEEDS, &[budget(CUDA0, 925), budget(ROCM0, 0), budget(CPU0, 895)]);
        assert!(fit.fits());
        let [cuda, rocm, cpu] = &fit.devices[..] else { panic!() };
        assert_eq!(
            (cuda.weight_bytes, cuda.kv_bytes, cuda.scratch_bytes, cuda.margin_bytes),
            (850 * MIB, 20 * MIB, 50 * MIB, 5 * MIB)
        );
        assert_eq!((rocm.taken_bytes(), rocm.margin_bytes, rocm.is_used()), (0, 0, false));
        assert_eq!(cpu.taken_bytes(), (850 + 20 + 20) * MIB);
    }

    #[test]
    fn the_error_says_what_is_short() {
        let p = Placement::uniform(4, CPU0);
        let error = fit(&p, &NEEDS, &[budget(CPU0, 1794)]).check().unwrap_err();
        assert_eq!(
            error.to_string(),
            "cpu0 is 1 MiB short: weights 1.7 GiB + KV 40 MiB + scratch 50 MiB + margin 5 MiB > free 1.8 GiB"
        );
        let fit = fit(&p, &NEEDS, &[]);
        assert_eq!((fit.short_bytes(), fit.devices[0].id), (1790 * MIB, CPU0));
    }

    #[test]
    fn a_tied_table_counts_once_where_both_lie() {
        let one = Placement::uniform(1, CPU0);
        let two = one.clone().with(Part::Head, CUDA0);
        let weights = |p: &Placement, needs| fit(p, needs, &[]).devices.iter().map(|d| d.weight_bytes).sum::<u64>();
        assert_eq!(
            (weights(&one, &NEEDS), weights(&one, &TIED), weights(&two, &TIED)),
            (500 * MIB, 450 * MIB, 500 * MIB)
        );
        // The head comes back to where the table is.
        let change = fit_change(&two, &one, &TIED, &[budget(CPU0, 1000)]);
        assert_eq!(change.devices[0].weight_bytes, 0);
        let both = Placement::uniform(1, CUDA0);
        assert_eq!(fit_change(&one, &both, &TIED, &[]).devices[0].weight_bytes, 450 * MIB);
    }

    #[test]
    fn a_change_takes_only_what_comes() {
        let old = Placement::uniform(4, CPU0).with_layers(2..4, CUDA0);
        let new = old.clone().with_layers(0..2, CUDA0);
        let change = fit_change(&old, &new, &NEEDS, &[budget(CUDA0, 825), budget(CPU0, 0)]);
        assert!(change.fits(), "{change:?}");
        let cuda = &change.devices[0];
        assert_eq!((cuda.weight_bytes, cuda.kv_bytes, cuda.scratch_bytes), (800 * MIB, 20 * MIB, 0));
        // With the head the scratch buffer grows, and the old one still stands.
        let change = fit_change(&old, &new.clone().with(Part::Head, CUDA0), &NEEDS, &[budget(CUDA0, 10_000)]);
        assert_eq!(change.devices[0].scratch_bytes, 50 * MIB);
        assert!(fit_change(&old, &old, &NEEDS, &[]).fits());
    }

    #[test]
    fn a_change_names_the_buffer_that_does_not_fit() {
        let old = Placement::uniform(40, CPU0);
        let new = old.clone().with_layers(20..=27, ROCM0).with(Part::Ffn(30), ROCM0);
        let short = |free| fit_change(&old, &new, &NEEDS, &[budget(ROCM0, free)]).check().unwrap_err();
        assert_eq!(short(84).short[0].short, Some(ChangeBuffer::KvCache));
        assert_eq!(short(85).short[0].short, Some(ChangeBuffer::Scratch));
        assert_eq!(
            short(105).to_string(),
            "rocm0 is 3,500 MiB short for the weights of layers 20-27, ffn 30: the change takes weights 3.4 GiB + KV \
             80 MiB + scratch 20 MiB + margin 5 MiB > free 105 MiB beside the present placement"
        );
        assert!(fit_change(&old, &new, &NEEDS, &[budget(ROCM0, 3605)]).fits());
        assert!(!fit_change(&old, &new, &NEEDS, &[]).fits());
    }

    #[test]
    fn parts_in_words() {
        let p = |text: &str| {
            let p = Placement::parse(text, 9, &DEVICES, &Placement::uniform(9, CPU0)).unwrap();
            parts_text(&p.parts_on(CUDA0))
        };
        assert_eq!(p("cuda0=embed,1-2,head"), "embed, layers 1-2, head");
        assert_eq!(p("cuda0=3,attn:5,ffn:6-7"), "layer 3, attn 5, ffn 6-7");
    }

    #[test]
    fn absurd_sizes_do_not_overflow() {
        let needs = Needs { part: &|_, _| PartNeed { weight_bytes: u64::MAX, kv_bytes: u64::MAX }, ..NEEDS };
        let (old, new) = (Placement::uniform(2, CPU0), Placement::uniform(2, CUDA0));
        assert!(!fit(&old, &needs, &[budget(CPU0, 10)]).fits());
        assert!(!fit_change(&old, &new, &needs, &[budget(CUDA0, 10)]).fits());
        assert!(fit(&old, &needs, &[budget(CPU0, 10)]).check().unwrap_err().to_string().contains("short"));
    }

    proptest! {
        /// Old and extra together hold at least what the new placement takes.
        #[test]
        fn a_change_that_fits_ends_in_a_placement_that_fits(
            old in any_placement(),
            to in 0..DEVICES.len(),
            at in 0u32..12,
            tied: bool,
        ) {
            let needs = if tied { TIED } else { NEEDS };
            let new = if at < old.n_layer() {
                old.clone().with_layers(at.., DEVICES[to])
            } else {
                old.clone().with(Part::Head, DEVICES[to])
            };
            let before = fit(&old, &needs, &DEVICES.map(|id| budget(id, 0)));
            let change = fit_change(&old, &new, &needs, &DEVICES.map(|id| budget(id, 0)));
            // Exactly what the change asks for is free beside the old placement.
            let budgets: Vec<_> = before.devices.iter().zip(&change.devices).map(|(b, c)| {
                let margin_bytes = b.margin_bytes.max(c.margin_bytes);
                DeviceBudget {
                    id: b.id,
                    free_bytes: b.taken_bytes() + c.weight_bytes + c.kv_bytes + c.scratch_bytes + margin_bytes,
                    total_bytes: 0,
                    margin_bytes,
                }
            }).collect();
            prop_assert!(fit(&new, &needs, &budgets).fits());
        }
    }
}
