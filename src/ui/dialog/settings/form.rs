//! How values are written as text, and the next one in a direction.

/// How a setting is written and stepped.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Form {
    /// A number, in steps of so much, between two bounds.
    Real {
        step: f64,
        least: f64,
        most: f64,
    },
    Whole {
        step: i64,
        least: i64,
    },
    /// A number, or the word for none.
    Optional {
        step: i64,
        none: &'static str,
    },
    /// As `Real`, or the word for none.
    OptionalReal {
        step: f64,
        first: f64,
        none: &'static str,
    },
    Choice(&'static [&'static str]),
}

impl Form {
    /// What a text must be.
    pub(super) fn wanted(self) -> String {
        match self {
            Form::Real { .. } => "must be a number".to_owned(),
            Form::Whole { least, .. } => format!("must be a whole number from {least}"),
            Form::Optional { none, .. } => format!("must be a whole number or \"{none}\""),
            Form::OptionalReal { none, .. } => format!("must be a number or \"{none}\""),
            Form::Choice(choices) => format!("must be one of {}", choices.join(", ")),
        }
    }

    /// The value `direction` steps on; `None`: the text is no value.
    pub(super) fn stepped(self, text: &str, direction: i64) -> Option<String> {
        let text = text.trim();
        match self {
            Form::Real { step, least, most } => {
                Some(shown(on_grid(text.parse().ok()?, step, direction).clamp(least, most)))
            }
            Form::Whole { step, least } => {
                Some(on_whole_grid(text.parse().ok()?, step, direction).max(least).to_string())
            }
            Form::Optional { step, none } if text == none => {
                Some(if direction > 0 { step.to_string() } else { none.to_owned() })
            }
            Form::Optional { step, none } => {
                let value: u64 = text.parse().ok()?;
                // A seed may be larger than any number that is stepped.
                let Ok(value) = i64::try_from(value) else { return Some(text.to_owned()) };
                let next = on_whole_grid(value, step, direction);
                Some(if next <= 0 && direction < 0 { none.to_owned() } else { next.to_string() })
            }
            Form::OptionalReal { first, none, .. } if text == none => {
                Some(if direction > 0 { shown(first) } else { none.to_owned() })
            }
            Form::OptionalReal { step, none, .. } => {
                let next = on_grid(text.parse().ok()?, step, direction);
                Some(if next <= 0.0 { none.to_owned() } else { shown(next) })
            }
            Form::Choice(choices) => {
                let at = choices.iter().position(|choice| *choice == text)? as i64;
                let n = choices.len() as i64;
                choices.get((at + direction).rem_euclid(n.max(1)) as usize).map(|choice| (*choice).to_owned())
            }
        }
    }
}

/// The next multiple of a step in a direction; the same value in none.
fn on_grid(value: f64, step: f64, direction: i64) -> f64 {
    const NEAR: f64 = 1e-6;
    match direction {
        0 => value,
        d if d > 0 => ((value / step + NEAR).floor() + 1.0) * step,
        _ => ((value / step - NEAR).ceil() - 1.0) * step,
    }
}

/// As [`on_grid`].
fn on_whole_grid(value: i64, step: i64, direction: i64) -> i64 {
    match direction {
        0 => value,
        d if d > 0 => value.div_euclid(step).saturating_add(1).saturating_mul(step),
        _ => value.saturating_sub(1).div_euclid(step).saturating_mul(step),
    }
}

/// Without the noise of binary fractions.
fn shown(value: f64) -> String {
    let rounded = (value * 1e4).round() / 1e4;
    // Never "-0".
    (rounded + 0.0).to_string()
}
