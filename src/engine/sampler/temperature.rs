//! Temperature, plain and dynamic.

use super::candidates::Candidates;

/// Divides the logits by `temperature`; at 0 or below, or so near it that the best logit overflows, only the best
/// token stays possible.
pub fn temperature(candidates: &mut Candidates, temperature: f32) {
    let max = candidates.max_logit();
    if temperature > 0.0 && (max / temperature).is_finite() {
        for c in &mut candidates.data {
            c.logit /= temperature;
        }
        return;
    }
    let mut found = false;
    for c in &mut candidates.data {
        if c.logit == max && !found {
            found = true;
        } else {
            c.logit = f32::NEG_INFINITY;
        }
    }
}

/// Temperature between `centre - range` and `centre + range` by how undecided the model is: the entropy as a share of
/// the largest possible one, raised to `exponent`. Range 0 is plain temperature.
pub fn dynamic_temperature(candidates: &mut Candidates, centre: f32, range: f32, exponent: f32) {
    if range <= 0.0 {
        temperature(candidates, centre);
        return;
    }
    if candidates.data.len() <= 1 {
        return;
    }
    let (lowest, highest) = ((centre - range).max(0.0), centre + range);
    candidates.sort();
    candidates.softmax();
    let share = candidates.entropy() / (candidates.data.len() as f32).ln();
    temperature(candidates, lowest + (highest - lowest) * share.powf(exponent));
    candidates.softmax();
}
