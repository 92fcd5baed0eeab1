//! `matches`, with regular expressions that are compiled once. The crate's own compiles anew each
//! time, which costs more than all the rest of a decision.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use cel::{
    Env, ExecutionError,
    common::{
        types::{CelBool, CelString, STRING_TYPE},
        value::CowVal,
    },
};
use regex::Regex;

/// How many compiled expressions are kept; policies that were replaced leave theirs behind.
const MAX_KEPT: usize = 1000;
/// How large a compiled expression may be.
const MAX_SIZE: usize = 1 << 20;

static KEPT: RwLock<Option<HashMap<String, Regex>>> = RwLock::new(None);

/// Makes `text.matches(pattern)` and `matches(text, pattern)` known.
pub(super) fn declare(environment: &mut Env) {
    const FREE: &str = "the environment has no other `matches`";
    let types = || vec![STRING_TYPE, STRING_TYPE];
    environment
        .add_overload("matches", "matches", types(), matches)
        .expect(FREE);
    environment
        .add_member_overload(
            "matches",
            "matches_string",
            STRING_TYPE,
            vec![STRING_TYPE],
            matches,
        )
        .expect(FREE);
}

/// A compiled expression, from those kept where it is one of them.
pub(super) fn compiled(pattern: &str) -> Result<Regex, String> {
    let kept = KEPT.read().unwrap_or_else(PoisonError::into_inner);
    if let Some(regex) = kept.as_ref().and_then(|kept| kept.get(pattern)) {
        return Ok(regex.clone());
    }
    drop(kept);
    let built = regex::RegexBuilder::new(pattern)
        .size_limit(MAX_SIZE)
        .build();
    let regex = built.map_err(|error| {
        let text = error.to_string();
        text.lines().last().unwrap_or_default().trim().to_owned()
    })?;
    let mut kept = KEPT.write().unwrap_or_else(PoisonError::into_inner);
    let kept = kept.get_or_insert_with(HashMap::new);
    if kept.len() >= MAX_KEPT {
        kept.clear();
    }
    kept.insert(pattern.to_owned(), regex.clone());
    Ok(regex)
}

fn matches<'b, 'v>(arguments: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let [text, pattern] = arguments.as_slice() else {
        return Err(ExecutionError::invalid_argument_count(2, arguments.len()));
    };
    let (Some(text), Some(pattern)) = (
        text.downcast_ref::<CelString>(),
        pattern.downcast_ref::<CelString>(),
    ) else {
        return Err(ExecutionError::function_error("matches", "not two strings"));
    };
    let regex = compiled(pattern.inner());
    let regex = regex.map_err(|error| ExecutionError::function_error("matches", error))?;
    Ok(CowVal::owned(CelBool::from(regex.is_match(text.inner()))))
}
