//! Suggests alternatives for what the interpreter lacks.

/// Fragments of the interpreter's messages, and the advice appended to them.
const INSTEAD: [(&str, &str); 9] = [
    (
        "unsupported operand type(s) for %: 'str'",
        "use an f-string",
    ),
    (
        "unsupported operand type(s) for |: 'dict'",
        "use {**a, **b}",
    ),
    ("'with' statement", "call the tool directly"),
    (
        "has no attribute 'sleep'",
        "a script need not wait: calls return when they are done",
    ),
    (
        "has no attribute 'create_task'",
        "hand the call to asyncio.gather",
    ),
    ("has no attribute 'wait_for'", "await the call itself"),
    ("'async for'", "use a plain `for` over a list"),
    ("'global'", "return the value instead"),
    ("maximum recursion depth", "use a loop"),
];

/// The interpreter's name for itself, which would confuse the script's author.
const OURSELVES: &str = "The monty syntax parser does not yet support";

/// A message of the interpreter with advice appended.
pub(super) fn advised(message: &str, packs: &[String]) -> String {
    let mut text = message.replace(OURSELVES, "scripts cannot have");
    let is_pack = |pack: &&String| text.contains(&format!("name '{pack}' is not defined"));
    if packs.iter().any(|pack| is_pack(&pack)) {
        text.push_str("; tools cannot be called inside map, filter, sorted, min or max: use a loop or a comprehension");
        return text;
    }
    if let Some((_, instead)) = INSTEAD.iter().find(|(part, _)| message.contains(part)) {
        text.push_str("; ");
        text.push_str(instead);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_for_missing_features_suggest_alternatives() {
        let packs = ["wix".to_owned()];
        let said = advised("NameError: name 'wix' is not defined", &packs);
        assert!(said.ends_with("use a loop or a comprehension"), "{said}");
        let message = "NotImplementedError: The monty syntax parser does not yet support the 'with' statement";
        assert_eq!(
            advised(message, &packs),
            "NotImplementedError: scripts cannot have the 'with' statement; call the tool directly"
        );
        assert_eq!(advised("ValueError: x", &packs), "ValueError: x");
    }
}
