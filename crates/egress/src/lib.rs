//! The way out of a sandbox. A boxed process has no network of its own; it reaches an [`Egress`] proxy over a Unix socket, and
//! the proxy connects it to the destinations that its box lists, and to nothing else.
//!
//! The proxy speaks `CONNECT` and plain HTTP with absolute URLs. It resolves names itself and connects only to addresses that
//! it has checked, so a name that changes its address between check and connection (DNS rebinding) leads nowhere. Addresses
//! that are not public are refused unless the box lists them. Every connection is reported to a [`ConnectionLog`]: where to,
//! how it ended and how many bytes went each way, never what was sent.
//!
//! This crate knows nothing of MCP, of policy or of tools, and makes no decision beyond its list of destinations. It does not
//! look into TLS. It follows no redirects and keeps no connection for another client.
//!
//! Without the feature `proxy` there is only [`DestinationRules`], for rooms that read configuration.

#![cfg_attr(
    test,
    allow(clippy::too_many_lines, reason = "a test may list many cases")
)]

mod address;
mod destination;
mod host;
mod rules;

#[cfg(feature = "proxy")]
mod accept;
#[cfg(feature = "proxy")]
mod answers;
#[cfg(feature = "proxy")]
mod bounded;
#[cfg(feature = "proxy")]
mod client;
#[cfg(feature = "proxy")]
mod connect;
#[cfg(feature = "proxy")]
mod egress;
#[cfg(feature = "proxy")]
mod forward;
#[cfg(feature = "proxy")]
mod log;
#[cfg(feature = "proxy")]
mod report;
#[cfg(feature = "proxy")]
mod resolver;
#[cfg(feature = "proxy")]
mod target;
#[cfg(feature = "proxy")]
mod watched;

pub use address::AddressKind;
pub use destination::{Destination, Host};
pub use rules::{BadDestination, DestinationFault, DestinationRules};

#[cfg(feature = "proxy")]
pub use egress::{Egress, Limits, Loopback, NotStarted, Options};
#[cfg(feature = "proxy")]
pub use report::{ConnectionLog, ConnectionReport, End, Failure, Outcome, Refusal, Traffic};
#[cfg(feature = "proxy")]
pub use resolver::{Resolver, SystemResolver};
