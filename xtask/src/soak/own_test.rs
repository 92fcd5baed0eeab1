//! Tests of our own suites that a variable makes longer than CI has time for.

use anyhow::{Result, bail};

use crate::command::{self, cargo, output};

/// The package of the product's tests.
const PRODUCT: &str = "callgate-tests";

/// 200 gateways are killed.
pub(super) fn kill9() -> Result<()> {
    run(PRODUCT, "kill_9", "CALLGATE_KILLS", "200")
}

/// 500 processes are killed while calls are held, decided about and released.
pub(super) fn approvals_kill9() -> Result<()> {
    let test = "kill_9_loses_no_decision";
    run(PRODUCT, test, "CALLGATE_APPROVAL_KILLS", "500")
}

/// The disk of a gateway under load is copied 500 times.
pub(super) fn power_cuts() -> Result<()> {
    let test = "a_power_cut_loses_no_answer_and_looks_like_no_tampering";
    run(PRODUCT, test, "CALLGATE_POWER_CUTS", "500")
}

/// The configuration is reloaded 1,000 times under load.
pub(super) fn reload() -> Result<()> {
    run(PRODUCT, "reloads_under_load", "CALLGATE_RELOADS", "1000")
}

/// Two hosts and eight servers exchange a hundred thousand messages.
pub(super) fn crowd() -> Result<()> {
    let test = "every_answer_reaches_the_host_that_asked";
    run(PRODUCT, test, "CALLGATE_CROWD", "100000")
}

/// A hundred thousand worlds of servers with colliding names.
pub(super) fn handles() -> Result<()> {
    let test = "every_handle_leads_back_to_its_server";
    run("callgate-call", test, "CALLGATE_LINK_CASES", "100000")
}

/// A thousand slow sockets, and all the patience it takes to see each of them cut off.
pub(super) fn slow_sockets() -> Result<()> {
    let test = "slow_sockets_do_not_slow_others";
    run(PRODUCT, test, "CALLGATE_SLOW_SOCKETS", "1000")
}

/// A million calls are decided by two evaluators, a policy is swapped 10,000 times under load, and its file changed
/// 1,000 times.
pub(super) fn policy() -> Result<()> {
    let agree = "the_gate_and_the_naive_evaluator_agree";
    run("callgate-gate", agree, "CALLGATE_POLICY_CASES", "1000000")?;
    let swaps = "policies_swapped_under_load";
    run("callgate-upstream", swaps, "CALLGATE_POLICY_SWAPS", "10000")?;
    let reloads = "policy_reloads_under_load";
    run(PRODUCT, reloads, "CALLGATE_POLICY_RELOADS", "1000")
}

/// Ten thousand calls are decided by a guard and by a gateway itself.
pub(super) fn guard() -> Result<()> {
    let test = "the_guard_and_the_local_policy_agree";
    run(PRODUCT, test, "CALLGATE_GUARD_CALLS", "10000")
}

/// Built-in tools are given a hundred thousand random argument objects.
pub(super) fn arguments() -> Result<()> {
    let test = "random_arguments_never_crash_the_gateway";
    run(PRODUCT, test, "CALLGATE_RANDOM_ARGUMENTS", "100000")
}

/// A hundred agent steps are ended in every way there is, and a model takes longer than most would wait.
pub(super) fn agent_ends() -> Result<()> {
    let test = "a_step_leaves_nothing_behind_however_it_ends";
    run(PRODUCT, test, "CALLGATE_AGENT_ENDS", "100")?;
    let slow = "a_slow_model_reply_is_limited";
    run(PRODUCT, slow, "CALLGATE_SLOW_REPLY_SECONDS", "35")
}

/// Runs of workflows are killed a hundred times.
pub(super) fn workflow_kill9() -> Result<()> {
    let test = "kill_9_and_resume_repeat_no_finished_state";
    run(PRODUCT, test, "CALLGATE_WORKFLOW_KILLS", "100")
}

/// Simulations of the store.
#[derive(Debug, Default, clap::Args)]
#[group(skip)]
pub(super) struct Seeds {
    /// With `seeds`: how many to try.
    #[arg(long, default_value_t = 1_000_000)]
    seeds: u64,
    /// With `seeds`: replay one, and print its steps.
    #[arg(long)]
    seed: Option<u64>,
}

/// The store under simulated disks and clocks: a million schedules, or one again.
pub(super) fn seeds(options: &Seeds) -> Result<()> {
    let (variable, value) = match options.seed {
        Some(seed) => ("CALLGATE_SEED", seed),
        None => ("CALLGATE_SEEDS", options.seeds),
    };
    // Optimized: a schedule then takes some milliseconds.
    let test = [
        "test",
        "--profile",
        "soak",
        "-p",
        "callgate-store",
        "--test",
        "it",
        "no_seeded_schedule_breaks_a_promise",
        "--",
        "--nocapture",
    ];
    command::run(cargo().args(test).env(variable, value.to_string()))
}

/// Runs the test and shows what it prints. No test of that name is a failure too.
fn run(package: &str, test: &str, variable: &str, value: &str) -> Result<()> {
    if command::exists("cargo-nextest", "--version") {
        let nextest = [
            "nextest",
            "run",
            "--profile",
            "soak",
            "-p",
            package,
            "--no-capture",
            "--no-tests",
            "fail",
            test,
        ];
        return command::run(cargo().args(nextest).env(variable, value));
    }
    let listed = output(cargo().args(["test", "-p", package, test, "--", "--list"]))?;
    if !listed.contains(test) {
        bail!("{package} has no test `{test}`");
    }
    let run = ["test", "-p", package, test, "--", "--nocapture"];
    command::run(cargo().args(run).env(variable, value))
}
