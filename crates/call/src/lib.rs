//! The life of a call.
//!
//! Every door passes its requests to [`CallPath::start`]; there is no other way to a provider. The steps are files:
//! [`receive`], [`resolve`], [`intent`], [`facts`], then `decide` in the gate, [`hold`], `path/recording.rs`, [`forward`],
//! [`inspect`] and [`finish`]. `path.rs` has their order.
//!
//! The task that polls a call's [`Pending`] runs the steps. When its door drops it, the call is cancelled and the rest becomes
//! a task of the path, so its end is still recorded.
//!
//! A question that a server asks during a call goes to the host. Where host and server speak different eras, this takes
//! several rounds: `path/rounds.rs` and `path/repeat.rs`.
//!
//! [`Events`] is the only place that reports what happens: it writes the log line, updates the metrics and notifies listeners.
//! Each step is also a span.
//!
//! [`CallPath::check`] answers whether a call may happen that another gateway or program would make.
//!
//! This room knows neither providers nor doors, only the ports that they implement ([`Provider`], [`Providers`], [`Caller`]).

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
mod links;
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
pub use check::CheckError;
pub use events::{Event, Events};
pub use facts::{is_another_name, reach, real_path};
pub use failure::Failure;
pub use finish::{APPROVAL_HEADLINE, DENIED_HEADLINE, SERVER_INFO, for_stateless_host};
pub use links::Links;
pub use metrics::{Latency, Metrics, Standing};
pub use path::{CallPath, DrainDeadlines, Pending, ScriptRun, ScriptRunEnd};
pub use ports::{
    AskFailed, Caller, Exchange, Guard, LocalProvider, Provider, Providers, Reply, Resident,
};
pub use receive::{Reading, Received};
pub use registry::Registry;
pub use resolve::{QUARANTINED, resolve_resource};
pub use seal::SealKey;
pub use telemetry::Telemetry;
pub use trace::{Spans, StepSpan, TraceContext};
