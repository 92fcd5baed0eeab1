//! What was promised in a simulation, kept beside the gateways and compared with what their files say.

use std::collections::{BTreeMap, BTreeSet};

use super::found::Entries;

/// A call that a host made.
#[derive(Debug, Clone)]
pub(super) struct CallState {
    /// Which of the simulated processes it belongs to.
    pub(super) process: u64,
    /// Whether its server got it.
    pub(super) is_reached: bool,
    /// Whether its host was told that it cannot be put on record.
    pub(super) is_unrecorded: bool,
    pub(super) end: End,
    /// The seconds since the simulation began.
    pub(super) began: i64,
    pub(super) is_dropped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Open,
    /// It is in the backlog, which a crash loses.
    Queued,
    /// The log has it.
    Written,
}

/// The calls by the keys of their requests.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) calls: BTreeMap<u64, CallState>,
    pub(super) alive: BTreeSet<u64>,
    /// Whether an entry can be on record although its write or sync failed: after a failed sync, or while one is waited for.
    pub(super) is_power: bool,
}

impl Model {
    /// Compares what is on record with what was promised. `all_dead_are_closed` is for a moment after a start.
    pub(super) fn check(&self, found: &BTreeMap<u64, Entries>, all_dead_are_closed: bool) {
        for key in found.keys() {
            assert!(self.calls.contains_key(key), "call {key} was invented");
        }
        let none = Entries::default();
        for (key, call) in self.calls.iter().filter(|(_, call)| !call.is_dropped) {
            let on_record = found.get(key).unwrap_or(&none);
            let Entries {
                forwarding,
                finished,
                unknown,
                ..
            } = *on_record;
            assert!(forwarding <= 1, "call {key} is on record twice: {call:?}");
            if call.is_reached {
                let why = "reached its server and is not on record";
                assert_eq!(forwarding, 1, "call {key} {why}: {call:?}");
            }
            if call.is_unrecorded && !self.is_power {
                let why = "was refused because it could not be recorded, and was";
                assert_eq!(forwarding, 0, "call {key} {why}: {call:?}");
            }
            // A crash between closing a dead writer's calls and sealing its chain repeats the closing.
            let ended_twice = finished > 1 || (finished > 0 && unknown > 0);
            assert!(!ended_twice, "call {key} ended twice: {call:?}");
            if call.end == End::Written {
                assert_eq!(finished, 1, "the end of call {key} was written: {call:?}");
            }
            let is_dead = !self.alive.contains(&call.process);
            if all_dead_are_closed && is_dead && forwarding == 1 {
                assert!(finished + unknown > 0, "call {key} has no end: {call:?}");
            }
        }
    }
}
