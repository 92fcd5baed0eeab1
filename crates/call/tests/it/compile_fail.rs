//! The proof is the type: what must not be possible does not compile.

#[test]
fn only_the_right_use_of_a_permit_compiles() {
    let cases = trybuild::TestCases::new();
    // Without this one the others could fail for want of a dependency.
    cases.pass("tests/compile_fail/right_use.rs");
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
