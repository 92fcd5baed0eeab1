//! Spins briefly before a wait sleeps.
//!
//! Waking a sleeping thread, and the processor that it slept on, often takes longer than a local server takes to answer. So
//! where the last waits were short, a [`Spin`] polls before the thread sleeps; where they were not, it sleeps at once.
//!
//! A [`SpinningSocket`] spins after a write, while no other socket is active as [`SoleActivity`] measures it. It sleeps
//! regularly all the same, so that other tasks of its thread are not starved.

mod socket;
mod sole_activity;
mod spin;

pub use socket::SpinningSocket;
pub use sole_activity::SoleActivity;
pub use spin::Spin;
