//! The proof is the type: what must not be possible does not compile.

use callgate_call::{Exchange, Failure, Provider, Reply};
use callgate_gate::{Call, Facts, Policy, Verdict, decide};
use callgate_record::Recorder;

/// The right way, which compiles: a call is decided, put on record, and handed to a provider, each once.
#[expect(dead_code, reason = "that it compiles is all there is to see")]
async fn one_way(
    call: Call,
    policy: &Policy,
    recorder: &Recorder,
    (provider, exchange): (&dyn Provider, Exchange),
) {
    let Verdict::Permit(permit) = decide(call, policy, &Facts::default()) else {
        return;
    };
    let _read: (&Call, &str) = (permit.call(), permit.ruling().rule.as_str());
    let Ok((recorded, open)) = recorder.forwarding(permit).await else {
        return;
    };
    let _read: &Call = recorded.call();
    let _replied: Result<Reply, Failure> = provider.forward(recorded, exchange).await;
    drop(open);
}

/// None of these is to pass, so that everything below is only checked: building it as well took half of the
/// time of all tests. That they fail for the right reason is in what the compiler has to say.
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
        "forwarded_without_proof",
        "no_way_back",
    ] {
        cases.compile_fail(format!("tests/compile_fail/{forbidden}.rs"));
    }
}
