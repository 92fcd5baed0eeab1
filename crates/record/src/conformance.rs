//! What every backend must promise, as one suite that a backend is given to.
//!
//! A backend's tests call [`conforms`] with a function that makes an empty one. Backends that outlive
//! their process also go through [`durable`]. Each promise is a function that panics when it is broken.
//!
//! The suite stands here behind the feature `conformance`, and not in the test kit, because the test kit
//! depends on none of our crates, and a check keeps it so.

mod approvals;
mod approvals_shared;
mod archive;
pub mod durable;
mod ledger;
mod log;
mod sample;
mod tokens;

use std::thread;

use crate::Backend;

/// A promise by its name.
type Promise = (&'static str, fn(&dyn Backend));

macro_rules! promises {
    ($($module:ident :: $name:ident),* $(,)?) => {
        [$((concat!(stringify!($module), "::", stringify!($name)), $module::$name as fn(&dyn Backend))),*]
    };
}

const PROMISES: [Promise; 38] = promises![
    log::entries_are_listed_in_order_as_they_were_appended,
    log::many_threads_write_one_sound_chain,
    log::placed_entries_are_taken_also_when_the_future_is_dropped,
    log::ends_that_are_owed_are_written,
    log::calls_of_a_dead_writer_become_unknown_once,
    log::calls_of_a_living_writer_are_left_alone,
    log::a_closed_log_takes_no_calls,
    archive::filters_find_what_they_say,
    archive::pages_do_not_overlap_while_the_log_grows,
    archive::exports_are_oldest_first_in_both_formats,
    archive::a_summary_counts_one_tenant_or_all,
    archive::readers_leave_no_trace,
    archive::heads_show_whether_entries_are_missing,
    archive::retention_drops_the_oldest_and_keeps_the_newest,
    archive::retention_keeps_calls_that_have_not_ended,
    archive::young_and_few_entries_stay,
    archive::only_a_writer_drops_old_entries,
    approvals::a_yes_is_for_one_call,
    approvals::what_is_given_back_can_be_used,
    approvals::time_ends_questions_and_answers,
    approvals::the_first_decision_counts,
    approvals::an_approver_of_another_tenant_sees_nothing,
    approvals::decisions_stay_owed_until_they_are_on_record,
    approvals::a_caller_has_a_limit_of_open_questions,
    approvals::a_sealed_call_is_erased_by_its_decision_and_by_time,
    approvals::a_call_sealed_with_a_lost_key_is_sealed_again_when_it_asks_again,
    approvals::further_questions_share_the_decision_and_are_used_one_by_one,
    approvals_shared::many_who_want_the_same_approval_share_one,
    approvals_shared::a_claim_of_the_dead_is_used_when_the_log_says_so_and_free_when_it_does_not,
    approvals_shared::a_claim_of_the_living_is_left_alone,
    approvals_shared::changes_of_any_process_are_seen_once,
    approvals_shared::one_process_announces_a_question,
    tokens::secrets_are_not_kept_and_changes_are_seen_by_others_at_once,
    tokens::names_are_checked_and_used_once,
    tokens::racing_creations_of_one_name_make_one_token,
    ledger::limits_are_exact_under_races_and_per_token,
    ledger::earlier_calls_and_spending_belong_to_their_token,
    ledger::a_tenant_that_fills_its_tables_locks_no_other_out,
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
        let kept = thread::scope(|scope| {
            let kept = scope.spawn(|| promise(&backend));
            kept.join()
        });
        if let Err(panic) = kept {
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
