//! Every golden template, byte for byte.

use serde_json::Value as Json;

use super::golden_dir;
use crate::engine::template::{ChatTemplate, Given, RenderInput, TemplateError};

fn read(path: &std::path::Path) -> Json {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn all_templates_render_as_the_reference() {
    let dir = golden_dir().join("templates");
    let shared = read(&dir.join("_conversations.json"));
    let (conversations, all_tools) =
        (&shared["conversations"], shared.get("TOOLS").or(shared["conversations"].get("TOOLS")).unwrap());
    let mut names: Vec<_> = std::fs::read_dir(&dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.file_name().unwrap().to_string_lossy().starts_with('_'))
        .collect();
    names.sort();
    assert_eq!(names.len(), 47);
    let (mut n_equal, mut n_raised, mut n_refused, mut n_lenient) = (0, 0, 0, 0);
    let mut failures = Vec::new();
    for path in names {
        let file = read(&path);
        let name = file["name"].as_str().unwrap();
        let text = |key: &str| file[key].as_str().unwrap_or_default();
        let now = chrono::NaiveDateTime::parse_from_str(text("strftime_now"), "%Y-%m-%d %H:%M:%S").unwrap();
        let template = match ChatTemplate::new(text("template"), text("bos_token"), text("eos_token")) {
            Ok(template) => template,
            Err(e) => {
                failures.push(format!("{name}: {e}"));
                continue;
            }
        };
        for (i, case) in file["cases"].as_array().unwrap().iter().enumerate() {
            let given = |key: &str| match &case[key] {
                Json::Null => Given::Null,
                Json::String(s) if s == "undefined" => Given::Undefined,
                Json::String(s) if s == "TOOLS" => Given::Value(all_tools),
                other => Given::Value(other),
            };
            let result = template.render(&RenderInput {
                messages: &conversations[case["conversation"].as_str().unwrap()],
                tools: given("tools"),
                documents: given("documents"),
                add_generation_prompt: case["add_generation_prompt"].as_bool().unwrap(),
                kwargs: case["kwargs"].as_object().unwrap(),
                now,
            });
            let label = format!("{name}, case {i} ({})", case["conversation"]);
            match (&result, case["expected"].as_str(), case["raises"].as_str()) {
                (Ok(text), Some(expected), _) if text == expected => n_equal += 1,
                (Ok(text), Some(expected), _) => {
                    failures.push(format!("{label}: {}", first_difference(expected, text)))
                }
                (Err(e), Some(_), _) => failures.push(format!("{label}: {e}")),
                (
                    Err(TemplateError::Raised { message, .. } | TemplateError::Render { message, .. }),
                    _,
                    Some(raises),
                ) if message == raises => {
                    n_raised += 1;
                }
                (other, _, Some(raises)) => failures.push(format!("{label}: not `{raises}` but {other:?}")),
                (Err(_), None, None) => n_refused += 1,
                (Ok(_), None, None) => n_lenient += 1,
            }
        }
    }
    println!("{n_equal} equal, {n_raised} raised, {n_refused} refused, {n_lenient} rendered where Python fails");
    assert!(
        failures.is_empty(),
        "{} failures; the first ones:\n{}",
        failures.len(),
        failures.iter().take(400).cloned().collect::<Vec<_>>().join("\n")
    );
    assert_eq!((n_equal, n_raised), (2703, 54));
}

/// The texts around the first character that differs.
fn first_difference(expected: &str, got: &str) -> String {
    let at = expected.chars().zip(got.chars()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| text.chars().skip(at.saturating_sub(30)).take(70).collect::<String>();
    format!("at character {at}: expected {:?}, got {:?}", around(expected), around(got))
}
