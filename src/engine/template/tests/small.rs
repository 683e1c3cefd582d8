//! What the reference's templates do not show.

use serde_json::{Map, json};

use super::{noon, render, render_messages, render_with};
use crate::engine::template::{ChatTemplate, Given, Message, RenderInput, TemplateError};

#[test]
fn the_default_is_chatml() {
    let messages = Message::list_to_json(&[Message::new("system", "Be brief."), Message::new("user", "Hi")]);
    let mut input = RenderInput {
        messages: &messages,
        tools: Given::Null,
        documents: Given::Null,
        add_generation_prompt: true,
        kwargs: &Map::new(),
        now: noon(),
    };
    let template = ChatTemplate::default_for_missing().unwrap();
    let text = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n";
    assert_eq!(template.render(&input).unwrap(), format!("{text}<|im_start|>assistant\n"));
    input.add_generation_prompt = false;
    assert_eq!(template.render(&input).unwrap(), text);
}

#[test]
fn errors_name_the_line() {
    let error = ChatTemplate::new("a\n{% if %}\n", "", "").unwrap_err();
    assert!(matches!(error, TemplateError::Syntax { line: 2, .. }), "{error:?}");
    let error = render("a\n\n{{ raise_exception('no\nway') }}").unwrap_err();
    assert_eq!(error, TemplateError::Raised { line: 3, message: "no\nway".to_string() });
    assert_eq!(error.to_string(), "the chat template refuses this conversation (line 3): no way");
    let error = render("{% set a = [1] %}\n{{ 'x' + a }}").unwrap_err();
    assert!(matches!(error, TemplateError::Render { line: 2, .. }), "{error:?}");
    // The rewrite keeps lines where they are.
    let error = render("{% set a = [\n1,\n2] %}{% for x in\n a %}\n{{ nope() }}{% endfor %}").unwrap_err();
    assert!(matches!(error, TemplateError::Render { line: 5, .. }), "{error:?}");
}

#[test]
fn lists_cannot_be_changed() {
    let error = render("{% set x = [] %}{{ x.append(1) }}").unwrap_err();
    assert!(error.message().contains("`append` would change"), "{error}");
    let error = render("{{ messages[0].update({}) }}").unwrap_err();
    assert!(error.message().contains("`update` would change"), "{error}");
}

#[test]
fn generation_marks_nothing() {
    let source = "a\n{%- generation -%}\n {{ 1 }} \n{%- endgeneration %}\nb{%generation%}c{% endgeneration %}";
    assert_eq!(render(source).unwrap(), "a1bc");
}

#[test]
fn inputs_can_be_null_or_undefined_or_overridden() {
    let messages = json!([]);
    let tools = json!([{"name": "t"}]);
    let source = "{{ tools is defined }} {{ tools is none }} {{ tools|length if tools else 0 }} {{ bos_token }}";
    let template = ChatTemplate::new(source, "<s>", "</s>").unwrap();
    let render = |tools, kwargs: &Map<_, _>| {
        template.render(&RenderInput {
            messages: &messages,
            tools,
            documents: Given::Undefined,
            add_generation_prompt: false,
            kwargs,
            now: noon(),
        })
    };
    assert_eq!(render(Given::Null, &Map::new()).unwrap(), "True True 0 <s>");
    assert_eq!(render(Given::Undefined, &Map::new()).unwrap(), "False False 0 <s>");
    assert_eq!(render(Given::Value(&tools), &Map::new()).unwrap(), "True False 1 <s>");
    let kwargs = Map::from_iter([("bos_token".to_string(), json!("<b>"))]);
    assert_eq!(render(Given::Null, &kwargs).unwrap(), "True True 0 <b>");
    let kwargs = Map::from_iter([("tools".to_string(), json!(1))]);
    assert_eq!(render(Given::Null, &kwargs), Err(TemplateError::ReservedKwarg { name: "tools".to_string() }));
}

#[test]
fn messages_must_be_a_list_of_bounded_depth() {
    assert_eq!(render_messages("", &json!({})), Err(TemplateError::MessagesNotAList { found: "an object" }));
    let mut deep = json!([]);
    for _ in 0..500 {
        deep = json!([deep]);
    }
    assert_eq!(render_messages("", &deep), Err(TemplateError::InputTooDeep));
}

#[test]
fn time_is_what_the_caller_says() {
    let text = render("{{ strftime_now('%d %b %Y %H:%M|%Y-%m-%d|%z%Z|%%') }}").unwrap();
    assert_eq!(text, "15 Jan 2026 12:00|2026-01-15||%");
    assert!(matches!(render("{{ strftime_now('%Q') }}"), Err(TemplateError::Render { .. })));
}

#[test]
fn a_template_can_be_shared_between_threads() {
    fn assert_shared<T: Send + Sync>() {}
    assert_shared::<ChatTemplate>();
}

#[test]
fn braces_in_texts_and_odd_names_survive_the_rewrite() {
    let variables = json!({"set": 1, "e": "x"});
    let variables = variables.as_object().unwrap();
    let render = |source| render_with(source, &json!([]), variables);
    assert_eq!(render("{% set a = '%}' %}{{ a ~ '}}' }}").unwrap(), "%}}}");
    assert_eq!(render("{% set a %}x = {{ 1 }}{% endset %}{{ a }}").unwrap(), "x = 1");
    assert_eq!(render("{% for a, (b, c) in [(1, (2, 3))] %}{{ a * b * c + 1 }}{% endfor %}").unwrap(), "7");
    assert_eq!(
        render("{{ e ~ 'a' * 2 ~ 2 * 3 }}{{ 2 + 3 * 4 - 1 }}{{ 2 ** 3 * 2 }}{{ 7 // 2 * 2 }}").unwrap(),
        "xaa613166"
    );
    assert_eq!(render("{{ '<' + e|safe + '\"' * 2 }}").unwrap(), "&lt;x&#34;&#34;");
}
