//! Tests of the whole renderer.

mod golden;
mod hostile;
mod jinja2;
mod small;

use std::path::PathBuf;

use serde_json::Value as Json;

use super::{ChatTemplate, Given, RenderInput, TemplateError};

/// The golden data: `LAYERCAKE_GOLDEN` when set, else beside the checkout.
fn golden_dir() -> PathBuf {
    match std::env::var_os("LAYERCAKE_GOLDEN") {
        Some(path) => PathBuf::from(path),
        None => std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/golden"),
    }
}

fn noon() -> chrono::NaiveDateTime {
    chrono::NaiveDate::from_ymd_opt(2026, 1, 15).unwrap().and_hms_opt(12, 0, 0).unwrap()
}

fn render_with(source: &str, messages: &Json, kwargs: &serde_json::Map<String, Json>) -> Result<String, TemplateError> {
    ChatTemplate::new(source, "<s>", "</s>")?.render(&RenderInput {
        messages,
        tools: Given::Null,
        documents: Given::Null,
        add_generation_prompt: true,
        kwargs,
        now: noon(),
    })
}

fn render_messages(source: &str, messages: &Json) -> Result<String, TemplateError> {
    render_with(source, messages, &serde_json::Map::new())
}

fn render(source: &str) -> Result<String, TemplateError> {
    render_messages(source, &serde_json::json!([{"role": "user", "content": "hi"}]))
}
