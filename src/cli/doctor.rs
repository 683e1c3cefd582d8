//! `layercake doctor`: which devices there are, what they are doing, and what stands in the way of the others.

use std::io::Write;

use serde_json::json;

use crate::cli::CliError;
use crate::cli::printable::printable;
use crate::cli::table::{Table, bytes};
use crate::devices::telemetry::{Finding, FindingResult, PowerState, Reading, Telemetry, TelemetryConfig, examine};

#[derive(clap::Args)]
pub struct Args {
    #[arg(long)]
    json: bool,
}

pub fn doctor(args: Args) -> Result<(), CliError> {
    let config = TelemetryConfig::default();
    let mut telemetry = Telemetry::open(&config);
    telemetry.sample();
    // Load is what happens between two looks.
    std::thread::sleep(sysinfo::MINIMUM_CPU_UPDATE_INTERVAL);
    let readings = telemetry.sample();
    let mut findings = telemetry.findings();
    findings.extend(examine(&config, &readings));
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json!({ "readings": readings, "findings": findings }))?;
        return Ok(());
    }
    write!(out, "{}", printable(&readings_table(&readings)))?;
    writeln!(out)?;
    write!(out, "{}", printable(&findings_text(&findings)))?;
    Ok(())
}

fn readings_table(readings: &[Reading]) -> String {
    let mut table = Table::new(&["device", "memory used", "busy", "power", "temp", "clock", "link", "code for"]);
    let or_na = |text: Option<String>| text.unwrap_or_else(|| "N/A".to_owned());
    for reading in readings {
        let share = |used: Option<u64>, total: Option<u64>| match (used, total) {
            (Some(used), Some(total)) => Some(format!("{} of {}", bytes(used), bytes(total))),
            (None, Some(total)) => Some(format!("N/A of {}", bytes(total))),
            (Some(used), None) => Some(bytes(used)),
            (None, None) => None,
        };
        let integrated = if reading.is_integrated == Some(true) { ", integrated" } else { "" };
        let state = match reading.state {
            PowerState::Awake => "",
            PowerState::Asleep => ", asleep",
            PowerState::Gone => ", gone",
        };
        table.row([
            format!("{} {}{integrated}{state}", reading.id, reading.name),
            or_na(share(reading.memory_used_bytes, reading.memory_total_bytes)),
            or_na(reading.utilisation.map(|share| format!("{:.0}%", share * 100.0))),
            or_na(reading.power_w.map(|watts| format!("{watts:.0} W"))),
            or_na(reading.temperature_c.map(|celsius| format!("{celsius:.0} °C"))),
            or_na(reading.clock_mhz.map(|mhz| format!("{mhz} MHz"))),
            or_na(link(reading)),
            or_na(reading.compute.clone()),
        ]);
    }
    table.to_string()
}

/// `PCIe 4 x16`, as it is now.
fn link(reading: &Reading) -> Option<String> {
    let now = reading.link?.current;
    Some(format!("PCIe {} x{}", now.generation()?, now.width?))
}

/// A block a finding: the verdict and what it is about, then what to do and, where it was not found, where was looked.
fn findings_text(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.what.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let what = &finding.what;
        let mut line = |label: &str, what: &str, words: &str| {
            text += &format!("{label:<8}{what:<width$}  {words}\n");
        };
        match &finding.result {
            FindingResult::Ok { found } => line("ok", what, found),
            FindingResult::Warning { why, remedy } => {
                line("warning", what, why);
                line("", "", &format!("to do: {remedy}"));
            }
            FindingResult::Missing { why, remedy } => {
                line("missing", what, why);
                line("", "", &format!("to do: {remedy}"));
                line("", "", &format!("looked in: {}", looked_in(&finding.looked_in)));
            }
        }
    }
    text
}

/// The first few places; all of them are in the JSON.
fn looked_in(places: &[String]) -> String {
    const N_SHOWN: usize = 6;
    let shown = places.iter().take(N_SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match places.len().saturating_sub(N_SHOWN) {
        0 => shown,
        n_more => format!("{shown} and {n_more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devices::telemetry::{Link, LinkRate, Source};
    use crate::devices::{DeviceId, DeviceKind};

    #[test]
    fn readings_are_a_table_in_which_nothing_is_made_up() {
        let rate = LinkRate { speed_gts: Some(16.0), width: Some(8) };
        let card = Reading {
            memory_total_bytes: Some(24 << 30),
            memory_used_bytes: Some(9 << 29),
            utilisation: Some(0.87),
            power_w: Some(311.7),
            temperature_c: Some(71.0),
            clock_mhz: Some(2520),
            link: Some(Link { current: rate, max: rate }),
            compute: Some("8.9".into()),
            ..Reading::new(DeviceId::new(DeviceKind::Cuda, 0), "RTX 4090".into(), Source::Nvml)
        };
        let asleep = Reading {
            state: PowerState::Asleep,
            is_integrated: Some(true),
            memory_total_bytes: Some(512 << 20),
            ..Reading::new(DeviceId::new(DeviceKind::Rocm, 0), "Radeon 780M".into(), Source::AmdgpuSysfs)
        };
        insta::assert_snapshot!(readings_table(&[card, asleep]), @r"
        device                                         memory used  busy  power   temp     clock       link  code for
        cuda0 RTX 4090                         4.5 GiB of 24.0 GiB   87%  312 W  71 °C  2520 MHz  PCIe 4 x8       8.9
        rocm0 Radeon 780M, integrated, asleep     N/A of 512.0 MiB   N/A    N/A    N/A       N/A        N/A       N/A
        ");
    }

    #[test]
    fn findings_say_what_to_do() {
        let places = (1..=8).map(|n| format!("place{n}")).collect::<Vec<_>>();
        let findings = [
            Finding::ok("NVIDIA GPUs (NVML)", places.clone(), "1 card, driver 580.65"),
            Finding::warning("HIP_VISIBLE_DEVICES", vec!["environment".into()], "'-1' hides 1 of 1", "unset it"),
            Finding::missing("ROCm SMI", places, "it is not installed", "install it"),
        ];
        insta::assert_snapshot!(findings_text(&findings), @r"
        ok      NVIDIA GPUs (NVML)   1 card, driver 580.65
        warning HIP_VISIBLE_DEVICES  '-1' hides 1 of 1
                                     to do: unset it
        missing ROCm SMI             it is not installed
                                     to do: install it
                                     looked in: place1, place2, place3, place4, place5, place6 and 2 more
        ");
    }
}
