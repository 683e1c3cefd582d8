//! Golden vectors and properties.

use proptest::prelude::*;
use serde_json::Value as Json;

use super::candidates::Candidates;
use super::rng::Random;
use super::step::Scratch;
use super::*;

const TOLERANCE: f32 = 1e-5;

/// The golden data: `LAYERCAKE_GOLDEN` when set, else beside the checkout.
fn golden_dir() -> std::path::PathBuf {
    match std::env::var_os("LAYERCAKE_GOLDEN") {
        Some(path) => path.into(),
        None => std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/golden"),
    }
}

fn golden() -> Json {
    let path = golden_dir().join("samplers/samplers.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap()
}

fn floats(json: &Json) -> Vec<f32> {
    json.as_array().unwrap().iter().map(|v| v.as_f64().map_or(f32::NEG_INFINITY, |v| v as f32)).collect()
}

fn ids(json: &Json) -> Vec<u32> {
    json.as_array().unwrap().iter().map(|v| v.as_u64().unwrap() as u32).collect()
}

/// A golden step, or the surprise bound of mirostat, or nothing for greedy.
enum GoldenStep {
    Step(Step),
    Mirostat { mu: f32 },
    Greedy,
}

fn golden_step(json: &Json, breakers: &[Vec<u32>]) -> GoldenStep {
    let args = &json["args"];
    let float = |key: &str| args[key].as_f64().unwrap_or_else(|| panic!("{json}: {key}")) as f32;
    let int = |key: &str| args[key].as_i64().unwrap_or_else(|| panic!("{json}: {key}"));
    // At this level negative counts mean off.
    let count = |key: &str| usize::try_from(int(key)).unwrap_or(0);
    GoldenStep::Step(match json["name"].as_str().unwrap() {
        "top_k" => Step::TopK { k: count("k") },
        "top_p" => Step::TopP { p: float("p"), min_keep: count("min_keep") },
        "min_p" => Step::MinP { p: float("p"), min_keep: count("min_keep") },
        "typical" => Step::Typical { p: float("p"), min_keep: count("min_keep") },
        "temp" => Step::Temperature { temperature: float("t"), range: 0.0, exponent: 1.0 },
        "temp_ext" => {
            Step::Temperature { temperature: float("t"), range: float("delta(range)"), exponent: float("exponent") }
        }
        "top_n_sigma" => Step::TopNSigma { n: float("n") },
        "xtc" => {
            Step::Xtc { probability: float("probability"), threshold: float("threshold"), min_keep: count("min_keep") }
        }
        "penalties" => Step::Penalties(Penalties {
            last_n: count("last_n"),
            repeat: float("repeat"),
            frequency: float("freq"),
            presence: float("present"),
        }),
        "dry" => {
            Step::Dry(Dry::new(float("multiplier"), float("base"), count("allowed_length"), count("last_n"), breakers))
        }
        "mirostat_v2" => return GoldenStep::Mirostat { mu: 2.0 * float("tau") },
        "greedy" => return GoldenStep::Greedy,
        other => panic!("unknown golden sampler {other}"),
    })
}

fn close(a: f32, b: f32) -> bool {
    a == b || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()).max(1.0)
}

#[test]
fn every_golden_case_is_met() {
    let golden = golden();
    let newline = golden["newline_token"].as_u64().unwrap() as u32;
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 489);
    let (mut failures, mut n_by_chance) = (Vec::new(), 0);
    for (n_case, case) in cases.iter().enumerate() {
        let input = floats(&golden["logits"][case["logits"].as_str().unwrap()]);
        let history = ids(&golden["histories"][case["history"].as_str().unwrap()]);
        let breakers: Vec<Vec<u32>> = case["breakers"]
            .as_array()
            .unwrap()
            .iter()
            .map(|text| {
                assert_eq!(text, "\n");
                vec![newline]
            })
            .collect();
        let mut logits = input.clone();
        let mut candidates = Candidates::default();
        candidates.fill(&logits);
        for step in case["chain"].as_array().unwrap() {
            match golden_step(step, &breakers) {
                GoldenStep::Step(step) if step.is_on_logits() => {
                    step.apply_to_logits(&mut logits, &history, &mut Scratch::default());
                    candidates.fill(&logits);
                }
                GoldenStep::Step(step) => step.apply(&mut candidates, &mut Random::new(1)),
                GoldenStep::Mirostat { mu } => truncate::max_surprise(&mut candidates, mu),
                GoldenStep::Greedy => {
                    let sampled = Sampler::new(&SamplerSettings::greedy(), &[]).unwrap().sample(&input, &history);
                    assert_eq!(u64::from(sampled.unwrap()), case["selected"].as_u64().unwrap());
                }
            }
        }
        let has_p = !case["p"].is_null();
        let p_left = if has_p { floats(&case["p"]) } else { Vec::new() };
        let mut left: Vec<Candidate> = candidates.as_slice().to_vec();
        candidates.softmax();
        let softmax_of = |id: u32| candidates.as_slice().iter().find(|c| c.id == id).unwrap().p;
        let mut expected: Vec<(u32, f32, f32, f32)> = ids(&case["ids"])
            .into_iter()
            .zip(floats(&case["out_logits"]))
            .zip(floats(&case["softmax"]))
            .enumerate()
            .map(|(i, ((id, logit), softmax))| (id, logit, softmax, if has_p { p_left[i] } else { 0.0 }))
            .collect();
        let label = format!("case {n_case}: {} {} {}", case["logits"], case["chain"], case["history"]);
        if candidates.is_sorted() != case["sorted"].as_bool().unwrap() && case["chain"][0]["name"] != "min_p" {
            failures.push(format!("{label}: sorted is {}", candidates.is_sorted()));
        }
        // The reference's entropy is NaN when a token is impossible (0 times infinity), and sorting by NaN leaves an
        // order of chance: it keeps impossible tokens. `typical_ignores_impossible_tokens` says what holds here.
        if case["chain"].as_array().unwrap().len() == 1
            && case["chain"][0]["name"] == "typical"
            && !input.iter().all(|l| l.is_finite())
        {
            assert!(expected.iter().any(|e| e.1 == f32::NEG_INFINITY));
            n_by_chance += usize::from(case["chain"][0]["args"]["p"].as_f64().unwrap() < 1.0);
            continue;
        }
        if case["sorted"].as_bool().unwrap() {
            assert!(left.is_sorted_by(|a, b| a.logit >= b.logit), "{label}");
        }
        left.sort_by(|a, b| b.logit.total_cmp(&a.logit).then(a.id.cmp(&b.id)));
        expected.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        if left.len() != expected.len() {
            failures.push(format!("{label}: {} candidates instead of {}", left.len(), expected.len()));
            continue;
        }
        // Which of several tokens with equal logits comes first is not a property of the method, so ids are compared
        // where the logit is unique, and the values everywhere.
        let is_tied = |id: u32| input.iter().filter(|l| **l == input[id as usize]).count() > 1;
        for (got, want) in left.iter().zip(&expected) {
            if (got.id != want.0 && !(is_tied(got.id) && is_tied(want.0)))
                || !close(got.logit, want.1)
                || !close(softmax_of(got.id), want.2)
                || (has_p && !close(got.p, want.3))
            {
                failures.push(format!("{label}: {got:?} {} instead of {want:?}", softmax_of(got.id)));
                break;
            }
        }
    }
    assert_eq!(n_by_chance, 6);
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn typical_ignores_impossible_tokens() {
    let input = floats(&golden()["logits"]["neginf"]);
    let possible: Vec<f32> = input.iter().copied().filter(|l| l.is_finite()).collect();
    for p in [0.2, 0.5, 0.95] {
        for min_keep in [1, 5] {
            let logits_left = |logits: &[f32]| {
                let mut candidates = Candidates::default();
                candidates.fill(logits);
                truncate::typical(&mut candidates, p, min_keep);
                candidates.as_slice().iter().map(|c| c.logit).collect::<Vec<_>>()
            };
            assert_eq!(logits_left(&input), logits_left(&possible));
        }
    }
}

/// A deterministic vector without equal values: a permutation, scaled.
fn many_logits(n: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * 7919) % n) as f32 / n as f32 * 30.0 - 15.0).collect()
}

#[test]
fn top_k_in_one_pass_equals_top_k_after_a_fill() {
    let logits = many_logits(100_003);
    for k in [1, 2, 40, 1000, 60_000, 200_000] {
        let (mut one, mut two) = (Candidates::default(), Candidates::default());
        one.fill_top_k(&logits, k);
        two.fill(&logits);
        two.top_k(k);
        assert_eq!(one.as_slice(), two.as_slice(), "k = {k}");
    }
    // All equal: the lowest ids win.
    let mut ties = Candidates::default();
    ties.fill_top_k(&vec![1.5; 5000], 3);
    assert_eq!(ties.as_slice().iter().map(|c| c.id).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn top_p_of_a_flat_vector_keeps_the_share() {
    let mut candidates = Candidates::default();
    candidates.fill(&vec![0.0; 50_000]);
    truncate::top_p(&mut candidates, 0.5, 1);
    assert!((24_000..=26_000).contains(&candidates.as_slice().len()), "{}", candidates.as_slice().len());
}

#[test]
fn xtc_keeps_the_least_likely_of_the_likely() {
    let probabilities = [0.4f32, 0.3, 0.2, 0.1];
    let logits: Vec<f32> = probabilities.iter().map(|p| p.ln()).collect();
    let kept = |probability: f32, min_keep: usize| {
        let mut candidates = Candidates::default();
        candidates.fill(&logits);
        let step = Step::Xtc { probability, threshold: 0.15, min_keep };
        step.apply(&mut candidates, &mut Random::new(3));
        candidates.as_slice().iter().map(|c| c.id).collect::<Vec<_>>()
    };
    assert_eq!(kept(1.0, 1), [2, 3]);
    assert_eq!(kept(1.0, 3), [0, 1, 2, 3]);
    assert_eq!(kept(0.0, 1), [0, 1, 2, 3]);
}

#[test]
fn mirostat_moves_its_bound_towards_the_target() {
    let settings = SamplerSettings {
        mirostat: Some(Mirostat { tau: 2.0, eta: 0.1 }),
        temperature: 1.0,
        seed: 5,
        ..SamplerSettings::default()
    };
    let logits: Vec<f32> = (0..4000).map(|i| -((i + 1) as f32).ln()).collect();
    let mut sampler = Sampler::new(&settings, &[]).unwrap();
    let mut candidates = Candidates::default();
    candidates.fill(&logits);
    candidates.softmax();
    let all: Vec<f32> = candidates.as_slice().iter().map(|c| c.p).collect();
    let n = 2000;
    let mean = |sampler: &mut Sampler| {
        (0..n).map(|_| f64::from(-all[sampler.sample(&logits, &[]).unwrap() as usize].log2())).sum::<f64>()
            / f64::from(n)
    };
    let steered = mean(&mut sampler);
    let free = mean(
        &mut Sampler::new(
            &SamplerSettings { top_k: 0, top_p: 1.0, min_p: 0.0, temperature: 1.0, ..SamplerSettings::default() },
            &[],
        )
        .unwrap(),
    );
    assert!(free > 6.0 && steered < 5.0, "free {free}, steered {steered}");
}

#[test]
fn a_longer_breaker_ends_the_stretch() {
    // 7 8 is the breaker; 1 2 3 occurs twice, with the breaker right before the second 2 3.
    let history = [1, 2, 3, 4, 7, 8, 2, 3];
    let penalised = |breakers: &[Vec<u32>]| {
        let mut logits = vec![0.0f32; 10];
        Dry::new(1.0, 2.0, 2, 64, breakers).apply(&mut logits, &history, &mut Default::default());
        logits.iter().enumerate().filter(|(_, l)| **l < 0.0).map(|(i, _)| i).collect::<Vec<_>>()
    };
    assert_eq!(penalised(&[]), [4]);
    assert_eq!(penalised(&[vec![7, 8]]), [4]);
    assert_eq!(penalised(&[vec![7, 8, 2]]), [] as [usize; 0]);
    assert_eq!(penalised(&[vec![4]]), [] as [usize; 0]);
}

#[test]
fn breaker_texts_become_token_sequences() {
    let vocabulary: [(u32, &[u8]); 5] = [(0, b"a"), (1, b"x\n\ny"), (2, b"end\n"), (3, b"\n"), (4, "é".as_bytes())];
    let sequences = breaker_sequences(&["\n\n".to_string(), String::new()], vocabulary.into_iter(), |rest| {
        assert_eq!(rest, "\n");
        vec![3]
    });
    assert_eq!(sequences, [vec![1], vec![2, 3], vec![3, 3]]);
}

#[test]
fn settings_out_of_range_are_named() {
    let error = |settings: SamplerSettings| Sampler::new(&settings, &[]).unwrap_err().to_string();
    let default = SamplerSettings::default();
    assert_eq!(
        error(SamplerSettings { top_p: 1.5, ..default.clone() }),
        "top_p is 1.5, but it must be between 0 and 1"
    );
    assert_eq!(
        error(SamplerSettings { temperature: f32::NAN, ..default.clone() }),
        "temperature is NaN, but it must be 0 or more"
    );
    assert_eq!(
        error(SamplerSettings { repeat_penalty: 0.0, ..default }),
        "repeat_penalty is 0, but it must be more than 0"
    );
}

#[test]
fn settings_read_from_part_of_a_file() {
    let settings: SamplerSettings =
        toml::from_str("temperature = 0.2\ndry_sequence_breakers = []\n[mirostat]\ntau = 3.0").unwrap();
    assert_eq!(settings.temperature, 0.2);
    assert_eq!(settings.top_k, SamplerSettings::default().top_k);
    assert_eq!(settings.mirostat, Some(Mirostat { tau: 3.0, eta: 0.1 }));
    let back: SamplerSettings = toml::from_str(&toml::to_string(&settings).unwrap()).unwrap();
    assert_eq!(back, settings);
    assert!(toml::from_str::<SamplerSettings>("temprature = 0.2").is_err());
}

/// The stream is part of the promise "same seed, same text": these values must never change.
#[test]
fn the_stream_of_a_seed_is_fixed() {
    let mut random = Random::new(42);
    let drawn: Vec<u64> = (0..3).map(|_| (random.unit() * 1e9) as u64).collect();
    assert_eq!(drawn, [681_896_192, 950_275_407, 427_516_402]);
}

fn any_logit() -> impl Strategy<Value = f32> {
    prop_oneof![
        8 => -30.0f32..30.0,
        1 => Just(f32::NEG_INFINITY),
        1 => Just(f32::NAN),
        1 => Just(f32::INFINITY),
        1 => Just(3.4e38f32),
    ]
}

prop_compose! {
    fn any_settings()(
        (seed, temperature, dynatemp_range) in (any::<u64>(), prop_oneof![4 => 0.0f32..2.0, 1 => Just(1e-40f32)], prop_oneof![Just(0.0f32), 0.0f32..1.0]),
        (top_k, top_p, min_p, typical_p) in (0u32..60, 0.0f32..=1.0, 0.0f32..=1.0, 0.0f32..=1.0),
        (top_n_sigma, xtc_probability, min_keep) in (0.0f32..3.0, 0.0f32..=1.0, 0u32..5),
        (repeat_penalty, frequency_penalty, presence_penalty) in (0.5f32..2.0, -1.0f32..1.0, -1.0f32..1.0),
        (repeat_last_n, dry_multiplier, dry_penalty_last_n) in (-1i32..80, 0.0f32..2.0, -1i32..80),
        mirostat in prop_oneof![3 => Just(None), 1 => (0.1f32..8.0, 0.0f32..=1.0).prop_map(|(tau, eta)| Some(Mirostat { tau, eta }))],
    ) -> SamplerSettings {
        SamplerSettings {
            seed, temperature, dynatemp_range, top_k, top_p, min_p, typical_p, top_n_sigma, xtc_probability, min_keep,
            repeat_penalty, frequency_penalty, presence_penalty, repeat_last_n, dry_multiplier, dry_penalty_last_n,
            mirostat, ..SamplerSettings::default()
        }
    }
}

/// Ids chosen one after another, each with the logits turned by one, and the history they make.
fn run(settings: &SamplerSettings, logits: &[f32], prompt: &[u32]) -> Vec<Result<u32, SamplerError>> {
    let mut sampler = Sampler::new(settings, &[vec![3], vec![5, 6]]).unwrap();
    let (mut history, mut logits, mut chosen) = (prompt.to_vec(), logits.to_vec(), Vec::new());
    for _ in 0..8 {
        let id = sampler.sample(&logits, &history);
        if let Ok(id) = id {
            assert!(logits[id as usize].is_finite(), "id {id} has logit {}", logits[id as usize]);
            history.push(id);
        } else {
            assert!(logits.iter().all(|l| !l.is_finite()));
        }
        chosen.push(id);
        let by = logits.len().min(1);
        logits.rotate_left(by);
    }
    chosen
}

proptest! {
    #[test]
    fn a_chosen_token_is_possible_and_a_seed_repeats(
        settings in any_settings(),
        logits in prop::collection::vec(any_logit(), 0..200),
        history in prop::collection::vec(0u32..220, 0..120),
    ) {
        prop_assert_eq!(run(&settings, &logits, &history), run(&settings, &logits, &history));
    }

    #[test]
    fn temperature_0_and_top_k_1_are_greedy(
        settings in any_settings(),
        logits in prop::collection::vec(-30.0f32..30.0, 1..200),
    ) {
        let plain = SamplerSettings {
            repeat_last_n: 0, dry_multiplier: 0.0, dynatemp_range: 0.0, mirostat: None, top_n_sigma: 0.0, ..settings
        };
        let best = (0..logits.len()).rev().max_by(|&a, &b| logits[a].total_cmp(&logits[b])).unwrap() as u32;
        let first = |settings: SamplerSettings| run(&settings, &logits, &[])[0].clone();
        prop_assert_eq!(first(SamplerSettings { temperature: 0.0, ..plain.clone() }), Ok(best));
        prop_assert_eq!(first(SamplerSettings { top_k: 1, ..plain }), Ok(best));
    }
}
