//! The promises of every backend, as one test suite that runs against any backend.
//!
//! A backend's tests call [`conforms`] with a function that makes an empty one, and
//! [`clock::wrong_clocks_drop_nothing`]. Backends that outlive their process also go through [`durable`]. Each promise
//! is a function that panics when it is broken.
//!
//! The suite is here behind the feature `conformance`, and not in the test kit, because the test kit depends on none
//! of our crates, and a check keeps it so.

mod approvals;
mod approvals_shared;
mod archive;
pub mod clock;
pub mod durable;
mod ledger;
mod log;
mod sample;
mod tokens;

use std::thread;

use crate::Backend;

/// A promise by its name.
type Promise = (&'static str, fn(&dyn Backend));

// A promise has the name of its function, so that a failure leads to the code.
macro_rules! promises {
    ($($module:ident :: $name:ident),* $(,)?) => {
        [$((concat!(stringify!($module), "::", stringify!($name)), $module::$name as fn(&dyn Backend))),*]
    };
}

const PROMISES: [Promise; 38] = promises![
    log::entries_are_listed_in_the_order_they_were_appended,
    log::many_threads_write_one_sound_chain,
    log::placed_entries_are_written_even_when_the_future_is_dropped,
    log::queued_ends_are_written,
    log::calls_of_a_dead_writer_become_unknown_once,
    log::calls_of_a_live_writer_are_left_unchanged,
    log::a_closed_log_refuses_calls,
    archive::archive_filters_find_exactly_their_matches,
    archive::pages_do_not_overlap_while_the_log_grows,
    archive::exports_are_oldest_first_in_both_formats,
    archive::a_summary_counts_one_tenant_or_all,
    archive::readers_do_not_change_the_log,
    archive::exported_heads_reveal_missing_entries,
    archive::retention_drops_the_oldest_and_keeps_the_newest,
    archive::retention_keeps_calls_that_have_not_ended,
    archive::retention_keeps_entries_within_its_limits,
    archive::only_writers_can_drop_old_entries,
    approvals::an_approval_is_used_by_one_call,
    approvals::a_returned_approval_can_be_used_again,
    approvals::questions_and_approvals_expire,
    approvals::the_first_decision_stands,
    approvals::an_approver_of_another_tenant_sees_nothing,
    approvals::decisions_stay_queued_until_they_are_recorded,
    approvals::open_questions_per_caller_are_limited,
    approvals::sealed_calls_are_erased_by_decision_and_expiry,
    approvals::a_call_sealed_with_a_lost_key_is_resealed_when_asked_again,
    approvals::further_questions_share_a_decision_and_are_each_used_once,
    approvals_shared::racing_processes_claim_an_approval_once,
    approvals_shared::claims_of_crashed_processes_are_settled_from_the_log,
    approvals_shared::claims_of_live_processes_are_left_unchanged,
    approvals_shared::approval_changes_of_all_processes_are_seen_once,
    approvals_shared::exactly_one_process_announces_a_question,
    tokens::token_secrets_are_not_stored_and_changes_apply_at_once,
    tokens::token_names_are_validated_and_unique,
    tokens::racing_creations_of_one_name_make_one_token,
    ledger::rate_limits_are_exact_under_races_and_per_token,
    ledger::history_and_spending_are_kept_per_token,
    ledger::a_tenant_that_fills_its_tables_locks_out_no_other,
];

/// Gives a backend to every promise. `fresh` makes an empty backend each time.
///
/// # Panics
///
/// Once all promises were tried, when one of them is broken; it names those.
pub fn conforms<B: Backend>(fresh: impl Fn() -> B) {
    let mut broken = Vec::new();
    for (name, promise) in PROMISES {
        let backend = fresh();
        // A thread of its own: its panic is one broken promise, and the others still run.
        let outcome = thread::scope(|scope| {
            let outcome = scope.spawn(|| promise(&backend));
            outcome.join()
        });
        if let Err(panic) = outcome {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            broken.push(format!("{name}: {}", text.unwrap_or_default()));
        }
    }
    assert!(
        broken.is_empty(),
        "{} of {} promises are broken:\n{}",
        broken.len(),
        PROMISES.len(),
        broken.join("\n")
    );
}
