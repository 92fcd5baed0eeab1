//! Parses loops: those that are states, and `loop` on a state.

use super::field::Field;
use crate::{
    Code, Kind, Loop,
    arithmetic::Arithmetic,
    model::{EACH, Item, Items, Limit, LoopOver},
    tree::Tree,
};

/// The default of `max_iterations`.
const ITERATIONS: u32 = 100;
/// The limit of `max_iterations`.
pub(crate) const MAX_ITERATIONS: u32 = 10_000;

pub(super) fn for_each(field: &Field<'_>) -> Option<Kind> {
    let items = field.must("items").and_then(|items| items_of(&items));
    around(field, items.map(LoopOver::Items))
}

fn items_of(items: &Field<'_>) -> Option<Items> {
    match &items.node.tree {
        Tree::List(_) => {
            let read: Option<Vec<Item>> = items.items()?.iter().map(item).collect();
            Some(Items::List(read?))
        }
        Tree::Leaf(_) | Tree::Map(_) => items.template().map(Items::Template),
    }
}

/// `loop` on a state, which repeats that state.
pub(super) fn repeated(name: &str, field: &Field<'_>) -> Option<Kind> {
    const KEYS: [&str; 5] = ["over", "items", "while", "max_iterations", "break_when"];
    field.only(&KEYS, Code::UnknownKey);
    let over = match (field.either(&["over", "items"]), field.get("while")) {
        (Some(items), None) => items_of(&items).map(LoopOver::Items),
        (None, Some(condition)) => condition.late_condition().map(LoopOver::While),
        (Some(_), Some(_)) | (None, None) => {
            let what = "a loop needs either `over` or `while`".to_owned();
            field.finding(Code::Malformed, what);
            None
        }
    };
    looped(field, over?, vec![format!("{name}{EACH}")], true)
}

fn item(field: &Field<'_>) -> Option<Item> {
    match &field.node.tree {
        Tree::Leaf(serde_json::Value::String(_)) => field.template().map(Item::Template),
        Tree::Leaf(_) | Tree::List(_) | Tree::Map(_) => Some(Item::Value(field.node.to_value())),
    }
}

pub(super) fn while_holds(field: &Field<'_>) -> Option<Kind> {
    let condition = field.must("while").and_then(|field| field.late_condition());
    around(field, condition.map(LoopOver::While))
}

fn around(field: &Field<'_>, over: Option<LoopOver>) -> Option<Kind> {
    let body = field.must("body").map(|field| field.texts());
    if let (Some([]), Some(field)) = (body.as_deref(), field.get("body")) {
        let what = "a loop needs at least one state in `body`".to_owned();
        field.finding(Code::Malformed, what);
    }
    let is_lenient = field.get("on_complete").is_some();
    looped(field, over?, body?, is_lenient)
}

fn looped(field: &Field<'_>, over: LoopOver, body: Vec<String>, is_lenient: bool) -> Option<Kind> {
    let most = field.get("max_iterations").and_then(|field| limit(&field));
    let break_when = field.get("break_when");
    let break_when = break_when.and_then(|field| field.late_condition());
    Some(Kind::Loop(Loop {
        over,
        body,
        max_iterations: most.unwrap_or(Limit::Fixed(ITERATIONS)),
        break_when,
        is_lenient,
    }))
}

/// A number, or a text that computes one. Zero is the default.
fn limit(field: &Field<'_>) -> Option<Limit> {
    if field.is_number() {
        let most = field.whole(0, MAX_ITERATIONS)?;
        return Some(Limit::Fixed(most)).filter(|_| most > 0);
    }
    let error = match Arithmetic::read(&field.text()?) {
        Ok(sum) => return Some(Limit::Computed(sum)),
        Err(error) => error,
    };
    let template = field.template()?;
    if template.paths().is_empty() {
        // It fails when the loop begins.
        field.warning(Code::BadTemplate, error.to_string());
    }
    Some(Limit::Template(template))
}
