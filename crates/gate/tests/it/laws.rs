//! Laws that hold for any name, pattern and policy.

use std::{collections::HashMap, sync::Arc};

use callgate_gate::{
    Builtin, Facts, Naming, Pattern, Policy, Prefix, ServerName, Target, Tool, ToolFilter, Verdict,
    decide,
};
use callgate_wire::quote;
use proptest::prelude::*;

use crate::given::{call, described, named, server};

/// The meaning of a pattern, written down without a thought for speed.
fn naive(pattern: &[char], text: &[char]) -> bool {
    match (pattern, text) {
        ([], _) => text.is_empty(),
        (['*', rest @ ..], _) => (0..=text.len()).any(|skipped| naive(rest, &text[skipped..])),
        ([expected, pattern @ ..], [actual, text @ ..]) => {
            expected == actual && naive(pattern, text)
        }
        (_, []) => false,
    }
}

/// From strictest to most permissive, with the rule that spoke.
fn leniency(policy: &Policy, tool: &Tool) -> (u8, String) {
    match decide(
        call(Target::Tool(Arc::new(tool.clone()))),
        policy,
        &Facts::default(),
    ) {
        Verdict::Deny(denied) => (0, denied.ruling().rule.clone()),
        Verdict::Hold(hold) => (1, hold.ruling().rule.clone()),
        Verdict::Permit(permit) => (2, permit.ruling().rule.clone()),
    }
}

fn pattern() -> impl Strategy<Value = Pattern> {
    "[ab*]{0,4}|delete|d*".prop_map(|text| Pattern::new(&text))
}

fn filter() -> impl Strategy<Value = ToolFilter> {
    let some = || prop::collection::vec(pattern(), 0..4);
    (prop::option::of(some()), some()).prop_map(|(allow, deny)| ToolFilter {
        allow,
        deny,
        offered: None,
    })
}

fn server_name() -> impl Strategy<Value = ServerName> {
    "[a_-]{1,3}|[A-Za-z0-9_-]{1,32}"
        .prop_filter_map("not a server's name", |text| ServerName::new(&text).ok())
}

fn tool_name() -> impl Strategy<Value = String> {
    prop_oneof!["[a_-]{0,3}", "[ab_.-]{0,70}", "\\PC{0,50}"]
}

fn naming() -> impl Strategy<Value = Naming> {
    let separator = prop::sample::select(vec!["__", "_", "-", ".", "--"]);
    (separator, 20..65_usize).prop_map(|(separator, max_length)| Naming {
        separator: separator.into(),
        prefix: Prefix::Always,
        max_length,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn patterns_agree_with_the_naive_matcher(pattern in "[abé*]{0,8}", text in "[abé]{0,8}") {
        let letters = |text: &str| text.chars().collect::<Vec<_>>();
        let expected = naive(&letters(&pattern), &letters(&text));
        prop_assert_eq!(Pattern::new(&pattern).matches(&text), expected);
    }

    #[test]
    fn adding_a_denied_pattern_never_permits_more(
        filter in filter(),
        more in pattern(),
        at in any::<prop::sample::Index>(),
        name in "[ab]{0,4}|delete",
        builtin in prop::sample::select(vec![Builtin::Default, Builtin::AllowAll]),
    ) {
        let mut stricter = filter.clone();
        stricter.deny.insert(at.index(filter.deny.len() + 1), more.clone());
        let policy = |filter| Policy::new(builtin, HashMap::from([(server("s"), filter)]));
        let tool = named("s", &name);
        let (before, after) = (leniency(&policy(filter), &tool), leniency(&policy(stricter), &tool));
        if more.matches(&name) {
            prop_assert_eq!(after.0, 0);
        } else {
            prop_assert_eq!(after, before);
        }
    }

    #[test]
    fn shown_names_use_plain_characters_within_the_length_limit(naming in naming(), server in server_name(), tool in tool_name()) {
        let shown = naming.shown(&server, &tool);
        prop_assert!(shown.len() <= naming.max_length, "{shown}");
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        prop_assert!(shown.chars().all(plain), "{shown}");
        prop_assert_eq!(naming.shown(&server, &tool), shown);
    }

    #[test]
    fn different_tools_have_different_shown_names(
        naming in naming(),
        pairs in prop::collection::hash_set((server_name(), tool_name()), 2..24),
    ) {
        let mut taken = HashMap::new();
        for (server, tool) in &pairs {
            let shown = naming.shown(server, tool);
            if let Some(other) = taken.insert(shown.clone(), (server, tool)) {
                prop_assert!(false, "`{shown}` is {server}:{tool} and {other:?}");
            }
        }
    }

    #[test]
    fn renaming_changes_only_the_bytes_of_the_name(
        before in "[ \t\r\n]{0,3}\\{[ \n]{0,2}(\"x\":\\[\\{\"name\":1\\}\\],)?",
        colon in "[ \t]{0,2}:[ \n]{0,2}",
        after in "(,\"annotations\":\\{\"name\":\"n\"\\})?[ \n]{0,2}\\}[ \t\r\n]{0,3}",
        name in "\\PC{0,12}",
        escaped in any::<bool>(),
        shown in "\\PC{0,12}",
    ) {
        let raw = if escaped {
            name.encode_utf16().fold(String::from("\""), |text, unit| format!("{text}\\u{unit:04x}")) + "\""
        } else {
            quote(&name)
        };
        let around = |raw: &str| format!("{before}\"name\"{colon}{raw}{after}");
        let tool = described("s", &around(&raw));
        prop_assert_eq!(&tool.name, &name);
        let expected = if shown == name { around(&raw) } else { around(&quote(&shown)) };
        prop_assert_eq!(tool.shown_as(shown).shown_descriptor, expected);
    }
}
