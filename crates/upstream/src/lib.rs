//! Third-party MCP servers: started, supervised, listed and called.
//!
//! A [`Fleet`] keeps every configured server running and makes the catalog out of what they
//! list. Each server has a primary *lane* (a process and the connection to it) and further ones
//! for hosts that differ in principal or capabilities. A request is written only as a
//! [`Recorded`](callgate_record::Recorded) call or as one of a closed set of housekeeping messages.
//!
//! This room makes no decisions about calls and keeps no record of them; it reports what happened.

mod change_queue;
mod connection;
mod definitions;
mod eras;
mod fleet;
mod guard;
mod handshake;
mod http;
mod inbound;
mod lane;
mod lanes;
mod levels;
mod link;
mod listening;
mod lists;
mod log;
mod outgoing;
mod pending;
mod roster;
mod server;
mod spec;
mod stopped_clock;
mod subscriptions;
mod supplies;
mod tasks;

use callgate_gate::{Endpoint, EndpointError, Launch, Protocol, ServerSpec};

pub use definitions::saved_tools;
pub use fleet::{Fleet, FleetPlan, ServerReport};
pub use guard::{GuardError, RemoteGuard};
pub use server::ServerStatus;
pub use spec::{FleetOptions, PinStoreHandle, Profile};
