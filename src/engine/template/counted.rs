//! Lists and dicts that count how often they are looked through.
//!
//! The renderer compares, joins and prints values by walking them, and charges for it only afterwards. A small
//! template can hold one list many times over (`x = [x, x]`, forty times), so such a walk could go on for ever. Every
//! list and dict that gets a name is therefore one of these: a walk takes from a budget, and when that is used up
//! they look empty, so that the walk ends and the rendering fails.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use minijinja::value::{Enumerator, Object, ObjectRepr, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

use super::limits::MAX_VALUE_DEPTH;
use super::python;

/// The name of the [`Budget`] among a rendering's variables.
pub const BUDGET_VARIABLE: &str = "layercake_budget";

/// Visits left to one rendering.
#[derive(Debug, Clone)]
pub struct Budget(Arc<AtomicU64>);

impl Object for Budget {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }
}

impl Budget {
    pub fn new(n_visits: u64) -> Self {
        Self(Arc::new(AtomicU64::new(n_visits)))
    }

    pub fn is_used_up(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Takes `cost`, or all there is and says no. One thread renders, so no order is needed.
    fn take(&self, cost: u64) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(cost), Ordering::Relaxed);
        left > cost
    }
}

/// What both containers know about their content.
#[derive(Debug, Clone)]
struct Facts {
    budget: Budget,
    /// Taken by one walk over the direct content.
    cost: u64,
    /// Levels of lists and dicts, this one included.
    depth: usize,
    holds_namespace: bool,
}

#[derive(Debug)]
pub struct List {
    items: Vec<Value>,
    pub is_tuple: bool,
    facts: Facts,
}

/// A dict around the renderer's own, which keeps the order of the keys.
#[derive(Debug)]
pub struct Dict {
    map: Value,
    keys: Vec<Value>,
    facts: Facts,
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.items.get(key.as_usize()?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        if self.facts.budget.take(self.facts.cost) { Enumerator::Seq(self.items.len()) } else { Enumerator::Empty }
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.items.len())
    }
}

impl Object for Dict {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.map.as_object()?.get_value(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        if self.facts.budget.take(self.facts.cost) { Enumerator::Values(self.keys.clone()) } else { Enumerator::Empty }
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(self.keys.len())
    }
}

/// Why a value cannot be kept.
#[derive(Debug, Clone, Copy)]
pub struct TooDeep;

impl fmt::Display for TooDeep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value is nested more than {MAX_VALUE_DEPTH} levels deep")
    }
}

/// A list of values that are counted already.
pub fn list(items: Vec<Value>, is_tuple: bool, budget: &Budget) -> Result<Value, TooDeep> {
    let facts = facts(items.iter(), budget)?;
    Ok(Value::from_object(List { items, is_tuple, facts }))
}

/// A dict of values that are counted already.
pub fn dict(pairs: Vec<(Value, Value)>, budget: &Budget) -> Result<Value, TooDeep> {
    let facts = facts(pairs.iter().flat_map(|(key, value)| [key, value]), budget)?;
    let keys = pairs.iter().map(|(key, _)| key.clone()).collect();
    Ok(Value::from_object(Dict { map: Value::from_pairs(pairs), keys, facts }))
}

fn facts<'a>(values: impl Iterator<Item = &'a Value>, budget: &Budget) -> Result<Facts, TooDeep> {
    let mut facts = Facts { budget: budget.clone(), cost: 2, depth: 1, holds_namespace: false };
    for value in values {
        facts.cost += 1 + value.as_str().map_or(0, |text| text.len() as u64 / 16);
        if let Some(inner) = facts_of(value) {
            facts.depth = facts.depth.max(inner.depth + 1);
            facts.holds_namespace |= inner.holds_namespace;
        }
        facts.holds_namespace |= is_namespace(value);
    }
    if facts.depth > MAX_VALUE_DEPTH { Err(TooDeep) } else { Ok(facts) }
}

fn facts_of(value: &Value) -> Option<&Facts> {
    let list = value.downcast_object_ref::<List>().map(|list| &list.facts);
    list.or_else(|| value.downcast_object_ref::<Dict>().map(|dict| &dict.facts))
}

/// Whether a value prints as a tuple.
pub fn is_tuple(value: &Value) -> bool {
    value.is_tuple() || value.downcast_object_ref::<List>().is_some_and(|list| list.is_tuple)
}

/// minijinja keeps the type private; its name is all that shows.
fn is_namespace(value: &Value) -> bool {
    value.as_object().is_some_and(|object| object.type_name().ends_with("::Namespace"))
}

/// The filter around each value that gets a name: lists and dicts become counted ones.
pub fn keep(state: &State, value: &Value) -> Result<Value, Error> {
    if !is_container(value) {
        return Ok(value.clone());
    }
    let Some(budget) = state.lookup(BUDGET_VARIABLE) else { return Ok(value.clone()) };
    let Some(budget) = budget.downcast_object_ref::<Budget>() else { return Ok(value.clone()) };
    counted(state, value, budget, 0)
}

/// Like [`keep`], for an attribute of a namespace, which must not hold a namespace: it could hold itself.
pub fn keep_attribute(state: &State, value: &Value) -> Result<Value, Error> {
    let kept = keep(state, value)?;
    if is_namespace(&kept) || facts_of(&kept).is_some_and(|facts| facts.holds_namespace) {
        return Err(Error::new(ErrorKind::InvalidOperation, "a namespace cannot be kept inside a namespace"));
    }
    Ok(kept)
}

/// Whether [`keep`] has to look at it. What can be read only once stays as it is.
fn is_container(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Map => !is_namespace(value),
        ValueKind::Seq => true,
        ValueKind::Iterable => value.len().is_some(),
        _ => false,
    }
}

fn counted(state: &State, value: &Value, budget: &Budget, depth: usize) -> Result<Value, Error> {
    if !is_container(value) || facts_of(value).is_some() {
        return Ok(value.clone());
    }
    if depth > MAX_VALUE_DEPTH {
        return Err(python::too_deep());
    }
    let too_deep = |_: TooDeep| python::too_deep();
    if value.kind() == ValueKind::Map {
        let mut pairs = Vec::new();
        for key in value.try_iter()?.checked() {
            state.consume_fuel(1)?;
            let key = key?;
            let item = counted(state, &value.get_item(&key)?, budget, depth + 1)?;
            pairs.push((key, item));
        }
        return dict(pairs, budget).map_err(too_deep);
    }
    let mut items = Vec::new();
    for item in value.try_iter()?.checked() {
        state.consume_fuel(1)?;
        items.push(counted(state, &item?, budget, depth + 1)?);
    }
    list(items, value.is_tuple(), budget).map_err(too_deep)
}

/// The filter that stands for `*`: repeating a list is charged for all that it then holds.
pub fn multiply(state: &State, left: &Value, right: &Value) -> Result<Value, Error> {
    let (repeated, times) = if is_container(left) { (left, right) } else { (right, left) };
    if !is_container(repeated) || repeated.kind() == ValueKind::Map {
        return state.env().compile_expression("left * right")?.eval(minijinja::context! { left, right });
    }
    let Some(times) = times.as_i64() else {
        return Err(Error::new(ErrorKind::InvalidOperation, "a list can be repeated a whole number of times"));
    };
    let times = u64::try_from(times).unwrap_or(0);
    let kept = keep(state, repeated)?;
    let n_items = kept.len().unwrap_or(0) as u64;
    state.consume_fuel(n_items.saturating_mul(times).min(i64::MAX as u64))?;
    let items: Vec<Value> = kept.try_iter()?.collect();
    let all = std::iter::repeat_n(items, times as usize).flatten().collect::<Vec<_>>();
    Ok(if is_tuple(repeated) { Value::from(minijinja::value::Tuple::from(all)) } else { Value::from(all) })
}
