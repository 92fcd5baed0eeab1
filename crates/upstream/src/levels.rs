//! The log levels that hosts asked for, so that servers that come later are told as well.

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
    last: Mutex<HashMap<Kind, Frame>>,
}

/// Hosts that share connections: principal and capabilities.
type Kind = (String, String);

impl Levels {
    /// Notes what a host asked for; the last of its kind counts.
    pub(crate) fn note(&self, host: &Host, request: &Frame) {
        self.lock().insert(kind(host), request.clone());
    }

    /// What is to be repeated over a new connection of `profile`.
    pub(crate) fn of(&self, profile: &Profile) -> Option<Frame> {
        let last = self.lock();
        let fits = |(principal, capabilities): &Kind| {
            let own = profile.principal.as_ref();
            *capabilities == profile.capabilities && own.is_none_or(|own| own == principal)
        };
        let found = last.iter().find(|(kind, _)| fits(kind));
        found.map(|(_, request)| request.clone())
    }

    /// The level that hosts of this kind want.
    pub(crate) fn level(&self, host: &Host) -> Option<LogLevel> {
        let last = self.lock();
        let level = last.get(&kind(host))?.param("level")?;
        LogLevel::read(level)
    }

    /// Forgets what hosts asked for of whose kind there is none left.
    pub(crate) fn forget(&self, host: &Host) {
        self.lock().remove(&kind(host));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Kind, Frame>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn kind(host: &Host) -> Kind {
    (host.who.principal.clone(), host.capabilities.clone())
}
