//! Templates that try to hang, to fill the memory or to crash.

use std::time::{Duration, Instant};

use super::{render, render_messages};
use crate::engine::template::{ChatTemplate, TemplateError};

/// Renders and checks that it took neither long nor more than it may write.
fn ends_with(source: &str) -> TemplateError {
    let started = Instant::now();
    let result = render(source);
    let elapsed = started.elapsed();
    // Generous, for a busy machine and a build without optimisation: without limits these run for hours.
    assert!(elapsed < Duration::from_secs(20), "{elapsed:?} for {source:.80}");
    println!("{elapsed:>10.1?} {:.60} -> {result:.120?}", source);
    let error = result.expect_err(source);
    assert!(!error.to_string().contains('\n'), "{error}");
    error
}

#[test]
fn endless_work_is_stopped() {
    for source in [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ 'x' * 1000 }}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(99999) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(99999) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(99999) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x|length }}",
        "{{ 'x' * 1000000000000 }}",
        "{{ [1] * 1000000000000 }}",
        "{{ ('x' * 100000) * 100000 }}",
        "{{ [[1] * 99999] * 99999 ~ '' }}",
        "{% set x = range(99999)|list %}{{ [x] * 99999 ~ '' }}",
        "{% set x = range(99999)|list %}{{ [x] * 99999 == [x|list] * 99999 }}",
        "{% for x in [[1] * 9999] * 9 %}{% for y in [[x] * 9999] * 9 %}{{ [y] * 99 ~ '' }}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(99999) %}{% set ns.x = ns.x|replace('a', 'aaaaaaaaaa') %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(99999) %}{% set ns.x = ns.x.replace('a', 'aaaaaaaaaa') %}{% endfor %}",
        "{{ 'a'.center(1000000000000) }}",
        "{{ '%1000000000d'|format(1) }}",
        "{{ '{:>1000000000}'.format(1) }}",
        "{{ ('a' * 1000000).join(('b' * 100000)|list) }}",
        "{{ range(10000000000)|list|length }}",
        "{% set x = range(99999)|list %}{% for i in range(99999) %}{{ x|sort|length }}{% endfor %}",
        "{% set x = range(99999)|list %}{% for i in range(99999) %}{{ x|tojson|length }}{% endfor %}",
        "{% set x = range(99999)|list %}{% for i in range(99999) %}{{ x|string|length }}{% endfor %}",
        "{% set x = range(99999)|list %}{% for i in range(99999) %}{{ x.index(-1) if false else x.count(-1) }}{% endfor %}",
        "{% set x = 'ab' * 500000 %}{% for i in range(99999) %}{{ x.count('ab') ~ x.find('zz') }}{% endfor %}",
        "{% set x = 'ab ' * 500000 %}{% for i in range(99999) %}{{ x.split()|length }}{% endfor %}",
        "{% set x = 'ab ' * 500000 %}{% for i in range(99999) %}{{ x.upper().strip('q')|length }}{% endfor %}",
        "{% set x = 'ab ' * 500000 %}{% for i in range(99999) %}{% if x == x ~ '' %}{% endif %}{% endfor %}",
        "{% set x = 'a' * 500000 %}{% set y = x ~ 'b' %}{% for i in range(99999) %}{% if y in x %}{% endif %}{% endfor %}",
        "{% set x = range(99999)|list %}{% set y = range(99999)|list %}{% for i in range(99999) %}{% if x == y %}{% endif %}{% endfor %}",
        "{% for i in range(99999999) %}{{ messages|tojson(indent=60) }}{% endfor %}",
        "{% set x = 'a' * 900000 %}{% for i in range(99999) %}{% if x.startswith(x) and x.endswith(x) and x.isalpha() %}{% endif %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(999) %}{{ strftime_now('%Y-%m-%d %H:%M:%S' * 50) }}{% endfor %}{% endfor %}",
        "{{ messages|map('tojson')|join('x' * 10000000) * 10000000 }}",
        "{% for i in range(9999999) recursive %}{{ loop(range(9999999)) }}{% endfor %}",
    ] {
        let error = ends_with(source);
        assert!(
            matches!(
                error,
                TemplateError::TooMuchWork { .. } | TemplateError::OutputTooLong { .. } | TemplateError::Render { .. }
            ),
            "{source}: {error:?}"
        );
    }
}

#[test]
fn values_that_hold_themselves_many_times_are_stopped() {
    for source in [
        "{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        "{% macro m(x, n) %}{{ m([x, x], n - 1) if n > 0 else x }}{% endmacro %}{{ m([1], 30) }}",
        "{% macro m(x, n) %}{{ m([x, x], n - 1) if n > 0 else x|tojson }}{% endmacro %}{{ m([1], 30) }}",
        "{% macro m(x, n) %}{{ m([x, x], n - 1) if n > 0 else x ~ '' }}{% endmacro %}{{ m([1], 30) }}",
        "{% macro m(x, n) %}{{ m([x, x], n - 1) if n > 0 else x|string }}{% endmacro %}{{ m([1], 30) }}",
        "{% macro m(x, n) %}{{ m([x, x], n - 1) if n > 0 else [x]|join('-') }}{% endmacro %}{{ m([1], 30) }}",
        "{% macro m(x, y, n) %}{{ m([x, x], [y, y], n - 1) if n > 0 else x == y }}{% endmacro %}{{ m([1], [1], 30) }}",
        "{% macro m(x, y, n) %}{{ m([x, x], [y, y], n - 1) if n > 0 else x in [y] }}{% endmacro %}{{ m([1], [1], 30) }}",
        "{% macro m(x, y, n) %}{{ m([x, x], [y, y], n - 1) if n > 0 else [x, y]|unique|list|length }}{% endmacro %}{{ m([1], [1], 30) }}",
        "{% for x in [[1]] recursive %}{{ loop([[x, x]]) if loop.depth < 40 else x ~ '' }}{% endfor %}",
        "{% macro m(n) %}{{ caller([[1], [1]], n) }}{% endmacro %}{% call(x, n) m(30) %}{{ x ~ '' }}{% endcall %}",
        &format!("{{% set x = [1] %}}{}{{{{ x ~ '' }}}}", "{% set x = (x, x) %}".repeat(90)),
        &format!(
            "{{% set x = [1] %}}{}{{{{ x ~ '' }}}}{}",
            "{% with x = [x, x] %}".repeat(90),
            "{% endwith %}".repeat(90)
        ),
        &format!(
            "{{% set x = [1] %}}{}{{{{ x ~ '' }}}}{}",
            "{% for x in [[x, x]] %}".repeat(90),
            "{% endfor %}".repeat(90)
        ),
        &format!(
            "{{% set a0 = [1] %}}{{% with {} %}}{{{{ a60 ~ '' }}}}{{% endwith %}}",
            (1..=60).map(|i| format!("a{i} = [a{0}, a{0}]", i - 1)).collect::<Vec<_>>().join(", ")
        ),
        "{% macro m(x, n) %}{{ m([x, x], n - 1) if n > 0 else '%s'|format(x) }}{% endmacro %}{{ m([1], 30) }}",
        "{% macro m(x, n) %}{{ m([x, x], n - 1) if n > 0 else '{}'.format(x) }}{% endmacro %}{{ m([1], 30) }}",
        "{% macro m(x, n) %}{{ m([x, x], n - 1) if n > 0 else x|pprint }}{% endmacro %}{{ m([1], 30) }}",
        "{% macro m(x, n) %}{{ m([x, x], n - 1) if n > 0 else raise_exception(x) }}{% endmacro %}{{ m([1], 30) }}",
    ] {
        // A few of these end by other limits, or look at so little that they succeed.
        let started = Instant::now();
        let result = render(source);
        println!("{:>10.1?} {source:.80} -> {result:.100?}", started.elapsed());
        assert!(started.elapsed() < Duration::from_secs(20), "{source:.80}");
    }
}

#[test]
fn deep_nesting_is_stopped() {
    for source in [
        "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x={}) %}{% for i in range(99999) %}{% set ns.x = {'a': ns.x} %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}",
        "{% set ns = namespace() %}{% set ns.me = [{'a': ns}] %}{{ ns ~ '' }}",
        "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}",
        "{% macro a(n) %}{{ b(n) }}{% endmacro %}{% macro b(n) %}{{ a(n) }}{% endmacro %}{{ a(0) }}",
        "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
        &format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000)),
        &format!("{{{{ {}1{} }}}}", "[".repeat(900), "]".repeat(900)),
        &"{% if true %}".repeat(20_000),
        &format!("{{{{ []{}|tojson }}}}", "|batch(1)|list".repeat(300)),
        &format!("{{{{ [1]{}|tojson }}}}", "|zip".repeat(900)),
    ] {
        ends_with(source);
    }
}

#[test]
fn long_chains_do_no_harm() {
    // These may render or fail, but must come back.
    for source in [
        "{% set ns = namespace(x=range(9)|list) %}{% for i in range(99999) %}{% set ns.x = ns.x[0:] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=range(9)) %}{% for i in range(99999) %}{% set ns.x = ns.x|reverse %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=range(9)) %}{% for i in range(99999) %}{% set ns.x = ns.x[0:] %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x={}) %}{% for i in range(99999) %}{% set ns.x = [ns.x]|chain({})|list %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = ns.x|chain([i]) %}{% endfor %}{{ ns.x|length }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(99999) %}{% set ns.x = ns.x + [i] %}{% endfor %}{{ ns.x|length }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = ns.x|zip %}{% endfor %}{{ ns.x|list }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = ns.x|map('string') %}{% endfor %}{{ ns.x|list }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = ns.x|batch(1) %}{% endfor %}{{ ns.x|list }}",
        "{% set ns = namespace(x={}) %}{% for i in range(9999) %}{% set ns.x = dict(ns.x, a=ns.x) %}{% endfor %}{{ ns.x|list }}",
        "{% set ns = namespace(x={}) %}{% for i in range(9999) %}{% set ns.x = namespace(a=ns.x) %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace() %}{% set ns.f = namespace %}{% set ns.g = ns.f(a=ns) %}{{ ns }}",
        "{% set ns = namespace(f=1) %}{% macro m() %}{% endmacro %}{% set ns.f = m %}{{ ns }}{{ ns.f }}",
        &format!("{{{{ {}1 }}}}", "not ".repeat(1_900)),
        &format!("{{{{ {}1 }}}}", "-".repeat(1_900)),
        &format!("{{{{ 1{} }}}}", "+1".repeat(900)),
        &format!("{{{{ 1{} }}}}", "*1".repeat(900)),
        &format!("{{{{ 'a'|safe{} }}}}", "+'<'".repeat(900)),
        &format!("{{{{ x{} }}}}", ".a".repeat(900)),
        &format!("{{{{ 1{} }}}}", " if 1 else 1".repeat(400)),
    ] {
        let started = Instant::now();
        let result = render(source);
        println!("{:>10.1?} {source:.80} -> {result:.100?}", started.elapsed());
        assert!(started.elapsed() < Duration::from_secs(20), "{source:.80}");
    }
}

#[test]
fn a_long_source_is_refused() {
    let error = ChatTemplate::new(&"x".repeat(600_000), "", "").unwrap_err();
    assert_eq!(error, TemplateError::SourceTooLong { source_bytes: 600_000 });
}

#[test]
fn long_conversations_have_room() {
    // Every message is looked at once for every message: what some templates do.
    let source = "{% for m in messages %}{% set ns = namespace(last=0) %}{% for n in messages %}\
                  {% if n.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}\
                  {{ m.content ~ ns.last }}{% endfor %}";
    let messages: Vec<_> = (0..600)
        .map(|i| serde_json::json!({"role": (["user", "assistant"][i % 2]), "content": "word ".repeat(200)}))
        .collect();
    let text = render_messages(source, &serde_json::Value::from(messages)).unwrap();
    assert!(text.len() > 600_000);
}

/// Whatever the text is, loading and rendering it ends with a text or an error.
mod any_text {
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ends(pieces in prop::collection::vec(prop_oneof![
            Just("{{"), Just("}}"), Just("{%"), Just("%}"), Just("{#"), Just("#}"), Just("-"), Just("'"), Just("\""), Just("\\"),
            Just(" set x = "), Just(" set ns.a = "), Just("|safe"), Just(" + "), Just("("), Just(")"), Just("["), Just("]"), Just("{"), Just("}"),
            Just(" if x "), Just(" endif "), Just(" for x in messages "), Just(" endfor "), Just(" raw "), Just(" endraw "),
            Just(" generation "), Just(" endgeneration "), Just("messages"), Just("é"), Just("\n"), Just("x"), Just(".a"), Just("=="), Just(" not "), Just(" is "), Just("1"), Just(","), Just(":"),
        ], 0..40)) {
            let _ = super::render(&pieces.concat());
        }
    }
}
