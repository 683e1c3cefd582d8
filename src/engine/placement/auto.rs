//! The placement that is taken when nobody says otherwise.
//!
//! Several ways of filling the devices are tried, and of those that fit the one with the best forecast is taken:
//!
//! - Whole layers in the model's order, device after device, the fastest first; embed with the first layer and head
//!   with the last. Every choice of devices is tried, so a slow one is left out when everything fits without it.
//! - The same with embed on a CPU device: one row of it is read per token, so its place costs one small hop, and the
//!   fast device has room for more layers.
//! - With experts: the FFN of the last layers on the slower devices, all attention on the faster ones.
//! - When none of these fits: layers cut between attention and FFN, then the devices in any order.
//!
//! No way depends on how much is free, only on whether it is enough, so more memory never turns a placement into a
//! refusal. This holds as long as one more part never takes less scratch.

use super::fit::{device_use, parts_text};
use super::units::{mib_up, size};
use super::{DeviceBudget, Fit, NamedParts, Needs, PartNeed, Placement, fit};
use crate::devices::DeviceId;
use crate::engine::forecast::{Basis, Costs, forecast};
use crate::engine::part::Part;

/// Up to so many devices every choice and order of them is tried; of more only the fastest one, two, three and so on.
const MAX_DEVICES_TO_CHOOSE: usize = 6;
/// A way that comes later in the list must be better by this factor: a forecast is not more exact than that.
const BETTER: f64 = 0.99;
/// How much slower experts apart may look: long contexts speak for attention on the fast device.
const EXPERTS_APART: f64 = 0.95;

#[derive(Clone, Copy)]
pub struct AutoInput<'a> {
    pub n_layer: u32,
    /// The FFN of its layers are experts, of which a token uses a few.
    pub is_moe: bool,
    pub costs: &'a Costs<'a>,
    /// Before anything of the model is loaded. Devices that are not to be used are not listed.
    pub budgets: &'a [DeviceBudget],
    /// Parts whose device is settled: the others are placed around them.
    pub named: Option<&'a NamedParts>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AutoResult {
    /// Fits.
    pub placement: Placement,
    /// Why it is as it is, a sentence each.
    pub notes: Vec<String>,
}

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AutoError {
    #[error("there is no device to place the model on")]
    NoDevice,
    #[error(
        "the model does not fit on {}: {} are short in total (it takes {}, {} are free after margins); take a smaller \
         context, KV type or quantisation, or free memory",
        names(&.best.devices.iter().map(|d| d.id).collect::<Vec<_>>()), mib_up(.best.short_bytes()), size(taken(.best)),
        size(*.free_bytes)
    )]
    DoesNotFit {
        /// The try that was short of least.
        best: Fit,
        /// On all devices after their margins.
        free_bytes: u64,
    },
}

fn taken(fit: &Fit) -> u64 {
    fit.devices.iter().fold(0, |sum, d| sum.saturating_add(d.taken_bytes()))
}

/// Places a model by bytes and speed. The same input gives the same placement.
pub fn auto(input: &AutoInput<'_>) -> Result<AutoResult, AutoError> {
    // What parts need is asked for once; the search adds it up many times.
    let n_layer = input.n_layer;
    let asked: Vec<(DeviceId, Vec<PartNeed>, u64)> = input
        .budgets
        .iter()
        .map(|b| {
            let needs = &input.costs.needs;
            (b.id, Part::all(n_layer).map(|part| (needs.part)(part, b.id)).collect(), needs.tied(b.id))
        })
        .collect();
    let of = |id: DeviceId| asked.iter().find(|a| a.0 == id);
    let part = |part: Part, id| of(id).map_or_else(PartNeed::default, |a| a.1[part.index(n_layer)]);
    let tied_bytes = |id| of(id).map_or(0, |a| a.2);
    let needs = Needs { part: &part, tied_bytes: &tied_bytes, ..input.costs.needs };
    Search::new(input, needs)?.run()
}

/// What a way of filling leaves where.
#[derive(Clone)]
struct Candidate {
    placement: Placement,
    /// Its forecast, in the favour of what is preferred.
    score: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// Between layers; embed stays with the first and head with the last.
    Layers,
    /// Anywhere.
    Parts,
}

struct Search<'a> {
    input: &'a AutoInput<'a>,
    costs: Costs<'a>,
    /// The fastest first.
    budgets: Vec<DeviceBudget>,
    /// Bytes per millisecond, of each budget.
    speeds: Vec<f64>,
}

impl<'a> Search<'a> {
    fn new(input: &'a AutoInput<'a>, needs: Needs<'a>) -> Result<Search<'a>, AutoError> {
        let costs = Costs { needs, ..*input.costs };
        let mut ranked: Vec<(f64, DeviceBudget)> = Vec::new();
        for budget in input.budgets {
            if ranked.iter().all(|(_, other)| other.id != budget.id) {
                ranked.push((costs.bytes_per_ms(budget.id, input.n_layer), *budget));
            }
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.id.cmp(&b.1.id)));
        let (speeds, budgets): (Vec<_>, Vec<_>) = ranked.into_iter().unzip();
        if budgets.is_empty() { Err(AutoError::NoDevice) } else { Ok(Search { input, costs, budgets, speeds }) }
    }

    fn run(&self) -> Result<AutoResult, AutoError> {
        let mut best = None;
        for cut in [Cut::Layers, Cut::Parts] {
            for order in self.choices() {
                self.consider(&mut best, &order, cut);
            }
            if self.input.is_moe {
                self.consider_experts_apart(&mut best, cut);
            }
            if best.is_some() {
                break;
            }
        }
        if best.is_none() && self.budgets.len() <= MAX_DEVICES_TO_CHOOSE {
            for order in permutations(self.budgets.len()) {
                self.consider(&mut best, &order, Cut::Parts);
            }
        }
        match best {
            Some(Candidate { placement, .. }) => Ok(AutoResult { notes: self.notes(&placement), placement }),
            None => Err(self.refusal()),
        }
    }

    /// Choices of devices, each the fastest first; those of few devices first.
    fn choices(&self) -> Vec<Vec<usize>> {
        let n = self.budgets.len();
        if n > MAX_DEVICES_TO_CHOOSE {
            return (1..=n).map(|k| (0..k).collect()).collect();
        }
        let mut choices: Vec<Vec<usize>> =
            (1u32..1 << n).map(|set| (0..n).filter(|i| set >> i & 1 == 1).collect()).collect();
        choices.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
        choices
    }

    /// A CPU device for embed, where that is not where the layers begin anyway.
    fn embed_apart(&self, order: &[usize]) -> Option<usize> {
        if self.named(Part::Embed).is_some() {
            return None;
        }
        let cpu = self.budgets.iter().position(|b| b.id.kind == crate::devices::DeviceKind::Cpu)?;
        (order.first() != Some(&cpu)).then_some(cpu)
    }

    /// Layers device after device in this order, with embed in its two places.
    fn consider(&self, best: &mut Option<Candidate>, order: &[usize], cut: Cut) {
        for apart in [None, self.embed_apart(order)] {
            let mut held = self.held_by_name();
            let units = self.units(apart.is_none(), |_| true, cut);
            if self.hold(&mut held, apart) && self.fill(&mut held, order, &units) {
                self.offer(best, &held, 1.0);
            }
            if self.embed_apart(order).is_none() {
                return;
            }
        }
    }

    /// For each cut of the devices in faster and slower ones: the fewest FFNs of the last layers on the slower ones.
    fn consider_experts_apart(&self, best: &mut Option<Candidate>, cut: Cut) {
        let n_layer = self.input.n_layer;
        let all: Vec<usize> = (0..self.budgets.len()).collect();
        for n_fast in 1..all.len() {
            let (fast, slow) = all.split_at(n_fast);
            let preferred = self.speeds[n_fast] * 2.0 <= self.speeds[n_fast - 1];
            let embed_apart = self.embed_apart(fast).filter(|cpu| slow.contains(cpu));
            for apart in [None, embed_apart] {
                let fast_fits = |n_away: u32| {
                    let mut held = self.held_by_name();
                    let stays = self.units(apart.is_none(), |l| l < n_layer - n_away, cut);
                    (self.hold(&mut held, apart) && self.fill(&mut held, fast, &stays)).then_some(held)
                };
                // Fewer FFNs never take more: the least number that fits is found by halving.
                let n_away = partition_point(n_layer, |n_away| fast_fits(n_away).is_none());
                let Some(mut held) = (n_away <= n_layer).then(|| fast_fits(n_away)).flatten() else { continue };
                let away = (n_layer - n_away..n_layer).map(Part::Ffn);
                let away: Vec<_> = away.filter(|p| self.named(*p).is_none()).map(|p| vec![p]).collect();
                if self.fill(&mut held, slow, &away) {
                    self.offer(best, &held, if preferred { EXPERTS_APART } else { 1.0 });
                }
            }
        }
    }

    /// Where the text has put a part already.
    fn named(&self, part: Part) -> Option<DeviceId> {
        self.input.named.and_then(|named| named.get(part))
    }

    /// The parts that are settled, on their devices.
    fn held_by_name(&self) -> Vec<Vec<Part>> {
        let held_by = |budget: &DeviceBudget| {
            Part::all(self.input.n_layer).filter(|p| self.named(*p) == Some(budget.id)).collect()
        };
        self.budgets.iter().map(held_by).collect()
    }

    /// The pieces that are left to place, see [`units`].
    fn units(&self, with_embed: bool, has_ffn: impl Fn(u32) -> bool, cut: Cut) -> Vec<Vec<Part>> {
        units(self.input.n_layer, with_embed, has_ffn, cut, |part| self.named(part).is_none())
    }

    /// Puts embed on its own device, if it is to have one.
    fn hold(&self, held: &mut [Vec<Part>], embed: Option<usize>) -> bool {
        let Some(device) = embed else { return true };
        held[device].push(Part::Embed);
        self.fits(device, &held[device])
    }

    /// Gives each device in turn as many units as it can hold. False: some are left.
    fn fill(&self, held: &mut [Vec<Part>], order: &[usize], units: &[Vec<Part>]) -> bool {
        let mut left = units;
        for &device in order {
            let with = |n: usize| [&held[device], &left[..n].concat()[..]].concat();
            let n = partition_point(left.len() as u32, |n| n == 0 || self.fits(device, &with(n as usize)));
            // The point is one past the last number of units that fit.
            let n = (n as usize).saturating_sub(1);
            held[device] = with(n);
            left = &left[n..];
        }
        left.is_empty()
    }

    fn fits(&self, device: usize, parts: &[Part]) -> bool {
        device_use(&self.budgets[device], parts, &self.costs.needs).short_bytes == 0
    }

    /// Takes a candidate when it fits and looks better than the best so far.
    fn offer(&self, best: &mut Option<Candidate>, held: &[Vec<Part>], preference: f64) {
        let placement = self.placement(held);
        // Filling has seen to it already, unless scratch shrinks with more parts.
        if !fit(&placement, &self.costs.needs, &self.budgets).fits() {
            return;
        }
        let score = forecast(&placement, &self.costs).token_ms * preference;
        if best.as_ref().is_none_or(|b| score < b.score * BETTER) {
            *best = Some(Candidate { placement, score });
        }
    }

    fn placement(&self, held: &[Vec<Part>]) -> Placement {
        let mut placement = Placement::uniform(self.input.n_layer, self.budgets[0].id);
        for (budget, parts) in self.budgets.iter().zip(held) {
            for &part in parts {
                placement.set(part, budget.id);
            }
        }
        placement
    }

    /// Of filling all devices, with each as the last that takes what is left, the try that is short of least.
    fn refusal(&self) -> AutoError {
        let n = self.budgets.len();
        let units = self.units(true, |_| true, Cut::Parts);
        let n_named: usize = self.held_by_name().iter().map(Vec::len).sum();
        let tries = (0..n).map(|last| {
            let order: Vec<usize> = (0..n).filter(|&i| i != last).collect();
            let mut held = self.held_by_name();
            self.fill(&mut held, &order, &units);
            let n_filled = held.iter().map(Vec::len).sum::<usize>() - n_named;
            held[last].extend(units[n_filled..].concat());
            fit(&self.placement(&held), &self.costs.needs, &self.budgets)
        });
        let best = tries.min_by_key(Fit::short_bytes).unwrap_or(Fit { devices: Vec::new() });
        let free = self.budgets.iter().map(|b| b.free_bytes.saturating_sub(b.margin_bytes));
        AutoError::DoesNotFit { best, free_bytes: free.fold(0, u64::saturating_add) }
    }

    fn notes(&self, placement: &Placement) -> Vec<String> {
        let mut notes = Vec::new();
        let used: Vec<_> = self.budgets.iter().map(|b| b.id).filter(|&id| !placement.parts_on(id).is_empty()).collect();
        match &used[..] {
            // Nobody could have chosen otherwise.
            [_] if self.budgets.len() == 1 => {}
            [id] => notes.push(format!("everything is on {id}: it fits there")),
            [first, rest @ ..] => {
                notes.push(format!(
                    "{} share the layers: {first} is filled first, as the fastest, then {}",
                    names(&used),
                    names(rest)
                ));
            }
            [] => {}
        }
        if used.len() > 1 {
            notes.extend(used.iter().map(|&id| format!("{id} holds {}", parts_text(&placement.parts_on(id)))));
        }
        let first_layer = (self.input.n_layer > 0).then(|| placement.get(Part::Attn(0)));
        if first_layer.is_some_and(|id| id != placement.get(Part::Embed)) {
            let id = placement.get(Part::Embed);
            notes.push(format!("embed is on {id}: one row of it is read per token, and the layers get the room"));
        }
        let away: Vec<_> = (0..self.input.n_layer)
            .filter(|&l| placement.get(Part::Attn(l)) != placement.get(Part::Ffn(l)))
            .map(Part::Ffn)
            .collect();
        if self.input.is_moe && !away.is_empty() {
            notes.push(format!(
                "the experts of {} are apart from their attention: a token reads few of them, so they lose least on a \
                 slower device",
                parts_text(&away)
            ));
        }
        let now = forecast(placement, &self.costs);
        for budget in self.budgets.iter().filter(|b| !used.contains(&b.id)) {
            notes.push(self.left_out(placement, budget, now.decode_tokens_per_s));
        }
        if self.budgets.len() > 1 {
            let assumed: Vec<_> = now.devices.iter().filter(|d| d.basis == Basis::Assumed).map(|d| d.id).collect();
            if !assumed.is_empty() {
                notes.push(format!("the speed of {} is assumed, not known", names(&assumed)));
            }
        }
        notes
    }

    /// Why a device holds nothing: the forecast with the last layer there.
    fn left_out(&self, placement: &Placement, budget: &DeviceBudget, tokens_per_s: f64) -> String {
        let id = budget.id;
        let Some(last) = self.input.n_layer.checked_sub(1) else {
            return format!("{id} is left out: everything fits without it");
        };
        let parts = [Part::Attn(last), Part::Ffn(last)];
        if device_use(budget, &parts, &self.costs.needs).short_bytes > 0 {
            return format!("{id} is left out: it has no room for a layer");
        }
        let with = forecast(&placement.clone().with_layers(last.., id), &self.costs).decode_tokens_per_s;
        if with < tokens_per_s {
            format!(
                "{id} is left out: everything fits without it, and with one layer there the forecast is {with:.1} \
                 instead of {tokens_per_s:.1} tokens/s"
            )
        } else {
            format!("{id} is left out: everything fits without it, and it would gain little")
        }
    }
}

/// The pieces that are placed whole, in the model's order; parts that are not free and FFNs of layers that `has_ffn`
/// denies are left out.
fn units(
    n_layer: u32,
    with_embed: bool,
    has_ffn: impl Fn(u32) -> bool,
    cut: Cut,
    is_free: impl Fn(Part) -> bool,
) -> Vec<Vec<Part>> {
    let keep = |part: &Part| match part {
        Part::Embed => with_embed,
        Part::Ffn(l) => has_ffn(*l),
        Part::Attn(_) | Part::Head => true,
    };
    let parts = Part::all(n_layer).filter(keep).filter(|part| is_free(*part));
    if cut == Cut::Parts {
        return parts.map(|part| vec![part]).collect();
    }
    let mut units: Vec<Vec<Part>> = Vec::new();
    for part in parts {
        match units.last_mut() {
            // A layer begins with its attention; embed waits for the first one.
            Some(unit) if !matches!(part, Part::Attn(1..)) => unit.push(part),
            _ => units.push(vec![part]),
        }
    }
    units
}

/// The first number from 0 to `n` for which `before` is false, `n + 1` when there is none. `before` must be true up to
/// some number and false from there.
fn partition_point(n: u32, before: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, n + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// All orders of `0..n`, rising.
fn permutations(n: usize) -> Vec<Vec<usize>> {
    let mut orders = vec![Vec::new()];
    for _ in 0..n {
        let longer = |order: Vec<usize>| {
            let free: Vec<_> = (0..n).filter(|i| !order.contains(i)).collect();
            free.into_iter().map(move |i| [&order[..], &[i]].concat())
        };
        orders = orders.into_iter().flat_map(longer).collect();
    }
    orders
}

/// `a`, `a and b`, `a, b and c`.
fn names(ids: &[DeviceId]) -> String {
    let names: Vec<_> = ids.iter().map(DeviceId::to_string).collect();
    match &names[..] {
        [] => "no device".to_string(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::*;
    use super::*;
    use crate::engine::forecast::{DeviceRates, PartWork};

    const MIB: u64 = 1 << 20;

    /// 100 MiB of attention with 10 MiB of KV, 300 MiB of FFN, 50 MiB for embed and head.
    fn part(part: Part, _: DeviceId) -> PartNeed {
        match part {
            Part::Embed | Part::Head => PartNeed { weight_bytes: 50 * MIB, kv_bytes: 0 },
            Part::Attn(_) => PartNeed { weight_bytes: 100 * MIB, kv_bytes: 10 * MIB },
            Part::Ffn(_) => PartNeed { weight_bytes: 300 * MIB, kv_bytes: 0 },
        }
    }

    fn dense(part: Part, _: DeviceId) -> PartWork {
        let mib = match part {
            Part::Embed => 0,
            Part::Head => 50,
            Part::Attn(_) => 110,
            Part::Ffn(_) => 300,
        };
        PartWork { read_bytes: mib * MIB, flops: mib * MIB * 2 }
    }

    /// A tenth of the experts is read.
    fn sparse(part: Part, id: DeviceId) -> PartWork {
        match part {
            Part::Ffn(_) => PartWork { read_bytes: 30 * MIB, flops: 60 * MIB },
            part => dense(part, id),
        }
    }

    const RATES: [DeviceRates; 3] = [
        DeviceRates { memory_bytes_per_s: Some(1_000_000_000_000), ..DeviceRates::unknown(CUDA0) },
        DeviceRates { memory_bytes_per_s: Some(500_000_000_000), ..DeviceRates::unknown(ROCM0) },
        DeviceRates { memory_bytes_per_s: Some(50_000_000_000), ..DeviceRates::unknown(CPU0) },
    ];

    fn costs(work: &dyn Fn(Part, DeviceId) -> PartWork) -> Costs<'_> {
        let needs = Needs { part: &part, scratch: &|_, _| 20 * MIB, tied_bytes: &|_| 0 };
        Costs { needs, work, measured_ms: &|_, _| None, hop_bytes: 16_384, pipelined: true, rates: &RATES }
    }

    fn budget(id: DeviceId, free_mib: u64) -> DeviceBudget {
        DeviceBudget { id, free_bytes: free_mib * MIB, total_bytes: free_mib * MIB, margin_bytes: 5 * MIB }
    }

    fn place(n_layer: u32, is_moe: bool, budgets: &[DeviceBudget]) -> Result<AutoResult, AutoError> {
        let work = if is_moe { sparse } else { dense };
        auto(&AutoInput { n_layer, is_moe, costs: &costs(&work), budgets, named: None })
    }

    fn text(n_layer: u32, is_moe: bool, budgets: &[DeviceBudget]) -> String {
        place(n_layer, is_moe, budgets).unwrap().placement.to_string()
    }

    #[test]
    fn the_fastest_that_has_room_takes_all() {
        let result = place(10, false, &[budget(CPU0, 9000), budget(ROCM0, 9000), budget(CUDA0, 9000)]).unwrap();
        assert_eq!(result.placement, Placement::uniform(10, CUDA0));
        assert_eq!(result.notes[0], "everything is on cuda0: it fits there");
        assert!(
            result.notes[1].starts_with("rocm0 is left out: everything fits without it, and with one layer there"),
            "{:?}",
            result.notes
        );
        // Of equals the first.
        let equal = [budget(DeviceId::cpu(2), 9000), budget(CPU1, 9000)];
        assert_eq!(text(10, false, &equal), "cpu1=embed,0-9,head");
        assert_eq!(place(10, false, &[budget(CPU0, 9000)]).unwrap().notes, [""; 0]);
        let tiny = place(10, false, &[budget(CUDA0, 9000), budget(CPU0, 100)]).unwrap();
        assert_eq!(tiny.notes[1], "cpu0 is left out: it has no room for a layer");
    }

    #[test]
    fn devices_are_filled_by_bytes_the_fastest_first() {
        // 25 MiB of scratch and margin, 50 of embed, 410 a layer: six layers.
        let budgets = [budget(CPU0, 9000), budget(CUDA0, 2540), budget(ROCM0, 9000)];
        let result = place(10, false, &budgets).unwrap();
        assert_eq!(result.placement.to_string(), "cuda0=embed,0-5; rocm0=6-9,head");
        assert_eq!(
            result.notes[..3],
            [
                "cuda0 and rocm0 share the layers: cuda0 is filled first, as the fastest, then rocm0",
                "cuda0 holds embed, layers 0-5",
                "rocm0 holds layers 6-9, head"
            ]
        );
        assert_eq!(
            text(10, false, &[budget(CPU0, 400), budget(CUDA0, 2540), budget(ROCM0, 1740)]),
            "cuda0=embed,0-5; rocm0=6-9,head"
        );
    }

    #[test]
    fn embed_goes_to_the_cpu_when_a_layer_gets_its_room() {
        // Without embed the card holds everything else.
        let result = place(10, false, &[budget(CUDA0, 4175), budget(CPU0, 9000)]).unwrap();
        assert_eq!(result.placement.to_string(), "cpu0=embed; cuda0=0-9,head");
        assert!(result.notes.iter().any(|n| n.starts_with("embed is on cpu0")), "{:?}", result.notes);
        assert_eq!(text(10, false, &[budget(CUDA0, 4225), budget(CPU0, 9000)]), "cuda0=embed,0-9,head");
    }

    #[test]
    fn experts_leave_first() {
        let budgets = [budget(CUDA0, 2700), budget(CPU0, 9000)];
        let result = place(10, true, &budgets).unwrap();
        let placement = &result.placement;
        assert!((0..10).all(|l| placement.get(Part::Attn(l)) == CUDA0), "{placement}");
        let away: Vec<_> = (0..10).filter(|&l| placement.get(Part::Ffn(l)) == CPU0).collect();
        assert!(!away.is_empty() && away == (10 - away.len() as u32..10).collect::<Vec<_>>(), "{placement}");
        assert!(result.notes.iter().any(|n| n.starts_with("the experts of ffn ")), "{:?}", result.notes);
        // When all of it fits, nothing leaves.
        assert_eq!(text(10, true, &[budget(CUDA0, 9000), budget(CPU0, 9000)]), "cuda0=embed,0-9,head");
    }

    #[test]
    fn a_layer_is_cut_when_nothing_else_fits() {
        // Each holds a layer and a part of one.
        let placement = place(2, false, &[budget(CUDA0, 600), budget(ROCM0, 400)]).unwrap().placement;
        assert_eq!(placement.to_string(), "cuda0=embed,0-1; rocm0=head,ffn:1");
        // With embed and attention on the faster one, its room for the FFN is gone, and the slower one has none.
        let placement = place(1, false, &[budget(CUDA0, 375), budget(ROCM0, 200)]).unwrap().placement;
        assert_eq!(placement.to_string(), "rocm0=embed,0; cuda0=head,ffn:0");
    }

    #[test]
    fn the_rest_is_placed_around_named_parts() {
        let work = dense;
        let place = |text: &str, budgets: &[DeviceBudget]| {
            let named = NamedParts::parse(text, 10, &DEVICES).unwrap();
            let costs = costs(&work);
            auto(&AutoInput { n_layer: 10, is_moe: false, costs: &costs, budgets, named: Some(&named) })
        };
        // Beside the named ones the card has room for four layers, and embed would cost one of them.
        let budgets = [budget(CPU0, 9000), budget(CUDA0, 2540)];
        let placement = place("cuda0=8-9,head", &budgets).unwrap().placement;
        assert_eq!(placement.to_string(), "cpu0=embed,4-7; cuda0=0-3,8-9,head");
        // What is named does not move, whatever is faster.
        let roomy = [budget(CPU0, 9000), budget(CUDA0, 9000)];
        let placement = place("cpu0=embed,attn:3", &roomy).unwrap().placement;
        assert_eq!((placement.get(Part::Embed), placement.get(Part::Attn(3))), (CPU0, CPU0));
        assert_eq!(placement.parts_on(CPU0).len(), 2);
        // Named parts alone are too much.
        let error = place("cuda0=0-8", &budgets).unwrap_err();
        assert!(matches!(error, AutoError::DoesNotFit { .. }), "{error}");
    }

    #[test]
    fn a_refusal_says_how_much_is_short() {
        let error = place(10, false, &[budget(CUDA0, 2540), budget(CPU0, 1000)]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the model does not fit on cuda0 and cpu0: 715 MiB are short in total (it takes 4.1 GiB, 3.4 GiB are free \
             after margins); take a smaller context, KV type or quantisation, or free memory"
        );
        assert_eq!(place(10, false, &[]), Err(AutoError::NoDevice));
    }

    #[test]
    fn what_was_measured_decides_the_order() {
        // The card that should be the faster one has shown otherwise.
        let measured = |part, id| matches!((part, id), (Part::Attn(_), CUDA0)).then_some(5.0);
        let costs = Costs { measured_ms: &measured, ..costs(&dense) };
        let budgets = [budget(CUDA0, 9000), budget(ROCM0, 9000)];
        let result =
            auto(&AutoInput { n_layer: 4, is_moe: false, costs: &costs, budgets: &budgets, named: None }).unwrap();
        assert_eq!(result.placement, Placement::uniform(4, ROCM0));
    }

    #[test]
    fn models_without_layers_and_many_devices() {
        assert_eq!(text(0, true, &[budget(CPU0, 200)]), "cpu0=embed,head");
        let many: Vec<_> = (0..9).map(|i| budget(DeviceId::cpu(i), 1000)).collect();
        let placement = place(12, true, &many).unwrap().placement;
        assert_eq!(placement.devices().len(), 6, "{placement}");
    }

    #[test]
    fn units_keep_the_ends_with_their_layers() {
        let ends = units(3, true, |l| l != 1, Cut::Layers, |_| true);
        assert_eq!(
            ends,
            [
                vec![Part::Embed, Part::Attn(0), Part::Ffn(0)],
                vec![Part::Attn(1)],
                vec![Part::Attn(2), Part::Ffn(2), Part::Head]
            ]
        );
        assert_eq!(units(2, false, |_| true, Cut::Layers, |_| true)[0], [Part::Attn(0), Part::Ffn(0)]);
        assert_eq!(units(2, true, |_| true, Cut::Parts, |_| true).len(), 6);
        assert_eq!(permutations(3).len(), 6);
    }

    /// A sample rig with all its memory free.
    fn rig(name: &str) -> (Vec<DeviceBudget>, Vec<DeviceRates>) {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/rigs");
        let rig = crate::devices::rig::Rig::load(&folder.join(name).with_extension("toml")).unwrap();
        let devices = rig.devices.iter().map(|d| {
            let budget = DeviceBudget {
                id: d.id,
                free_bytes: d.memory_bytes,
                total_bytes: d.memory_bytes,
                margin_bytes: 512 * MIB,
            };
            let rates = DeviceRates {
                memory_bytes_per_s: d.memory_bytes_per_s,
                link_bytes_per_s: d.link_bytes_per_s,
                ..DeviceRates::unknown(d.id)
            };
            (budget, rates)
        });
        devices.unzip()
    }

    /// About the sizes of a model with 235 billion weights of which 22 are used, at 4.5 bits: 94 layers.
    #[test]
    fn the_sample_rigs_with_a_large_model_of_experts() {
        let size = |part: Part| match part {
            Part::Embed | Part::Head => 350 * MIB,
            Part::Attn(_) => 38 * MIB,
            Part::Ffn(_) => 1300 * MIB,
        };
        let part = |part: Part, _| PartNeed {
            weight_bytes: size(part),
            kv_bytes: if let Part::Attn(_) = part { 64 * MIB } else { 0 },
        };
        let work = |part: Part, _| {
            let read_bytes = match part {
                Part::Embed => 0,
                Part::Ffn(_) => size(part) / 16,
                _ => size(part),
            };
            PartWork { read_bytes, flops: read_bytes * 4 }
        };
        let place = |name: &str, n_layer| {
            let (budgets, rates) = rig(name);
            let needs = Needs { part: &part, scratch: &|_, _| 300 * MIB, tied_bytes: &|_| 0 };
            let costs = Costs {
                needs,
                work: &work,
                measured_ms: &|_, _| None,
                hop_bytes: 16_384,
                pipelined: true,
                rates: &rates,
            };
            let input = AutoInput { n_layer, is_moe: true, costs: &costs, budgets: &budgets, named: None };
            auto(&input).map(|result| result.placement.to_string())
        };
        assert_eq!(place("4090-7900xtx", 12).unwrap(), "cuda0=embed,0-11,head");
        assert_eq!(place("4090-7900xtx", 24).unwrap(), "cuda0=embed,0-15; rocm0=16-23,head");
        assert_eq!(place("4090-7900xtx", 48).unwrap(), "cuda0=embed,0-15; rocm0=16-47,head; cpu0=ffn:31-47");
        assert_eq!(place("one-24gb", 48).unwrap(), "cpu0=embed,ffn:14-47; cuda0=0-47,head");
        assert!(matches!(place("one-24gb", 94), Err(AutoError::DoesNotFit { .. })));
        assert_eq!(place("three-old-cards", 24).unwrap(), "cuda0=embed,0-6; cuda1=7-22; rocm0=23,head");
        assert!(place("three-old-cards", 94).unwrap().contains("cpu0=ffn:23-93"));
    }

    /// A model and devices of any kind; scratch is the largest of the parts', so it never shrinks.
    #[derive(Debug, Clone)]
    struct Any {
        n_layer: u32,
        is_moe: bool,
        tied: u64,
        sizes: Vec<(u64, u64, u64)>,
        budgets: Vec<DeviceBudget>,
        rates: Vec<DeviceRates>,
    }

    fn any_case() -> impl Strategy<Value = Any> {
        let device = (0u64..3000, 0u64..200, proptest::option::of(1u64..1000));
        (0u32..9, any::<bool>(), 0u64..100, proptest::collection::vec(device, 0..=DEVICES.len()))
            .prop_flat_map(|(n_layer, is_moe, tied, devices)| {
                let size = (0u64..300, 0u64..50, 0u64..60);
                (Just((n_layer, is_moe, tied, devices)), proptest::collection::vec(size, Part::count(n_layer)))
            })
            .prop_map(|((n_layer, is_moe, tied, devices), sizes)| {
                let ids = DEVICES.iter().copied().zip(devices);
                let (budgets, rates) = ids
                    .map(|(id, (free_bytes, margin_bytes, rate))| {
                        let budget = DeviceBudget { id, free_bytes, total_bytes: free_bytes, margin_bytes };
                        (budget, DeviceRates { memory_bytes_per_s: rate, ..DeviceRates::unknown(id) })
                    })
                    .unzip();
                Any { n_layer, is_moe, tied, sizes, budgets, rates }
            })
    }

    impl Any {
        fn with<T>(&self, run: impl FnOnce(&Costs<'_>) -> T) -> T {
            let size = |part: Part| self.sizes[part.index(self.n_layer)];
            // Layouts differ between devices.
            let extra = |id: DeviceId| u64::from(id.index) * 3;
            let part =
                |part: Part, id: DeviceId| PartNeed { weight_bytes: size(part).0 + extra(id), kv_bytes: size(part).1 };
            let scratch = |_: DeviceId, parts: &[Part]| parts.iter().map(|&p| size(p).2).max().unwrap_or(0);
            let work = |part: Part, _: DeviceId| PartWork { read_bytes: size(part).0, flops: size(part).0 };
            run(&Costs {
                needs: Needs { part: &part, scratch: &scratch, tied_bytes: &|_| self.tied },
                work: &work,
                measured_ms: &|_, _| None,
                hop_bytes: 4,
                pipelined: true,
                rates: &self.rates,
            })
        }

        fn auto(&self, budgets: &[DeviceBudget]) -> Result<AutoResult, AutoError> {
            self.with(|costs| {
                auto(&AutoInput { n_layer: self.n_layer, is_moe: self.is_moe, costs, budgets, named: None })
            })
        }

        fn fit(&self, placement: &Placement) -> Fit {
            self.with(|costs| fit(placement, &costs.needs, &self.budgets))
        }
    }

    proptest! {
        #[test]
        fn what_is_given_fits_and_more_memory_does_no_harm(
            any in any_case(),
            grow in proptest::collection::vec(0u64..500, 5),
        ) {
            match any.auto(&any.budgets) {
                Ok(result) => {
                    prop_assert!(any.fit(&result.placement).fits());
                    prop_assert!(!result.notes.is_empty() || any.budgets.len() == 1);
                    prop_assert_eq!(&any.auto(&any.budgets), &Ok(result));
                    let grown: Vec<_> = any.budgets.iter().zip(grow)
                        .map(|(b, more)| DeviceBudget { free_bytes: b.free_bytes + more, ..*b })
                        .collect();
                    prop_assert!(any.auto(&grown).is_ok());
                }
                Err(AutoError::NoDevice) => prop_assert!(any.budgets.is_empty()),
                Err(AutoError::DoesNotFit { best, .. }) => {
                    prop_assert!(best.short_bytes() > 0);
                    // No device alone would do.
                    for b in &any.budgets {
                        prop_assert!(!any.fit(&Placement::uniform(any.n_layer, b.id)).fits());
                    }
                }
            }
        }

        /// Where layers in their order fit at any cut, a placement is found.
        #[test]
        fn a_cut_in_two_is_found(any in any_case(), at in 0u32..9) {
            if let [first, second, ..] = any.budgets[..] {
                let cut = Placement::uniform(any.n_layer, first.id)
                    .with_layers(at.min(any.n_layer).., second.id)
                    .with(Part::Head, second.id);
                if any.fit(&cut).fits() {
                    prop_assert!(any.auto(&any.budgets).is_ok());
                }
            }
        }
    }
}
