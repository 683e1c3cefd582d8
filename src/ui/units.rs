//! Figures with their units, as the panels show them. Short, and of a width that does not jump.

use crate::devices::telemetry::LinkRate;

const GIB: f64 = (1u64 << 30) as f64;
const MIB: f64 = (1u64 << 20) as f64;

/// `18.2`: GiB with one decimal, none from a thousand on.
pub fn gib(n_bytes: u64) -> String {
    let gib = n_bytes as f64 / GIB;
    if gib < 999.95 { format!("{gib:.1}") } else { grouped(gib) }
}

/// `24 GiB`, `512 MiB` below one GiB, `1.5 TiB` above a thousand: at most eight columns.
pub fn round(n_bytes: u64) -> String {
    match n_bytes as f64 / GIB {
        gib if gib < 1.0 => format!("{:.0} MiB", n_bytes as f64 / MIB),
        gib if gib < 999.5 => format!("{gib:.0} GiB"),
        gib => format!("{:.1} TiB", gib / 1024.0),
    }
}

/// `18.20 GiB`, `312.0 MiB` below one GiB, `12.0 KiB` below one MiB.
pub fn exact(n_bytes: u64) -> String {
    match n_bytes {
        0 => "0".to_owned(),
        1..1_048_576 => format!("{:.1} KiB", n_bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", n_bytes as f64 / MIB),
        _ => format!("{:.2} GiB", n_bytes as f64 / GIB),
    }
}

/// `18.2/24.0 GiB`, or `312/512 MiB` where the whole is less than one GiB. `absent` stands for what is not known.
pub fn used_of(used_bytes: Option<u64>, total_bytes: u64, absent: &str) -> String {
    let in_mib = total_bytes < 1 << 30;
    let figure = |n: u64| if in_mib { format!("{:.0}", n as f64 / MIB) } else { gib(n) };
    let used = used_bytes.map_or_else(|| absent.to_owned(), figure);
    format!("{used}/{} {}", figure(total_bytes), if in_mib { "MiB" } else { "GiB" })
}

/// `87%` of a share from 0 to 1.
pub fn percent(share: f64) -> String {
    format!("{:.0}%", share.clamp(0.0, 1.0) * 100.0)
}

/// `4.1`: milliseconds with one decimal, none from a hundred on.
pub fn ms(ms: f64) -> String {
    match ms {
        ms if ms > 0.0 && ms < 0.05 => "<0.1".to_owned(),
        ms if ms < 99.95 => format!("{ms:.1}"),
        ms => grouped(ms),
    }
}

/// `41.2`: a rate with one decimal, none from a hundred on.
pub fn rate(per_s: f64) -> String {
    if per_s < 99.95 { format!("{per_s:.1}") } else { grouped(per_s) }
}

/// `330 kB/s`, `1.2 GB/s`: thousands, as links are sold.
pub fn bytes_per_s(rate: f64) -> String {
    match rate {
        r if r < 1e3 => format!("{r:.0} B/s"),
        r if r < 999.5e3 => format!("{:.0} kB/s", r / 1e3),
        r if r < 99.95e6 => format!("{:.1} MB/s", r / 1e6),
        r if r < 999.5e6 => format!("{:.0} MB/s", r / 1e6),
        r if r < 99.95e9 => format!("{:.1} GB/s", r / 1e9),
        r => format!("{} GB/s", grouped(r / 1e9)),
    }
}

pub fn watts(watts: f32) -> String {
    format!("{watts:.0} W")
}

/// `71°C`, or `71C`.
pub fn celsius(degrees: f32, ascii: bool) -> String {
    format!("{degrees:.0}{}C", if ascii { "" } else { "°" })
}

/// `PCIe 4 x16`, or what of it is known; `None`: nothing.
pub fn link(rate: &LinkRate) -> Option<String> {
    let generation = rate.generation().map(|g| format!("PCIe {g}"));
    let width = rate.width.map(|w| format!("x{w}"));
    match (generation, width) {
        (Some(generation), Some(width)) => Some(format!("{generation} {width}")),
        (Some(words), None) => Some(words),
        (None, Some(width)) => Some(format!("PCIe {width}")),
        (None, None) => None,
    }
}

/// `1,204`: a whole number in groups of three digits.
pub fn grouped(n: f64) -> String {
    let digits = format!("{n:.0}");
    let sign = if digits.starts_with('-') { "-" } else { "" };
    let digits = &digits[sign.len()..];
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return "—".to_owned();
    }
    let mut text = sign.to_owned();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(gib(19_542_101_197), "18.2");
        assert_eq!(gib(1_536 << 30), "1,536");
        assert_eq!(used_of(Some(312 << 20), 512 << 20, "—"), "312/512 MiB");
        assert_eq!(used_of(Some(312 << 20), 24 << 30, "—"), "0.3/24.0 GiB");
        assert_eq!(used_of(None, 24 << 30, "—"), "—/24.0 GiB");
        assert_eq!(exact(5 << 29), "2.50 GiB");
        assert_eq!(exact((5 << 20) + (1 << 19)), "5.5 MiB");
        assert_eq!(exact(1), "0.0 KiB");
        assert_eq!(exact(0), "0");
        assert_eq!(round(24_564 << 20), "24 GiB");
        assert_eq!(round(512 << 20), "512 MiB");
        assert_eq!(round(1_536 << 30), "1.5 TiB");
    }

    #[test]
    fn rates_and_shares() {
        assert_eq!(ms(4.14), "4.1");
        assert_eq!(ms(0.01), "<0.1");
        assert_eq!(ms(0.0), "0.0");
        assert_eq!(ms(99.97), "100");
        assert_eq!(ms(12_345.6), "12,346");
        assert_eq!(rate(41.23), "41.2");
        assert_eq!(rate(1_812.4), "1,812");
        assert_eq!(percent(0.866), "87%");
        assert_eq!(percent(7.0), "100%");
        assert_eq!(bytes_per_s(331_000.0), "331 kB/s");
        assert_eq!(bytes_per_s(999_999.0), "1.0 MB/s");
        assert_eq!(bytes_per_s(25e9), "25.0 GB/s");
        assert_eq!(bytes_per_s(1.008e12), "1,008 GB/s");
        assert_eq!(link(&LinkRate { speed_gts: Some(16.0), width: Some(8) }).as_deref(), Some("PCIe 4 x8"));
        assert_eq!(link(&LinkRate { speed_gts: None, width: Some(8) }).as_deref(), Some("PCIe x8"));
        assert_eq!(link(&LinkRate::default()), None);
    }

    #[test]
    fn what_is_no_number_is_no_digits() {
        assert_eq!(grouped(f64::INFINITY), "—");
        assert_eq!(ms(f64::NAN), "—");
    }
}
