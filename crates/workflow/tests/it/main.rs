//! Workflows: what is found wrong with them, and how they are walked.

mod findings;
mod flow;
mod forms;
mod inner;
mod journal;
mod stage;
