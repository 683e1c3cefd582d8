//! Small templates with what jinja2 3.1.6, set up as transformers does, makes of them.

use serde_json::Value as Json;

use super::render_with;

#[test]
fn small_templates_render_as_jinja2_renders_them() {
    let file: Json = serde_json::from_str(include_str!("jinja2.json")).unwrap();
    let variables = file["variables"].as_object().unwrap();
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() > 300);
    let mut failures = Vec::new();
    for case in cases {
        let (source, expected) = (case[0].as_str().unwrap(), case[1].as_str().unwrap());
        let got = render_with(source, &serde_json::json!([]), variables);
        if got.as_deref() != Ok(expected) {
            failures.push(format!("{source:?}\n  expected {expected:?}\n  got      {got:?}"));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
