//! Waiting: whoever expects something at once looks for it a moment before they sleep.
//!
//! A thread that sleeps has to be woken, and its processor too. On one machine that takes longer than many a
//! server takes to answer. So where the last waits were short, a [`Look`] is taken first; where they were
//! not, one sleeps at once.
//!
//! A [`Looking`] socket does so when it has written something and nothing else is going on, as a [`Streak`]
//! tells. It keeps nobody waiting for long: every few looks it sleeps all the same.

mod look;
mod socket;
mod streak;

pub use look::Look;
pub use socket::Looking;
pub use streak::Streak;
