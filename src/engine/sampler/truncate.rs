//! The steps that drop unlikely tokens. Each leaves at least `min_keep` and at least one.

use super::candidates::Candidates;

/// Nucleus sampling: the fewest best tokens whose probabilities sum to `p`. Holtzman et al. 2019
/// (<https://arxiv.org/abs/1904.09751>). 1 or above is off.
pub fn top_p(candidates: &mut Candidates, p: f32, min_keep: usize) {
    if p >= 1.0 || candidates.data.is_empty() {
        return;
    }
    candidates.softmax();
    // Most often a short front holds the nucleus, so the rest need not be sorted.
    let mut n_front = 256;
    loop {
        let n_sorted = candidates.sort_front(n_front);
        let mut sum = 0.0f32;
        for (i, c) in candidates.data[..n_sorted].iter().enumerate() {
            sum += c.p;
            if sum >= p && i + 1 >= min_keep {
                candidates.data.truncate(i + 1);
                candidates.is_sorted = true;
                return;
            }
        }
        if n_sorted == candidates.data.len() {
            return;
        }
        n_front *= 8;
    }
}

/// Drops tokens less than `p` times as likely as the best one (<https://arxiv.org/abs/2407.01082>). 0 is off.
pub fn min_p(candidates: &mut Candidates, p: f32, min_keep: usize) {
    if p <= 0.0 || candidates.data.is_empty() {
        return;
    }
    let lowest = candidates.max_logit() + p.ln();
    let n_kept = candidates.data.iter().filter(|c| c.logit >= lowest).count();
    if n_kept >= min_keep.max(1) {
        candidates.data.retain(|c| c.logit >= lowest);
    } else {
        candidates.top_k(min_keep.max(1));
    }
}

/// Locally typical sampling: the tokens whose surprise is nearest the expected one, up to probability `p`. Meister et
/// al. 2022 (<https://arxiv.org/abs/2202.00666>). 1 or above is off.
pub fn typical(candidates: &mut Candidates, p: f32, min_keep: usize) {
    if p >= 1.0 || candidates.data.is_empty() {
        return;
    }
    candidates.sort();
    candidates.softmax();
    let entropy = candidates.entropy();
    // Impossible tokens have infinite surprise, so they come last.
    let distance = |p: f32| (-p.ln() - entropy).abs();
    candidates.data.sort_by(|a, b| distance(a.p).total_cmp(&distance(b.p)));
    candidates.is_sorted = false;
    let mut sum = 0.0f32;
    let mut n_kept = candidates.data.len();
    for (i, c) in candidates.data.iter().enumerate() {
        sum += c.p;
        if sum > p && i + 1 >= min_keep {
            n_kept = i + 1;
            break;
        }
    }
    candidates.data.truncate(n_kept);
}

/// Makes tokens impossible whose logit is more than `n` standard deviations below the best (<https://arxiv.org/abs/2411.07641>).
/// 0 or below is off.
pub fn top_n_sigma(candidates: &mut Candidates, n: f32) {
    if n <= 0.0 || candidates.data.len() <= 1 {
        return;
    }
    let possible = || candidates.data.iter().map(|c| f64::from(c.logit)).filter(|l| l.is_finite());
    let n_possible = possible().count();
    if n_possible == 0 {
        return;
    }
    let mean = possible().sum::<f64>() / n_possible as f64;
    let variance = possible().map(|l| (l - mean) * (l - mean)).sum::<f64>() / n_possible as f64;
    let lowest = candidates.max_logit() - n * variance.sqrt() as f32;
    for c in &mut candidates.data {
        if c.logit < lowest {
            c.logit = f32::NEG_INFINITY;
        }
    }
}

/// XTC ("exclude top choices"): of several tokens at least `threshold` likely, keeps only the least likely of them.
/// Source: <https://github.com/oobabooga/text-generation-webui/pull/6335>. The caller draws whether it happens.
pub fn exclude_top_choices(candidates: &mut Candidates, threshold: f32, min_keep: usize) {
    if threshold > 0.5 || candidates.data.len() < 2 {
        return;
    }
    candidates.sort();
    candidates.softmax();
    let n_likely = candidates.data.iter().take_while(|c| c.p >= threshold).count();
    if n_likely > 1 && candidates.data.len() - (n_likely - 1) >= min_keep {
        candidates.data.drain(..n_likely - 1);
    }
}

/// Mirostat 2's cut: drops tokens with a surprise above `max_surprise` bits, and renormalises. Basu et al. 2020
/// (<https://arxiv.org/abs/2007.14966>).
pub fn max_surprise(candidates: &mut Candidates, max_surprise: f32) {
    candidates.sort();
    candidates.softmax();
    let n_kept = candidates.data.iter().take_while(|c| -c.p.log2() <= max_surprise).count();
    candidates.data.truncate(n_kept.max(1));
    candidates.softmax();
}
