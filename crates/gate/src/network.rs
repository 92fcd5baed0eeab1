//! How policy reads hosts and addresses. A room that connects to hosts must read them in the same way.

pub use crate::policy::{AddressRange, AmbiguousHost, embedded_ipv4, hosts};
