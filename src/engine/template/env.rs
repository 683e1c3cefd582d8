//! The environment a chat template runs in.

use std::sync::Arc;

use chrono::NaiveDateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value};

use super::error::Cause;
use super::limits::RECURSION;
use super::{counted, json, markup, methods, operators, python, source, time};

/// An environment as transformers sets jinja2 up, without a template and without fuel.
pub fn environment() -> Result<Environment<'static>, Error> {
    let mut env = Environment::new();
    // jinja2 drops one newline at the end of a template by default, and so does transformers.
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(false).build()?;
    env.set_syntax(syntax);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_undefined_behavior(UndefinedBehavior::Lenient);
    env.set_recursion_limit(RECURSION);
    env.set_debug(false);
    env.set_unknown_method_callback(methods::call);
    env.set_formatter(|out, state, value| {
        match value.as_str() {
            Some(text) => out.write_str(text)?,
            None => out.write_str(&python::str_of(state, value)?)?,
        }
        Ok(())
    });
    env.add_filter("tojson", json::tojson);
    env.add_filter("string", string);
    env.add_filter("pprint", python::repr_of);
    env.add_filter(operators::ADD_FILTER, markup::add);
    env.add_filter("escape", markup::escape);
    env.add_filter("e", markup::escape);
    env.add_filter("forceescape", markup::force_escape);
    env.add_filter(operators::MULTIPLY_FILTER, counted::multiply);
    env.add_filter(source::KEEP_FILTER, counted::keep);
    env.add_filter(source::KEEP_ATTRIBUTE_FILTER, counted::keep_attribute);
    env.add_filter("int", int);
    env.add_filter("float", float);
    env.add_test("iterable", is_iterable);
    env.add_test("sequence", is_sequence);
    env.add_function("raise_exception", raise_exception);
    // `debug` prints everything it can reach; jinja2 has no such function.
    env.remove_global("debug");
    Ok(env)
}

/// `strftime_now`, which reads the time of the rendering.
pub fn strftime_now(now: NaiveDateTime) -> Value {
    Value::from_function(move |format: Arc<str>| time::strftime(now, &format))
}

fn string(state: &State, value: &Value) -> Result<Value, Error> {
    match value.as_str() {
        Some(_) => Ok(value.clone()),
        None => python::str_of(state, value).map(Value::from),
    }
}

/// Whether Python's `iter(value)` succeeds. Undefined values iterate as empty; `none` does not iterate.
fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// Whether the value has a length and items: texts and dicts do too.
fn is_sequence(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Undefined | ValueKind::String | ValueKind::Seq | ValueKind::Map => true,
        ValueKind::Iterable => value.len().is_some(),
        _ => false,
    }
}

/// `int(default=0)`: what is no number gives the default, as does a text that is none.
fn int(value: &Value, default: Option<Value>) -> Value {
    let fallback = || default.unwrap_or_else(|| Value::from(0));
    let float = match value.as_str() {
        Some(text) => match text.trim().parse::<i64>() {
            Ok(number) => return Value::from(number),
            Err(_) => text.trim().parse::<f64>().ok(),
        },
        None if value.is_integer() => return value.clone(),
        None => number_or_bool(value),
    };
    match float {
        // Such a number is whole and fits, so the conversion is exact.
        Some(number) if number.is_finite() && number.abs() < 9e18 => Value::from(number.trunc() as i64),
        _ => fallback(),
    }
}

/// `float(default=0.0)`.
fn float(value: &Value, default: Option<Value>) -> Value {
    let number = match value.as_str() {
        Some(text) => text.trim().parse::<f64>().ok(),
        None => number_or_bool(value),
    };
    number.map_or_else(|| default.unwrap_or_else(|| Value::from(0.0)), Value::from)
}

fn number_or_bool(value: &Value) -> Option<f64> {
    match value.kind() {
        ValueKind::Number => f64::try_from(value.clone()).ok(),
        ValueKind::Bool => Some(if value.is_true() { 1.0 } else { 0.0 }),
        _ => None,
    }
}

fn raise_exception(state: &State, message: &Value) -> Result<Value, Error> {
    let message = python::str_of(state, message)?;
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Cause::Raised(message)))
}
