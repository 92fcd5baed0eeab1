//! The gate and the naive evaluator agree on every generated call.

use std::env;

use callgate_gate::Mode;
use callgate_testkit::policy::Naive;
use proptest::{
    prelude::*,
    test_runner::{TestError, TestRunner},
};

use super::{
    generate::{case, policy},
    given::{self, FOLDER, HOME},
};

/// How many calls are compared; a soak sets more by `CALLGATE_POLICY_CASES`.
const CASES: u32 = 20_000;
/// Calls for each policy, since reading a policy costs more than asking it.
const CALLS: u32 = 200;

#[test]
fn the_gate_and_the_naive_evaluator_agree() {
    let cases = env::var("CALLGATE_POLICY_CASES").ok();
    let cases: u32 = cases.map_or(CASES, |cases| cases.parse().expect("a number of cases"));
    let config = ProptestConfig {
        cases: cases.div_ceil(CALLS),
        failure_persistence: None,
        max_global_rejects: u32::MAX,
        ..ProptestConfig::default()
    };
    let calls = prop::collection::vec(case(), CALLS as usize);
    let mut kinds = std::collections::BTreeMap::<String, u32>::new();
    let compared = std::cell::RefCell::new(&mut kinds);
    let outcome = TestRunner::new(config).run(
        &(policy(), calls, any::<bool>()),
        |(written, cases, strict)| {
            let text = written.policy.to_string();
            let Ok(rules) = given::read(&text) else {
                return Err(TestCaseError::reject("a rule can never match"));
            };
            let mode = if strict { Mode::Strict } else { Mode::Fast };
            let policy = given::of(rules).mode(mode);
            let naive = Naive {
                policy: &written.policy,
                expressions: &written.expressions,
                strict,
                folder: FOLDER,
                home: HOME,
            };
            for case in &cases {
                let (gate, naive) = (given::said(&policy, case), naive.answer(case));
                prop_assert_eq!(&gate, &naive, "{:?}\n{}", case, text);
                *compared.borrow_mut().entry(naive.0).or_default() += 1;
            }
            Ok(())
        },
    );
    // The failing input is in the message already, without the calls that agreed.
    match outcome {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("{reason}"),
        Err(TestError::Abort(reason)) => panic!("aborted: {reason}"),
    }
    println!("compared: {kinds:?}");
    // Cases that all end alike would compare nothing.
    for kind in ["allow", "confirm", "require_approval", "deny"] {
        let count = kinds.get(kind).copied().unwrap_or_default();
        assert!(
            count > cases / 200,
            "only {count} calls were judged `{kind}`"
        );
    }
}
