//! Sizes, times and ranges in words, and the signs of the map.

use crate::engine::part::Part;
use crate::engine::placement::Placement;
use crate::engine::protocol::DeviceId;

const MIB: f64 = 1024.0 * 1024.0;
const GIB: f64 = 1024.0 * MIB;

/// The signs of one character set.
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    pub edge: char,
    pub edge_hot: char,
    /// A column in which layers of more than one device share a cell.
    pub mixed: char,
    /// A block that runs on where another row has an edge.
    pub runs_on: char,
    pub arrow: &'static str,
    pub dot: &'static str,
    pub about: &'static str,
    pub none: &'static str,
    pub more: &'static str,
    pub bar: [char; 2],
}

impl Signs {
    pub fn of(ascii: bool) -> &'static Signs {
        const UNICODE: Signs = Signs {
            edge: '│',
            edge_hot: '┃',
            mixed: '▚',
            runs_on: '─',
            arrow: "→",
            dot: " · ",
            about: "≈",
            none: "–",
            more: "…",
            bar: ['█', '░'],
        };
        const ASCII: Signs = Signs {
            edge: '|',
            edge_hot: '#',
            mixed: '%',
            runs_on: '-',
            arrow: "->",
            dot: ", ",
            about: "~",
            none: "-",
            more: "...",
            bar: ['#', '.'],
        };
        if ascii { &ASCII } else { &UNICODE }
    }
}

/// `2.7 GiB`, `118 MiB`, `12 KiB`.
pub fn size(n_bytes: u64) -> String {
    let n = n_bytes as f64;
    if n >= GIB {
        format!("{:.1} GiB", n / GIB)
    } else if n >= MIB {
        format!("{:.0} MiB", n / MIB)
    } else {
        format!("{:.0} KiB", (n / 1024.0).ceil())
    }
}

/// `15.9/24.0 GiB`, in the unit of the whole.
pub fn of_size(n_bytes: u64, total_bytes: u64) -> String {
    let (n, total) = (n_bytes as f64, total_bytes as f64);
    if total >= GIB {
        format!("{:.1}/{:.1} GiB", n / GIB, total / GIB)
    } else {
        format!("{:.0}/{:.0} MiB", n / MIB, total / MIB)
    }
}

/// `7 ms`, `0.2 s`, `14 s`, `3 min`.
pub fn time(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "?".to_string();
    }
    match seconds.max(0.0) {
        s if s < 0.0005 => "<1 ms".to_string(),
        s if s < 0.1 => format!("{:.0} ms", s * 1000.0),
        s if s < 9.95 => format!("{s:.1} s"),
        s if s < 120.0 => format!("{s:.0} s"),
        s => format!("{:.0} min", s / 60.0),
    }
}

/// Tokens per second, without the unit: `46`, `4.6`.
pub fn rate(tokens_per_s: f64) -> String {
    if tokens_per_s < 9.95 { format!("{tokens_per_s:.1}") } else { format!("{tokens_per_s:.0}") }
}

/// What a device holds: `embed,0-22`, `0-3,9,head`, and what lies apart from its layer as `attn:5` and `ffn:40-61`.
/// Of many ranges only the first are named.
pub fn holds(placement: &Placement, id: DeviceId, more: &str) -> Option<String> {
    let layers = |wanted: &dyn Fn(DeviceId, DeviceId) -> bool| -> Vec<u32> {
        let apart = |l: &u32| wanted(placement.get(Part::Attn(*l)), placement.get(Part::Ffn(*l)));
        (0..placement.n_layer()).filter(apart).collect()
    };
    let mut items = Vec::new();
    if placement.get(Part::Embed) == id {
        items.push("embed".to_string());
    }
    items.extend(ranges(&layers(&|attn, ffn| attn == id && ffn == id), more));
    if placement.get(Part::Head) == id {
        items.push("head".to_string());
    }
    items.extend(ranges(&layers(&|attn, ffn| attn == id && ffn != id), more).map(|r| format!("attn:{r}")));
    items.extend(ranges(&layers(&|attn, ffn| attn != id && ffn == id), more).map(|r| format!("ffn:{r}")));
    (!items.is_empty()).then(|| items.join(","))
}

/// Rising numbers as `0-3,9`; of more than four ranges the first three.
pub fn ranges(layers: &[u32], more: &str) -> Option<String> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &l in layers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == l => *last = l,
            _ => runs.push((l, l)),
        }
    }
    let n = if runs.len() > 4 { 3 } else { runs.len() };
    let mut texts: Vec<String> = runs.iter().take(n).map(|&(a, b)| range(a, b)).collect();
    if n < runs.len() {
        texts.push(more.to_string());
    }
    (!texts.is_empty()).then(|| texts.join(","))
}

fn range(first: u32, last: u32) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// How many layers a device holds: those whose attention and those whose Ffn part lie there.
pub fn n_layers(placement: &Placement, id: DeviceId) -> (usize, usize) {
    let count = |part: &dyn Fn(u32) -> Part| (0..placement.n_layer()).filter(|&l| placement.get(part(l)) == id).count();
    (count(&Part::Attn), count(&Part::Ffn))
}

/// What a draft gives or takes a device: `+8`, `-8 +head`, `ffn +4`; `None` when it leaves the device alone.
pub fn difference(now: &Placement, next: &Placement, id: DeviceId) -> Option<String> {
    if now.iter().zip(next.iter()).all(|((_, a), (_, b))| (a == id) == (b == id)) {
        return None;
    }
    let ((attn, ffn), (to_attn, to_ffn)) = (n_layers(now, id), n_layers(next, id));
    let (attn, ffn) = (to_attn as i64 - attn as i64, to_ffn as i64 - ffn as i64);
    let mut words = Vec::new();
    match (attn, ffn) {
        (0, 0) => {}
        (a, f) if a == f => words.push(format!("{a:+}")),
        (0, f) => words.push(format!("ffn {f:+}")),
        (a, 0) => words.push(format!("attn {a:+}")),
        (a, f) => words.push(format!("attn {a:+} ffn {f:+}")),
    }
    for part in [Part::Embed, Part::Head] {
        match (now.get(part) == id, next.get(part) == id) {
            (false, true) => words.push(format!("+{part}")),
            (true, false) => words.push(format!("-{part}")),
            (true, true) | (false, false) => {}
        }
    }
    if words.is_empty() {
        words.push("other layers".to_string());
    }
    Some(words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: DeviceId = DeviceId::cpu(0);
    const B: DeviceId = DeviceId::cpu(1);

    #[test]
    fn figures_read_well() {
        assert_eq!(size(118 << 20), "118 MiB");
        assert_eq!(size(2_899_102_925), "2.7 GiB");
        assert_eq!(of_size(17_072_495_001, 24 << 30), "15.9/24.0 GiB");
        assert_eq!(of_size(5 << 20, 512 << 20), "5/512 MiB");
        assert_eq!([0.0, 0.007, 0.21, 14.2, 300.0].map(time), ["<1 ms", "7 ms", "0.2 s", "14 s", "5 min"]);
        assert_eq!(time(f64::NAN), "?");
        assert_eq!([4.61, 45.7].map(rate), ["4.6", "46"]);
    }

    #[test]
    fn what_a_device_holds() {
        let p = Placement::uniform(12, A).with_layers(3..=5, B).with(Part::Ffn(8), B).with(Part::Head, B);
        assert_eq!(holds(&p, A, "…").as_deref(), Some("embed,0-2,6-7,9-11,attn:8"));
        assert_eq!(holds(&p, B, "…").as_deref(), Some("3-5,head,ffn:8"));
        assert_eq!(holds(&p, DeviceId::cpu(2), "…"), None);
        let odd = Placement::from_fn(12, |p| if p.layer().is_some_and(|l| l % 2 == 1) { B } else { A });
        assert_eq!(holds(&odd, B, "…").as_deref(), Some("1,3,5,…"));
    }

    #[test]
    fn what_a_draft_changes() {
        let now = Placement::uniform(12, A);
        assert_eq!(difference(&now, &now, A), None);
        let next = now.clone().with_layers(4.., B).with(Part::Head, B);
        assert_eq!(difference(&now, &next, B).as_deref(), Some("+8 +head"));
        assert_eq!(difference(&now, &next, A).as_deref(), Some("-8 -head"));
        let ffn = now.clone().with(Part::Ffn(3), B);
        assert_eq!(difference(&now, &ffn, B).as_deref(), Some("ffn +1"));
        let moved = now.clone().with_layers(3..4, B);
        assert_eq!(difference(&moved, &now.with_layers(4..5, B), B).as_deref(), Some("other layers"));
    }
}
