//! The log levels that hosts set, so that servers that connect later get them too.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use callgate_gate::Host;
use callgate_wire::{Frame, LogLevel};

use crate::Profile;

/// The last `logging/setLevel` of each kind of host.
#[derive(Debug, Default)]
pub(crate) struct Levels {
    last: Mutex<HashMap<HostKind, Frame>>,
}

/// Hosts that share connections: principal and capabilities.
type HostKind = (String, String);

impl Levels {
    /// Notes a host's request; the last one of its kind counts.
    pub(crate) fn note(&self, host: &Host, request: &Frame) {
        // Hosts of one kind share a connection, and a connection has one level.
        self.lock().insert(kind(host), request.clone());
    }

    /// The request to repeat over a new connection of `profile`.
    pub(crate) fn of(&self, profile: &Profile) -> Option<Frame> {
        let last = self.lock();
        let fits = |(principal, capabilities): &HostKind| {
            let own = profile.principal.as_ref();
            // A connection that no principal has claimed serves any of them.
            *capabilities == profile.capabilities && own.is_none_or(|own| own == principal)
        };
        let found = last.iter().find(|(kind, _)| fits(kind));
        found.map(|(_, request)| request.clone())
    }

    /// The level that hosts of this kind set; `None` if none did or it is unknown.
    pub(crate) fn level(&self, host: &Host) -> Option<LogLevel> {
        let last = self.lock();
        let level = last.get(&kind(host))?.param("level")?;
        LogLevel::read(level)
    }

    /// Forgets the request of a kind; for when its last host has gone.
    pub(crate) fn forget(&self, host: &Host) {
        self.lock().remove(&kind(host));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<HostKind, Frame>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kind(host: &Host) -> HostKind {
    (host.identity.principal.clone(), host.capabilities.clone())
}
