//! The servers in use, in configuration order, and how one configuration follows another.
//!
//! A server whose configuration changed keeps serving until its successor has connected; then it finishes
//! its calls in flight and stops. So a reload drops no call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use callgate_gate::ServerName;

use crate::{ServerSpec, server::Server};

#[derive(Debug, Default)]
pub(crate) struct Roster {
    slots: Mutex<Vec<Slot>>,
    // A copy beside `slots`, because every call looks its server up and must not wait for a reload.
    active: ArcSwap<Vec<Arc<Server>>>,
}

#[derive(Debug)]
struct Slot {
    active: Arc<Server>,
    successor: Option<Arc<Server>>,
}

/// What the fleet has to do after a change of the roster.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) started: Vec<Arc<Server>>,
    /// Those of `started` that replace a server, and are promoted once they have settled.
    pub(crate) successors: Vec<Arc<Server>>,
    /// Servers that finish their calls in flight and stop.
    pub(crate) retired: Vec<Arc<Server>>,
}

impl Roster {
    /// The servers that calls go to.
    pub(crate) fn active(&self) -> Arc<Vec<Arc<Server>>> {
        self.active.load_full()
    }

    pub(crate) fn find(&self, name: &ServerName) -> Option<Arc<Server>> {
        self.active
            .load()
            .iter()
            .find(|server| server.spec.name == *name)
            .cloned()
    }

    /// Applies a new configuration. Servers that did not change are not touched.
    pub(crate) fn apply(
        &self,
        specs: Vec<ServerSpec>,
        new_server: impl Fn(ServerSpec) -> Arc<Server>,
    ) -> Changes {
        let mut changes = Changes::default();
        let mut slots = self.lock();
        let mut old: Vec<Slot> = slots.drain(..).collect();
        for spec in specs {
            let at = old
                .iter()
                .position(|slot| slot.active.spec.name == spec.name);
            let slot = match at.map(|at| old.remove(at)) {
                None => {
                    let active = new_server(spec);
                    changes.started.push(active.clone());
                    Slot {
                        active,
                        successor: None,
                    }
                }
                Some(slot) => slot.follow(spec, &new_server, &mut changes),
            };
            slots.push(slot);
        }
        // These servers are no longer configured.
        for Slot { active, successor } in old {
            changes.retired.push(active);
            changes.retired.extend(successor);
        }
        self.publish(&slots);
        changes
    }

    /// Puts a successor in its predecessor's place, unless a later configuration has replaced it.
    /// Returns the predecessor, which has to be retired.
    pub(crate) fn promote(&self, successor: &Arc<Server>) -> Option<Arc<Server>> {
        let mut slots = self.lock();
        let waits = |slot: &&mut Slot| {
            slot.successor
                .as_ref()
                .is_some_and(|waiting| Arc::ptr_eq(waiting, successor))
        };
        let slot = slots.iter_mut().find(waits)?;
        slot.successor = None;
        let predecessor = std::mem::replace(&mut slot.active, successor.clone());
        self.publish(&slots);
        Some(predecessor)
    }

    fn publish(&self, slots: &[Slot]) {
        self.active.store(Arc::new(
            slots.iter().map(|slot| slot.active.clone()).collect(),
        ));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn follow(
        self,
        spec: ServerSpec,
        new_server: &impl Fn(ServerSpec) -> Arc<Server>,
        changes: &mut Changes,
    ) -> Self {
        let Self { active, successor } = self;
        // Changed back before the successor was ready: the old server never stopped serving.
        if active.spec == spec {
            changes.retired.extend(successor);
            return Self {
                active,
                successor: None,
            };
        }
        // The same change again: restarting its successor would only delay it.
        if let Some(waiting) = successor.as_ref().filter(|waiting| waiting.spec == spec) {
            return Self {
                active,
                successor: Some(waiting.clone()),
            };
        }
        changes.retired.extend(successor);
        let fresh = new_server(spec);
        changes.started.push(fresh.clone());
        changes.successors.push(fresh.clone());
        Self {
            active,
            successor: Some(fresh),
        }
    }
}
