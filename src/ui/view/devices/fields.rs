//! What a card says, field by field.

use super::name::{fitted, short_name};
use crate::devices::telemetry::{PowerState, Reading};
use crate::engine::protocol::{DeviceKind, DeviceStats};
use crate::ui::gauges::{DeviceRow, Gauges};
use crate::ui::text::width::width;
use crate::ui::theme::{Role, Theme};
use crate::ui::units;

/// In the order in which they stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    Id,
    /// `SIM`.
    Tag,
    Name,
    MemoryLabel,
    Bar,
    Figures,
    LoadLabel,
    Spark,
    Load,
    Power,
    Temperature,
    Clock,
    Link,
    Layers,
    Ms,
    Share,
    ShareLabel,
    Wait,
    Prefill,
}

impl Field {
    pub const ALL: &[Field] = &[
        Field::Id,
        Field::Tag,
        Field::Name,
        Field::MemoryLabel,
        Field::Bar,
        Field::Figures,
        Field::LoadLabel,
        Field::Spark,
        Field::Load,
        Field::Power,
        Field::Temperature,
        Field::Clock,
        Field::Link,
        Field::Layers,
        Field::Ms,
        Field::Share,
        Field::ShareLabel,
        Field::Wait,
        Field::Prefill,
    ];

    /// Blanks before it.
    pub const fn gap(self) -> u16 {
        match self {
            Field::Id
            | Field::Tag
            | Field::Name
            | Field::Bar
            | Field::Figures
            | Field::Spark
            | Field::Load
            | Field::Temperature
            | Field::ShareLabel => 1,
            Field::MemoryLabel
            | Field::LoadLabel
            | Field::Power
            | Field::Clock
            | Field::Link
            | Field::Layers
            | Field::Ms
            | Field::Share
            | Field::Wait
            | Field::Prefill => 2,
        }
    }

    /// Fewer columns than this are of no use; other fields are shown whole or not at all.
    pub const fn narrowest(self) -> u16 {
        match self {
            Field::Name => 8,
            Field::Bar => 6,
            Field::Spark => 5,
            Field::Id
            | Field::Tag
            | Field::MemoryLabel
            | Field::Figures
            | Field::LoadLabel
            | Field::Load
            | Field::Power
            | Field::Temperature
            | Field::Clock
            | Field::Link
            | Field::Layers
            | Field::Ms
            | Field::Share
            | Field::ShareLabel
            | Field::Wait
            | Field::Prefill => u16::MAX,
        }
    }

    /// Set to the right.
    pub const fn is_figure(self) -> bool {
        match self {
            Field::Figures
            | Field::Load
            | Field::Power
            | Field::Temperature
            | Field::Clock
            | Field::Ms
            | Field::Share
            | Field::Wait
            | Field::Prefill => true,
            Field::Id
            | Field::Tag
            | Field::Name
            | Field::MemoryLabel
            | Field::Bar
            | Field::LoadLabel
            | Field::Spark
            | Field::Link
            | Field::Layers
            | Field::ShareLabel => false,
        }
    }

    /// Of what this program computes there.
    pub const fn is_work(self) -> bool {
        matches!(self, Field::Layers | Field::Ms | Field::Share | Field::ShareLabel | Field::Wait | Field::Prefill)
    }
}

/// Columns a field takes at most; `None`: no device has anything for it. Figures have room for their usual largest
/// value, and the engine's stand there before there are any, so that columns stand still.
pub(super) fn natural_width(field: Field, gauges: &Gauges, theme: &Theme) -> Option<u16> {
    let usual = match field {
        Field::Bar | Field::Spark => return Some(u16::MAX),
        Field::Figures => 13,
        Field::Load | Field::LoadLabel | Field::Share => 4,
        Field::Power => 5,
        Field::Temperature => 4,
        Field::Ms => 11,
        Field::ShareLabel => 7,
        Field::Wait => 9,
        Field::Prefill => 19,
        Field::Clock => 8,
        Field::Id | Field::Tag | Field::Name | Field::MemoryLabel | Field::Link | Field::Layers => 0,
    };
    let is_engines = field.is_work() && field != Field::Layers;
    let stands_anyway = is_engines || matches!(field, Field::Figures | Field::Load | Field::LoadLabel);
    let values = gauges.devices.iter().filter_map(|row| value(field, row, theme, u16::MAX));
    let widest = values.map(|spans| spans.iter().map(|(text, _)| width(text)).sum::<usize>()).max();
    let widest = widest.or(stands_anyway.then_some(0))?;
    Some(u16::try_from(widest).unwrap_or(u16::MAX).max(usual))
}

/// The words of a field on one card, in at most `columns`; a dash where there could be a value and is none.
pub(super) fn spans(field: Field, row: &DeviceRow, theme: &Theme, columns: u16) -> Vec<(String, Role)> {
    value(field, row, theme, columns).unwrap_or_else(|| {
        let dash = if theme.ascii { "-" } else { "—" };
        // It stands where the figure would end.
        let words = match field {
            Field::Power => format!("{dash}  "),
            Field::Temperature if theme.ascii => format!("{dash} "),
            Field::Temperature => format!("{dash}  "),
            Field::Ms => format!("{dash} ms/tok"),
            Field::Clock | Field::Figures => format!("{dash}    "),
            Field::Wait => format!("wait {dash:>3} "),
            Field::Prefill => format!("prefill {dash:>5} tok/s"),
            Field::Load | Field::Share => format!("{dash} "),
            Field::Link if row.id.kind != DeviceKind::Cpu => dash.to_owned(),
            Field::Link
            | Field::Id
            | Field::Tag
            | Field::Name
            | Field::MemoryLabel
            | Field::Bar
            | Field::LoadLabel
            | Field::Spark
            | Field::Layers
            | Field::ShareLabel => String::new(),
        };
        vec![(words, Role::Dim)]
    })
}

fn value(field: Field, row: &DeviceRow, theme: &Theme, columns: u16) -> Option<Vec<(String, Role)>> {
    let reading = |get: &dyn Fn(&Reading) -> Option<String>| row.reading.as_ref().and_then(get);
    let stats = |get: &dyn Fn(&DeviceStats) -> Option<f64>| row.stats.as_ref().and_then(get);
    let number = |text: String| vec![(text, Role::Text)];
    let labelled = |label: &str, text: String| vec![(label.to_owned(), Role::Dim), (text, Role::Text)];
    let mark = if theme.ascii { "..." } else { "…" };
    match field {
        Field::Id => Some(number(row.id.to_string())),
        Field::Tag => row.simulated.then(|| vec![("SIM".to_owned(), Role::Warn)]),
        Field::Name => {
            let name = short_name(&row.name);
            let role = if row.in_engine { Role::Text } else { Role::Dim };
            Some(vec![(fitted(&name, usize::from(columns), mark).into_owned(), role)])
        }
        Field::MemoryLabel => {
            let is_host = row.id.kind == DeviceKind::Cpu;
            Some(vec![(if is_host { "RAM" } else { "VRAM" }.to_owned(), Role::Dim)])
        }
        Field::Figures => {
            let total = row.memory_total_bytes()?;
            let dash = if theme.ascii { "-" } else { "—" };
            Some(number(units::used_of(row.memory().map(|m| m.used_bytes()), total, dash)))
        }
        Field::LoadLabel => {
            let words = row.load.map(|l| if l.is_measured_outside { "util" } else { "busy" });
            words.map(|w| vec![(w.to_owned(), Role::Dim)])
        }
        Field::Load => row.load.map(|l| number(units::percent(f64::from(l.share)))),
        Field::Power => reading(&|r| r.power_w.map(units::watts)).map(number),
        Field::Temperature => reading(&|r| r.temperature_c.map(|t| units::celsius(t, theme.ascii))).map(number),
        Field::Clock => reading(&|r| r.clock_mhz.map(|c| format!("{c} MHz"))).map(number),
        Field::Link => reading(&|r| r.link.and_then(|l| units::link(&l.current))).map(number),
        Field::Layers if row.holds.items.is_empty() => None,
        Field::Layers => {
            let label = "layers ";
            // More would be a list to study: the details view and the map have it.
            let room = usize::from(columns.min(28)).saturating_sub(label.len());
            Some(labelled(label, row.holds.text(room, mark)))
        }
        Field::Ms => stats(&|s| s.decode_ms_per_token)
            .map(|ms| vec![(units::ms(ms), Role::Text), (" ms/tok".to_owned(), Role::Dim)]),
        Field::Share => stats(&|s| s.decode_share).map(|s| number(units::percent(s))),
        Field::ShareLabel => stats(&|s| s.decode_share).map(|_| vec![("of time".to_owned(), Role::Dim)]),
        Field::Wait => stats(&|s| s.wait_share).map(|w| labelled("wait ", format!("{:>4}", units::percent(w)))),
        Field::Prefill => stats(&|s| s.prefill_tokens_per_s).map(|r| {
            let figure = format!("{:>5}", units::rate(r));
            vec![("prefill ".to_owned(), Role::Dim), (figure, Role::Text), (" tok/s".to_owned(), Role::Dim)]
        }),
        // Drawn, not written. A card without a utilisation has no past of it either.
        Field::Spark | Field::Bar => (row.state() == PowerState::Awake).then(Vec::new),
    }
}
