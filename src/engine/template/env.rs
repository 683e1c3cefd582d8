//! The environment a chat template runs in.

use std::sync::Arc;

use chrono::NaiveDateTime;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, UndefinedBehavior, Value};

use super::error::Cause;
use super::limits::{MAX_VALUE_DEPTH, RECURSION};
use super::{json, markup, methods, python, source, time};

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
    env.add_filter(markup::ADD_FILTER, markup::add);
    env.add_filter("escape", markup::escape);
    env.add_filter("e", markup::escape);
    env.add_filter("forceescape", markup::force_escape);
    env.add_filter(source::KEEP_FILTER, keep);
    env.add_filter(source::KEEP_ATTRIBUTE_FILTER, keep_attribute);
    env.add_test("iterable", is_iterable);
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

fn raise_exception(state: &State, message: &Value) -> Result<Value, Error> {
    let message = python::str_of(state, message)?;
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Cause::Raised(message)))
}

/// Lets a value into a variable unless it is nested too deeply.
fn keep(state: &State, value: &Value) -> Result<Value, Error> {
    check_depth(state, value, 0, true)?;
    Ok(value.clone())
}

/// Like [`keep`], for an attribute of a namespace, which moreover must not hold a namespace: it could hold itself.
fn keep_attribute(state: &State, value: &Value) -> Result<Value, Error> {
    check_depth(state, value, 0, false)?;
    Ok(value.clone())
}

fn check_depth(state: &State, value: &Value, depth: usize, allow_namespace: bool) -> Result<(), Error> {
    if depth > MAX_VALUE_DEPTH {
        return Err(python::too_deep());
    }
    let is_map = match value.kind() {
        ValueKind::Map => true,
        ValueKind::Seq => false,
        // A generator is read once; its items are checked when they are kept.
        ValueKind::Iterable if value.len().is_some() => false,
        _ => return Ok(()),
    };
    if is_map && !allow_namespace && is_namespace(value) {
        return Err(Error::new(ErrorKind::InvalidOperation, "a namespace cannot be kept inside a namespace"));
    }
    for item in value.try_iter()?.checked() {
        state.consume_fuel(1)?;
        let item = item?;
        let child = if is_map { value.get_item(&item)? } else { item };
        check_depth(state, &child, depth + 1, allow_namespace)?;
    }
    Ok(())
}

/// minijinja keeps the type private; its name is all that shows.
fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace"))
}
