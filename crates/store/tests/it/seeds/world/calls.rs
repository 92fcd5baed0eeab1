//! Calls of a simulated machine: hosts make them, servers end them, and what became of them is noted.

use super::{End, World};
use crate::seeds::{gateway::Told, model::CallState, servers::Act};

/// How many different calls need approval.
const DIFFERENT: u64 = 3;

impl World {
    /// A host calls a tool through one of the gateways.
    pub(super) fn call(&mut self, tool: &str) {
        let at = self.random.index(self.processes.len());
        self.calls += 1;
        let (key, argument) = (self.calls, self.random.below(DIFFERENT));
        let call = CallState {
            process: self.processes[at].number,
            is_reached: false,
            is_unrecorded: false,
            end: End::Open,
            began: self.clock.passed(),
            is_dropped: false,
        };
        self.model.calls.insert(key, call);
        self.processes[at].gateway.call(key, tool, argument);
        // Most calls do not wait long for a sync.
        if self.random.happens(700) {
            self.turn_of(at);
        }
    }

    /// A server ends its work on a call.
    pub(super) fn act(&mut self) {
        let at = self.random.index(self.processes.len());
        let waiting = self.processes[at].gateway.servers.waiting();
        if waiting.is_empty() {
            return;
        }
        let key = *self.random.pick(&waiting);
        let act = *self
            .random
            .pick(&[Act::Answer, Act::Answer, Act::Answer, Act::Fail, Act::Die]);
        let before = self.processes[at].log.backlog();
        self.processes[at].gateway.servers.act(key, act);
        self.processes[at].gateway.settle();
        let process = &self.processes[at];
        // Also on a full disk.
        assert!(
            process.log.backlog() <= before || self.has_failed || process.life.is_over(),
            "the end of call {key} has its room"
        );
        if self.random.happens(700) {
            self.turn_of(at);
        }
    }

    pub(super) fn leave(&mut self) {
        let at = self.random.index(self.processes.len());
        let gone = self.processes[at].gateway.leave(&mut self.random);
        if self.tells {
            println!("the host of call {gone:?} is gone");
        }
    }

    /// The thread of a log wakes up.
    pub(super) fn turn(&mut self) {
        let at = self.random.index(self.processes.len());
        self.turn_of(at);
    }

    fn turn_of(&mut self, at: usize) {
        let process = &self.processes[at];
        process.log.turn();
        process.gateway.settle();
    }

    /// Notes what has reached servers and hosts since the last look. What reached a server is on record by now.
    pub(super) fn observe(&mut self) {
        let mut is_new = false;
        for process in &mut self.processes {
            for key in process.gateway.servers.take_reached() {
                is_new = true;
                let call = self.model.calls.get_mut(&key).unwrap();
                assert!(!call.is_reached, "call {key} was made twice");
                call.is_reached = true;
            }
            let is_written = process.log.backlog() == 0;
            for (key, told) in process.gateway.take_answers() {
                let call = self.model.calls.get_mut(&key).unwrap();
                match told {
                    Told::Unrecorded => call.is_unrecorded = true,
                    Told::Answered if !call.is_reached || process.life.is_over() => {}
                    Told::Answered if is_written => call.end = End::Written,
                    Told::Answered => call.end = End::Queued,
                }
            }
            if is_written && !process.life.is_over() {
                let own = self.model.calls.values_mut();
                for call in own.filter(|call| call.process == process.number) {
                    if call.end == End::Queued {
                        call.end = End::Written;
                    }
                }
            }
        }
        let promised = self.promised.clone();
        if is_new {
            self.found.look(self.dir.path());
            let entries = self.found.entries();
            for (key, call) in &self.model.calls {
                let on_record = entries.get(key);
                let is_there = on_record.is_some_and(|entries| entries.forwarding == 1);
                let why = "reached its server and is not on record";
                assert!(
                    is_there || !call.is_reached || call.is_dropped,
                    "call {key} {why}"
                );
                let approval = on_record.and_then(|entries| entries.approval.as_deref());
                if let Some(id) = approval {
                    promised.lock().unwrap().used(id);
                }
            }
        }
        let broken = promised.lock().unwrap().broken().to_vec();
        assert!(broken.is_empty(), "{broken:?}");
    }

    pub(super) fn note_backlog_written(&mut self, process: u64) {
        let own = self.model.calls.values_mut();
        for call in own.filter(|call| call.process == process && call.end == End::Queued) {
            call.end = End::Written;
        }
    }
}
