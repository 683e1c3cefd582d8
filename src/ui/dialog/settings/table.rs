//! Every setting as data: name, words, how it is written, where it lies.

use super::form::Form;
use crate::engine::kv::KvType;
use crate::engine::sampler::{Mirostat, SamplerSettings};
use crate::ui::state::ChatSettings;

/// One line of the form.
pub struct Setting {
    /// As in the configuration and in [`SamplerError`].
    pub name: &'static str,
    pub group: &'static str,
    pub words: &'static str,
    pub form: Form,
    pub(super) get: fn(&ChatSettings) -> String,
    /// `false`: the text is no such value.
    pub(super) set: fn(&mut ChatSettings, &str) -> bool,
}

const SHARE: Form = Form::Real { step: 0.05, least: 0.0, most: 1.0 };
const FINE_SHARE: Form = Form::Real { step: 0.01, least: 0.0, most: 1.0 };
const fn real(step: f64, least: f64) -> Form {
    Form::Real { step, least, most: f32::MAX as f64 }
}

/// A field of [`SamplerSettings`].
macro_rules! sampling {
    ($group:literal, $field:ident, $form:expr, $words:literal) => {
        Setting {
            name: stringify!($field),
            group: $group,
            words: $words,
            form: $form,
            get: |s| s.sampling.$field.to_string(),
            set: |s, text| text.parse().map(|value| s.sampling.$field = value).is_ok(),
        }
    };
}

const NO_SEED: &str = "random";
const NO_LIMIT: &str = "no limit";
const NO_CTX: &str = "the model's";
const OFF: &str = "off";

/// Every setting, in the order of the form.
pub const SETTINGS: &[Setting] = &[
    sampling!("Randomness", temperature, real(0.05, 0.0), "Higher is bolder; 0 always takes the most likely token"),
    sampling!(
        "Randomness",
        dynatemp_range,
        real(0.1, 0.0),
        "Temperature moves by up to this with the model's doubt; 0 is off"
    ),
    sampling!("Randomness", dynatemp_exponent, real(0.1, 0.0), "How that doubt is shaped"),
    Setting {
        name: "seed",
        group: "Randomness",
        words: "The same seed and prompt give the same answer",
        form: Form::Optional { step: 1, none: NO_SEED },
        get: |s| optional(s.seed, NO_SEED),
        set: |s, text| parse_optional(text, NO_SEED).map(|value| s.seed = value).is_some(),
    },
    sampling!(
        "Choice of tokens",
        top_k,
        Form::Whole { step: 5, least: 0 },
        "Keep this many of the most likely tokens; 0 is off"
    ),
    sampling!(
        "Choice of tokens",
        top_p,
        FINE_SHARE,
        "Keep the most likely tokens up to this total probability; 1 is off"
    ),
    sampling!(
        "Choice of tokens",
        min_p,
        FINE_SHARE,
        "Keep tokens at least this many times as likely as the best; 0 is off"
    ),
    sampling!(
        "Choice of tokens",
        typical_p,
        FINE_SHARE,
        "Keep tokens of typical surprise up to this probability; 1 is off"
    ),
    sampling!(
        "Choice of tokens",
        top_n_sigma,
        real(0.5, -1.0),
        "Keep tokens within this many deviations of the best; 0 is off"
    ),
    sampling!(
        "Choice of tokens",
        min_keep,
        Form::Whole { step: 1, least: 0 },
        "Fewest tokens that each of these leaves"
    ),
    sampling!("XTC", xtc_probability, SHARE, "Chance that only the last of several likely tokens is kept; 0 is off"),
    sampling!("XTC", xtc_threshold, SHARE, "From which probability a token is likely; above 0.5 is off"),
    sampling!("Repetition", repeat_penalty, real(0.05, 0.05), "Makes recent tokens less likely; 1 is off"),
    sampling!(
        "Repetition",
        repeat_last_n,
        Form::Whole { step: 16, least: -1 },
        "Recent tokens that count; -1 is all, 0 is off"
    ),
    sampling!(
        "Repetition",
        frequency_penalty,
        real(0.1, f32::MIN as f64),
        "Subtracted for each occurrence of a recent token; 0 is off"
    ),
    sampling!(
        "Repetition",
        presence_penalty,
        real(0.1, f32::MIN as f64),
        "Subtracted when a token is recent at all; 0 is off"
    ),
    sampling!("DRY", dry_multiplier, real(0.1, 0.0), "Penalty for going on with a repeated sequence; 0 is off"),
    sampling!("DRY", dry_base, real(0.05, 1.0), "Growth of that penalty with each repeated token"),
    sampling!("DRY", dry_allowed_length, Form::Whole { step: 1, least: 0 }, "Shorter repeats are free"),
    sampling!(
        "DRY",
        dry_penalty_last_n,
        Form::Whole { step: 64, least: -1 },
        "Tokens looked at for repeats; -1 is all, 0 is off"
    ),
    Setting {
        name: "mirostat.tau",
        group: "Mirostat",
        words: "Steers to this surprise in bits, in place of the choices above",
        form: Form::OptionalReal { step: 0.5, first: 5.0, none: OFF },
        get: |s| optional(s.sampling.mirostat.map(|m| m.tau), OFF),
        set: |s, text| {
            let eta = s.sampling.mirostat.unwrap_or_default().eta;
            parse_optional(text, OFF).map(|tau| s.sampling.mirostat = tau.map(|tau| Mirostat { tau, eta })).is_some()
        },
    },
    Setting {
        name: "mirostat.eta",
        group: "Mirostat",
        words: "How fast it steers, 0 to 1; counts where tau is on",
        form: FINE_SHARE,
        get: |s| s.sampling.mirostat.unwrap_or_default().eta.to_string(),
        set: |s, text| match (text.parse(), &mut s.sampling.mirostat) {
            (Ok(eta), Some(mirostat)) => {
                mirostat.eta = eta;
                true
            }
            (eta, None) => eta.is_ok(),
            (Err(_), Some(_)) => false,
        },
    },
    Setting {
        name: "max_tokens",
        group: "Length",
        words: "Longest answer, in tokens",
        form: Form::Optional { step: 64, none: NO_LIMIT },
        get: |s| optional(s.max_tokens, NO_LIMIT),
        set: |s, text| parse_optional(text, NO_LIMIT).map(|value| s.max_tokens = value).is_some(),
    },
    Setting {
        name: "n_ctx",
        group: "When a model is loaded next",
        words: "Context in tokens; without a number the model's, at most 8192",
        form: Form::Optional { step: 1024, none: NO_CTX },
        get: |s| optional(s.n_ctx, NO_CTX),
        set: |s, text| parse_optional(text, NO_CTX).map(|value| s.n_ctx = value).is_some(),
    },
    Setting {
        name: "kv",
        group: "When a model is loaded next",
        words: "How the KV cache is stored; q8_0 takes half of f16",
        form: Form::Choice(&["f16", "q8_0", "f32"]),
        get: |s| s.kv.to_string(),
        set: |s, text| text.parse::<KvType>().map(|kv| s.kv = kv).is_ok(),
    },
];

fn optional<T: ToString>(value: Option<T>, none: &str) -> String {
    value.map_or_else(|| none.to_owned(), |value| value.to_string())
}

/// `None`: neither a number nor the word for none.
fn parse_optional<T: std::str::FromStr>(text: &str, none: &str) -> Option<Option<T>> {
    if text == none { Some(None) } else { text.parse().ok().map(Some) }
}

/// What is used where nobody says otherwise.
pub fn default_settings() -> ChatSettings {
    ChatSettings {
        sampling: SamplerSettings::default(),
        seed: None,
        system: None,
        max_tokens: None,
        n_ctx: None,
        kv: KvType::default(),
    }
}
