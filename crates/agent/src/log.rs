//! The log lines of this room that are not events.

use std::{io, path::Path};

use crate::{events::Tokens, kind::AgentKind};

pub(crate) fn step_ended(
    step: &str,
    provider: AgentKind,
    status: &str,
    tokens: &Tokens,
    bypassed: u64,
) {
    tracing::info!(
        step,
        provider = provider.as_str(),
        status,
        tokens_input = tokens.input,
        tokens_output = tokens.output,
        cost_usd = tokens.cost_usd,
        bypassed,
        "agent.step"
    );
}

/// The step's observer gets `warning` as an event, too.
pub(crate) fn not_isolated(warning: &str) {
    tracing::warn!("{warning}");
}

/// The step's observer gets `warning` as an event, too.
pub(crate) fn about_the_box(warning: &str) {
    tracing::warn!("{warning}");
}

/// The step's observer gets `warning` as an event, too.
pub(crate) fn instructions_left_out(warning: &str) {
    tracing::warn!("{warning}");
}

pub(crate) fn verdicts_not_kept(error: &io::Error) {
    tracing::warn!(%error, "could not save the verdicts on installed agents");
}

pub(crate) fn folder_not_removed(folder: &Path, error: &io::Error) {
    tracing::warn!(folder = %folder.display(), %error, "could not remove a step's folder");
}

pub(crate) fn transcript_not_kept(error: &io::Error) {
    tracing::warn!(%error, "could not write the transcript of a step");
}

pub(crate) fn door_failed() {
    tracing::error!("the task that serves a step's socket panicked");
}

pub(crate) fn another_user_at_the_door() {
    tracing::warn!("another user's process connected to a step's socket and was refused");
}

pub(crate) fn relay_turned_away(why: &str) {
    tracing::warn!(why, "a relay was refused at a step's socket");
}

pub(crate) fn event_too_long() {
    tracing::warn!("a line of the agent's output exceeds the limit and was skipped");
}

pub(crate) fn bypass_not_recorded(tool: &str) {
    tracing::warn!(
        tool,
        "could not record an agent's use of a native tool: its arguments are not JSON"
    );
}
