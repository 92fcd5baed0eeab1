//! The life of a call.
//!
//! Every door hands a request to [`CallPath::start`], and nothing else leads to a provider. The
//! steps are files: [`receive`], [`resolve`], [`intent`], [`facts`], then `decide` of the gate, [`hold`],
//! the recorder, [`forward`], [`inspect`] and [`finish`]. `path.rs` is their order.
//!
//! A call belongs to the path. Whoever waits for its answer walks the steps; when the door goes away
//! the call is cancelled, and ends in a task of the path: its end is still put on record.
//!
//! A server that asks in the middle of a call is answered by the host. Where host and server are of
//! different eras, that takes several rounds: `path/rounds.rs` and `path/repeat.rs`.
//!
//! What happens is told in one place: [`Events`] writes the log line, counts, and tells whoever
//! listens; each step is also a span.
//!
//! [`CallPath::check`] answers whether a call may happen that somebody else would make.
//!
//! This room knows no provider and no door, only the ports they fill ([`Provider`],
//! [`Providers`], [`Caller`]).

mod announce;
mod approval_service;
mod caller_driven;
mod check;
mod deferred_questions;
pub mod events;
mod facts;
mod failure;
mod finish;
mod forward;
mod hold;
mod inspect;
mod intent;
mod log;
mod metrics;
mod parking;
mod path;
mod ports;
mod receive;
mod registry;
mod resolve;
mod seal;
mod telemetry;
mod trace;

pub use announce::{Announcement, Audience};
pub use approval_service::{ApprovalService, ApprovalServiceError, ApprovalSettings, ApprovalView};
pub use caller_driven::CallerDriven;
pub use callgate_record::{RateUsage, Usage};
pub use check::NotChecked;
pub use events::{Event, Events};
pub use facts::{is_another_name, reach, real_path};
pub use failure::Failure;
pub use finish::{APPROVAL_HEADLINE, DENIED_HEADLINE, SERVER_INFO, for_stateless_host};
pub use metrics::{Latency, Metrics, Standing};
pub use path::{CallPath, Patience, Pending, ScriptRun, ScriptRunEnd};
pub use ports::{
    AskFailed, Caller, Exchange, Guard, InHouse, Provider, Providers, Reply, Resident,
};
pub use receive::{Reading, Received};
pub use registry::Registry;
pub use resolve::{QUARANTINED, resolve_resource};
pub use seal::SealKey;
pub use telemetry::Telemetry;
pub use trace::{Spans, StepSpan, TraceContext};
