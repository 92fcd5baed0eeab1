//! What was promised in a simulation, kept beside the store and compared with what its files say.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use serde_json::Value;

use crate::support::lines;

/// A call that was put to the log.
#[derive(Debug, Clone)]
pub(super) struct CallState {
    /// Which of the simulated processes it belongs to.
    pub(super) process: u64,
    pub(super) answer: Answer,
    pub(super) end: End,
    /// The seconds since the simulation began.
    pub(super) began: i64,
    pub(super) is_dropped: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is on record, whatever comes.
    Taken,
    /// It left no trace.
    Refused,
    /// Its sync failed, or a power cut came: it may be on record.
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Open,
    /// It is in the backlog, which a crash loses.
    Queued,
    /// The log has it.
    Written,
}

/// The calls by id.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) calls: BTreeMap<String, CallState>,
    pub(super) alive: BTreeSet<u64>,
}

/// How often each call has each kind of entry.
#[derive(Debug, Default)]
pub(super) struct Found {
    forwarding: BTreeMap<String, u32>,
    finished: BTreeMap<String, u32>,
    unknown: BTreeMap<String, u32>,
}

impl Found {
    pub(super) fn read(dir: &Path) -> Self {
        let mut found = Self::default();
        for line in lines(dir) {
            let Some(Value::String(id)) = line.get("id") else {
                continue;
            };
            let kinds = match line["kind"].as_str() {
                Some("forwarding") => &mut found.forwarding,
                Some("finished") => &mut found.finished,
                Some("unknown") => &mut found.unknown,
                _ => continue,
            };
            *kinds.entry(id.clone()).or_default() += 1;
        }
        found
    }

    pub(super) fn has(&self, id: &str) -> bool {
        self.forwarding.contains_key(id)
    }
}

fn count(kind: &BTreeMap<String, u32>, id: &str) -> u32 {
    kind.get(id).copied().unwrap_or_default()
}

impl Model {
    /// Compares what is on record with what was promised. `all_dead_are_closed` is for a moment after a start.
    pub(super) fn check(&self, dir: &Path, all_dead_are_closed: bool) {
        let found = Found::read(dir);
        for id in found.forwarding.keys() {
            assert!(self.calls.contains_key(id), "call {id} was invented");
        }
        for (id, call) in self.calls.iter().filter(|(_, call)| !call.is_dropped) {
            let forwarded = count(&found.forwarding, id);
            match call.answer {
                Answer::Taken => assert_eq!(forwarded, 1, "call {id} was answered: {call:?}"),
                Answer::Refused => assert_eq!(forwarded, 0, "call {id} was refused: {call:?}"),
                Answer::Unknown => assert!(forwarded <= 1, "call {id}: {call:?}"),
            }
            let (finished, unknown) = (count(&found.finished, id), count(&found.unknown, id));
            // A crash between closing a dead writer's calls and sealing its chain repeats the closing.
            let ended_twice = finished > 1 || (finished > 0 && unknown > 0);
            assert!(!ended_twice, "call {id} ended twice: {call:?}");
            if call.end == End::Written {
                assert_eq!(finished, 1, "the end of call {id} was written: {call:?}");
            }
            let is_dead = !self.alive.contains(&call.process);
            if all_dead_are_closed && is_dead && forwarded == 1 {
                assert!(finished + unknown > 0, "call {id} has no end: {call:?}");
            }
        }
    }
}
