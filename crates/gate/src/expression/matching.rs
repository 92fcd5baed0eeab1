//! `matches` with cached regular expressions. The CEL crate compiles the pattern on each call, which costs
//! more than the rest of a decision.

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

/// The most cached patterns; replaced policies leave theirs behind.
const MAX_KEPT: usize = 1000;
/// The largest compiled pattern, in bytes.
const MAX_SIZE: usize = 1 << 20;

// Shared by all policies, so a reload compiles only new patterns.
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

/// A compiled pattern, from the cache if possible.
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
    // A panic during an insert leaves a valid map, so poisoning is ignored.
    let mut kept = KEPT.write().unwrap_or_else(PoisonError::into_inner);
    let kept = kept.get_or_insert_with(HashMap::new);
    if kept.len() >= MAX_KEPT {
        // Cleared rather than evicted one by one: this happens once in a thousand new patterns.
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
