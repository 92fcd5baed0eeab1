//! The type is the proof: misuse of a permit or of a recorded call does not compile. What a provider takes is shown where
//! the port is (`callgate_call::Provider`).

use callgate_gate::{Call, Facts, Permit, Policy, Verdict, decide};
use callgate_record::{Recorded, Recorder};

/// The valid order: a call is decided, recorded and forwarded, each once.
#[expect(
    dead_code,
    reason = "the test is that it compiles: the cases below fail for what they change in it"
)]
async fn valid_order(
    call: Call,
    policy: &Policy,
    recorder: &Recorder,
    forward: impl AsyncFnOnce(Recorded<Permit>),
) {
    let Verdict::Permit(permit) = decide(call, policy, &Facts::default()) else {
        return;
    };
    let _read: (&Call, &str) = (permit.call(), permit.ruling().rule.as_str());
    let Ok((recorded, open)) = recorder.forwarding(permit).await else {
        return;
    };
    let _read: &Call = recorded.call();
    forward(recorded).await;
    drop(open);
}

/// The cases stand in this room because a case is compiled with all dependencies of its room, in a build of its own: in
/// `callgate-call` that meant a TLS library in C. All of them fail, so the compiler only checks; what it says must be
/// what is expected, so a case cannot fail for another reason.
#[test]
fn only_the_right_use_of_a_permit_compiles() {
    let cases = trybuild::TestCases::new();
    for forbidden in [
        "permit_by_literal",
        "recorded_by_literal",
        "not_clone",
        "not_default",
        "hold_is_no_permit",
        "recorded_twice",
        "forwarded_twice",
        "finished_twice",
        "other_arguments_in_a_permit",
        "other_arguments_in_a_proof",
        "no_way_back",
    ] {
        cases.compile_fail(format!("tests/compile_fail/{forbidden}.rs"));
    }
}
