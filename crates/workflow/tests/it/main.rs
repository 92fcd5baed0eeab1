//! Workflows: what is found wrong with them, and how they are walked.

#![allow(
    clippy::too_many_lines,
    reason = "a test may list many cases, or tell one story from start to end"
)]

mod beside;
mod constructs;
mod findings;
mod flow;
mod forms;
mod full_form;
mod hooks;
mod inner;
mod journal;
mod loops;
mod stage;
