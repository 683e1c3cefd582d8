//! What is known of a device, in words: labels and values.

use crate::devices::telemetry::{Link, PowerState, Reading};
use crate::engine::protocol::DeviceKind;
use crate::ui::gauges::DeviceRow;
use crate::ui::text::printable;
use crate::ui::theme::Role;
use crate::ui::units;

pub(super) struct Fact {
    pub label: &'static str,
    /// `None`: it could be known, and is not.
    pub value: Option<String>,
    pub role: Role,
}

/// In groups: what it does for the model, how it runs, what it is. `columns`: room for a value.
pub(super) fn facts(row: &DeviceRow, columns: usize, ascii: bool) -> Vec<Vec<Fact>> {
    vec![work(row, columns, ascii), running(row, ascii), identity(row)]
}

fn fact(label: &'static str, value: Option<String>) -> Fact {
    Fact { label, value, role: Role::Text }
}

fn work(row: &DeviceRow, columns: usize, ascii: bool) -> Vec<Fact> {
    if !row.in_engine {
        let value = Some("seen, but not used".to_owned());
        return vec![Fact { label: "layers", value, role: Role::Dim }];
    }
    let stats = row.stats.as_ref();
    let count = match row.holds.n_layers {
        0 => String::new(),
        1 => " (1 layer)".to_owned(),
        n => format!(" ({n} layers)"),
    };
    let mark = if ascii { "..." } else { "…" };
    let layers = if row.holds.items.is_empty() {
        "none".to_owned()
    } else {
        row.holds.text(columns.saturating_sub(count.len()), mark) + &count
    };
    let decode = stats.and_then(|s| s.decode_ms_per_token).map(|ms| {
        let share = stats.and_then(|s| s.decode_share).map(|s| format!(", {} of time", units::percent(s)));
        format!("{} ms/tok{}", units::ms(ms), share.unwrap_or_default())
    });
    let prefill = stats.and_then(|s| s.prefill_tokens_per_s).map(|r| format!("{} tok/s", units::rate(r)));
    let wait = stats.and_then(|s| s.wait_share).map(|w| format!("{} of the model's time", units::percent(w)));
    vec![fact("layers", Some(layers)), fact("decode", decode), fact("prefill", prefill), fact("waits", wait)]
}

fn running(row: &DeviceRow, ascii: bool) -> Vec<Fact> {
    let mut facts = vec![];
    match row.state() {
        PowerState::Awake => {}
        PowerState::Asleep => {
            let value = Some("asleep (it is not woken)".to_owned());
            facts.push(Fact { label: "state", value, role: Role::Warn });
        }
        PowerState::Gone => {
            let value = Some("gone: unplugged or reset".to_owned());
            facts.push(Fact { label: "state", value, role: Role::Bad });
        }
    }
    if row.simulated {
        return facts;
    }
    let is_host = row.id.kind == DeviceKind::Cpu;
    let get = |value: &dyn Fn(&Reading) -> Option<String>| row.reading.as_ref().and_then(value);
    let power = get(&|r| {
        let power = r.power_w.map(units::watts);
        match (power, r.power_limit_w) {
            (Some(power), Some(limit)) => Some(format!("{power} of {limit:.0} W")),
            (Some(power), None) => Some(power),
            (None, Some(limit)) => Some(format!("limit {limit:.0} W")),
            (None, None) => None,
        }
    });
    facts.push(fact("power", power));
    let fan = get(&|r| r.fan.map(|fan| format!(", fan {}", units::percent(f64::from(fan)))));
    let temperature = get(&|r| r.temperature_c.map(|t| units::celsius(t, ascii)));
    facts.push(fact("temperature", temperature.map(|t| t + &fan.unwrap_or_default())));
    let clock = get(&|r| {
        let core = r.clock_mhz.map(|c| format!("{c} MHz"));
        let memory = r.memory_clock_mhz.map(|c| format!("memory {c} MHz"));
        let clocks: Vec<_> = core.into_iter().chain(memory).collect();
        (!clocks.is_empty()).then(|| clocks.join(", "))
    });
    facts.push(fact("clock", clock));
    let pair = |used: Option<u64>, total: Option<u64>| {
        let total = total.filter(|t| *t > 0)?;
        Some(units::used_of(used, total, "N/A"))
    };
    if is_host {
        let swap = get(&|r| pair(r.swap_used_bytes, r.swap_total_bytes));
        facts.extend(swap.map(|swap| fact("swap", Some(swap))));
        let ours = get(&|r| r.ours_bytes.map(units::exact));
        facts.extend(ours.map(|ours| fact("resident", Some(format!("{ours} of this program")))));
    } else {
        facts.push(fact("link", get(&|r| r.link.as_ref().and_then(link))));
        let gtt = get(&|r| pair(r.gtt_used_bytes, r.gtt_total_bytes));
        facts.extend(gtt.map(|gtt| fact("host (GTT)", Some(gtt))));
    }
    facts
}

/// As it runs now, and its best where that is another.
fn link(link: &Link) -> Option<String> {
    let (now, best) = (units::link(&link.current), units::link(&link.max));
    match (now, best) {
        (Some(now), Some(best)) if now == best => Some(now),
        (Some(now), Some(best)) => Some(format!("{now} (best {best})")),
        (Some(now), None) => Some(now),
        (None, Some(best)) => Some(format!("best {best}")),
        (None, None) => None,
    }
}

fn identity(row: &DeviceRow) -> Vec<Fact> {
    let facts = row.facts.as_ref();
    let threads = facts.map(|f| f.n_threads).filter(|n| *n > 0).map(|n| n.to_string());
    let speed = |get: fn(u64) -> String, n: Option<u64>| n.map(get);
    let per_s = |n: u64| units::bytes_per_s(n as f64);
    if row.simulated {
        let value = Some("simulated on the processor".to_owned());
        return vec![
            Fact { label: "device", value, role: Role::Warn },
            fact("threads", threads),
            fact("memory at", speed(per_s, facts.and_then(|f| f.memory_bytes_per_s))),
            fact("link at", speed(per_s, facts.and_then(|f| f.link_bytes_per_s))),
        ];
    }
    let get = |value: &dyn Fn(&Reading) -> Option<String>| row.reading.as_ref().and_then(value);
    if row.id.kind == DeviceKind::Cpu {
        return vec![fact("threads", threads)];
    }
    let compute_label = match row.id.kind {
        DeviceKind::Cuda => "capability",
        DeviceKind::Rocm | DeviceKind::Cpu => "target",
    };
    vec![
        fact("driver", get(&|r| r.driver.as_deref().map(|d| printable(d).into_owned()))),
        fact("PCI", get(&|r| r.pci.map(|pci| pci.to_string()))),
        fact(compute_label, get(&|r| r.compute.as_deref().map(|c| printable(c).into_owned()))),
    ]
}
