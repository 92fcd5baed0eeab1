//! The life of a call.
//!
//! Every door hands a request to [`CallPath::start`], and nothing else leads to a provider. The
//! steps are files: [`receive`], [`resolve`], [`facts`], then `decide` of the gate, [`hold`],
//! the recorder, [`forward`], [`inspect`] and [`finish`]. `path.rs` is their order.
//!
//! A call runs in a task of its own. A door only waits for the answer: when the door goes away
//! the call is cancelled, and its end is still put on record.
//!
//! This room knows no provider and no door, only the ports they fill ([`Provider`],
//! [`Providers`], [`Caller`]).

mod announce;
mod facts;
mod failure;
mod finish;
mod forward;
mod hold;
mod inspect;
mod path;
mod ports;
mod receive;
mod registry;
mod resolve;

pub use announce::{Announcement, Audience};
pub use failure::Failure;
pub use path::{CallPath, Pending};
pub use ports::{AskFailed, Caller, Exchange, Provider, Providers, Reply};
pub use receive::Received;
pub use registry::Registry;
