//! Sizes in words, for the messages of this module.

/// `20.1 GiB`, or `1,023 MiB` below one GiB; what is under one MiB in KiB, rounded up.
pub fn size(n_bytes: u64) -> String {
    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;
    match n_bytes {
        GIB.. => format!("{:.1} GiB", n_bytes as f64 / GIB as f64),
        MIB.. => format!("{} MiB", grouped(n_bytes / MIB)),
        _ => format!("{} KiB", grouped(n_bytes.div_ceil(1024))),
    }
}

/// Whole MiB, rounded up so that a lack of one byte is not a lack of nothing: `1,234 MiB`.
pub fn mib_up(n_bytes: u64) -> String {
    format!("{} MiB", grouped(n_bytes.div_ceil(1 << 20)))
}

fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
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
    fn sizes_read_well() {
        assert_eq!(size(0), "0 KiB");
        assert_eq!(size(1), "1 KiB");
        assert_eq!(size(1_023 << 20), "1,023 MiB");
        assert_eq!(size(1 << 30), "1.0 GiB");
        assert_eq!(mib_up(1), "1 MiB");
        assert_eq!(mib_up(1_234_567 << 20), "1,234,567 MiB");
    }
}
