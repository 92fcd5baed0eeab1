//! Waiting: whoever expects something at once looks for it a moment before they sleep.
//!
//! A thread that sleeps has to be woken, and its processor too. On one machine that takes longer than many a
//! server takes to answer. So where the last waits were short, a [`Spin`] is taken first; where they were
//! not, one sleeps at once.
//!
//! A [`SpinningSocket`] socket does so when it has written something and nothing else is going on, as a [`SoleActivity`]
//! tells. It keeps nobody waiting for long: every few looks it sleeps all the same.

mod socket;
mod sole_activity;
mod spin;

pub use socket::SpinningSocket;
pub use sole_activity::SoleActivity;
pub use spin::Spin;
