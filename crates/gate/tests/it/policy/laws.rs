//! Laws that hold for every policy and every call.

use callgate_testkit::policy::Case;
use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};

use super::{
    generate::{case, policy},
    given,
};

/// Calls for each policy.
const CALLS: usize = 32;
const STRICTNESS: [&str; 4] = ["allow", "confirm", "require_approval", "deny"];

/// How strict the answers to some calls are, from 0 to 3. Invalid policies are skipped.
fn strictness(policy: &Value, cases: &[Case]) -> Result<Vec<usize>, TestCaseError> {
    let rules = given::read(&policy.to_string());
    let rules = rules.map_err(|_| TestCaseError::reject("a rule can never match"))?;
    let policy = given::of(rules);
    let of = |case: &Case| {
        let (kind, _) = given::said(&policy, case);
        STRICTNESS
            .iter()
            .position(|known| *known == kind)
            .unwrap_or_default()
    };
    Ok(cases.iter().map(of).collect())
}

fn rule_sets(policy: &mut Value) -> &mut Vec<Value> {
    policy["rules"].as_array_mut().expect("there are rules")
}

/// Puts a rule into a list of a rule set.
fn insert(policy: &mut Value, scope: usize, kind: &str, at: Index, rule: Value) {
    let set = &mut rule_sets(policy)[scope];
    let mut list = set[kind].as_array().cloned().unwrap_or_default();
    list.insert(at.index(list.len() + 1), rule);
    set[kind] = list.into();
}

/// A rule that fits a scope.
fn rule_for(scope: &str) -> Value {
    match scope {
        "filesystem" => json!({"paths": ["/etc/*", "src/**"]}),
        "network" => json!({"domains": ["*.com"]}),
        "shell" | "data" => json!({"pattern": "*e*"}),
        _ => json!({"pattern": "f*:*"}),
    }
}

/// Makes every expression one that fails.
fn with_failing_expressions(value: &mut Value) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                if key == "when" {
                    *value = "args.no_such_key == 1".into();
                } else {
                    with_failing_expressions(value);
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(with_failing_expressions),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: None,
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_deny_rule_overrides_all_others(written in policy(), cases in prop::collection::vec(case(), CALLS)) {
        let mut policy = written.policy;
        // An agent whose rules replace everyone's has none of everyone's.
        policy["agents"] = json!({});
        let deny = json!({"scope": "mcp_tool", "deny": [{"pattern": "*", "when": "true"}]});
        rule_sets(&mut policy).push(deny);
        for strictness in strictness(&policy, &cases)? {
            prop_assert_eq!(strictness, 3);
        }
    }

    #[test]
    fn a_policy_without_matching_rules_denies(
        written in policy(),
        cases in prop::collection::vec(case(), CALLS),
    ) {
        let mut policy = written.policy;
        policy["agents"] = json!({});
        for set in rule_sets(&mut policy) {
            let set = set.as_object_mut().expect("a set is an object");
            for kind in ["require_approval", "confirm", "allow"] {
                set.remove(kind);
            }
            if !set.contains_key("limits") {
                set.insert("rate_limit".into(), json!({"max_requests": 1, "window": "1s"}));
            }
        }
        for strictness in strictness(&policy, &cases)? {
            prop_assert_eq!(strictness, 3);
        }
    }

    #[test]
    fn the_order_of_rule_sets_does_not_change_verdicts(
        written in policy(),
        swaps in prop::collection::vec((any::<Index>(), any::<Index>()), 1..6),
        cases in prop::collection::vec(case(), CALLS),
    ) {
        let Ok(rules) = given::read(&written.policy.to_string()) else {
            return Err(TestCaseError::reject("a rule can never match"));
        };
        let before = given::of(rules);
        let mut policy = written.policy;
        let sets = rule_sets(&mut policy);
        for (a, b) in swaps {
            let (a, b) = (a.index(sets.len()), b.index(sets.len()));
            sets.swap(a, b);
        }
        let after = given::policy(&policy.to_string());
        for case in &cases {
            prop_assert_eq!(given::said(&before, case), given::said(&after, case));
        }
    }

    #[test]
    fn failing_expressions_never_permit_more(written in policy(), cases in prop::collection::vec(case(), CALLS)) {
        let mut failing = written.policy.clone();
        with_failing_expressions(&mut failing);
        let before = strictness(&written.policy, &cases)?;
        let after = strictness(&failing, &cases)?;
        for ((before, after), case) in before.into_iter().zip(after).zip(&cases) {
            prop_assert!(before == 0 || after > 0, "{case:?}\n{}", written.policy);
        }
    }

    #[test]
    fn adding_a_deny_or_approval_never_permits_more(
        written in policy(),
        at in any::<(Index, Index)>(),
        denies in any::<bool>(),
        cases in prop::collection::vec(case(), CALLS),
    ) {
        let mut more = written.policy.clone();
        let set = at.0.index(rule_sets(&mut more).len());
        let scope = rule_sets(&mut more)[set]["scope"].as_str().expect("a scope").to_owned();
        prop_assume!(scope != "cost");
        let kind = if denies { "deny" } else { "require_approval" };
        insert(&mut more, set, kind, at.1, rule_for(&scope));
        let before = strictness(&written.policy, &cases)?;
        let after = strictness(&more, &cases)?;
        for ((before, after), case) in before.into_iter().zip(after).zip(&cases) {
            if denies {
                prop_assert!(after >= before, "{before} {after} {case:?}\n{more}");
            }
            prop_assert!(before == 0 || after > 0, "{before} {after} {case:?}\n{more}");
        }
    }
}
