//! Pins between what servers list and what hosts see: definitions that were not accepted are withheld and
//! reported.

use std::{
    collections::{BTreeMap, HashSet},
    sync::PoisonError,
};

use callgate_call::events::upstreams::{ToolFlagged, ToolQuarantined};
use callgate_gate::{
    Listing, Tool,
    pins::{Accepted, Lock, MAX_TOOL_NAME_CHARS, Names, Quarantined, Sorted, flags},
};
use callgate_record::RecordType;

use super::Fleet;

impl Fleet {
    /// Removes from `listings` what hosts must not see, and returns it.
    pub(super) fn apply_pins(&self, listings: &mut [Listing]) -> Vec<Quarantined> {
        let listed: Vec<Vec<Tool>> = listings
            .iter()
            .map(|listing| listing.tools.clone().unwrap_or_default())
            .collect();
        let naming = self.naming();
        let mut sorted = self.pins.load().sort(&listed, &naming);
        if !sorted.fresh.is_empty() {
            // Before they are pinned: later, the definitions would no longer count as new.
            self.flag(&sorted.fresh, listed.iter().flatten());
            self.pin(&sorted.fresh);
            // Sorted again: another gateway may have pinned another definition of the same name meanwhile.
            sorted = self.pins.load().sort(&listed, &naming);
        }
        let Sorted {
            accepted,
            quarantined,
            ..
        } = sorted;
        for (listing, accepted) in listings.iter_mut().zip(accepted) {
            listing.tools = listing.tools.is_some().then_some(accepted);
        }
        self.report_quarantined(&quarantined);
        quarantined
    }

    /// Reports suspicious definitions that are accepted nevertheless.
    fn flag<'t>(&self, fresh: &[Tool], all: impl Iterator<Item = &'t Tool>) {
        let names = Names::of(all, &self.naming());
        for tool in fresh {
            let flags: Vec<String> = flags(tool, &names)
                .iter()
                .map(ToString::to_string)
                .collect();
            if !flags.is_empty() {
                self.events.emit(ToolFlagged {
                    server: &tool.server,
                    tool: &tool.name,
                    flags: &flags,
                });
            }
        }
    }

    /// Adds new definitions to the lock. If the file cannot be written, the pins last until this process ends.
    fn pin(&self, fresh: &[Tool]) {
        let mut pins = (**self.pins.load()).clone();
        let accept = |lock: &mut Lock, tool: &Tool| lock.accept_tool(tool, Accepted::AtFirstSight);
        fresh.iter().for_each(|tool| accept(&mut pins.lock, tool));
        let options = &self.supplies.load().options;
        if let Some(kept) = &options.pin_store {
            let mut add = |lock: &mut Lock| {
                for tool in fresh {
                    // An entry in the file wins, even one that cannot be read: overwriting it would lose a decision.
                    if !lock.has(tool.server.as_str(), &tool.name) {
                        accept(lock, tool);
                    }
                }
            };
            match kept.0.change(&mut add) {
                Ok(lock) => pins.lock = lock,
                Err(error) => crate::log::pins_not_saved(&error),
            }
        }
        self.pins.store(pins.into());
    }

    /// Reports each quarantined tool once, and again if the reason changes.
    fn report_quarantined(&self, quarantined: &[Quarantined]) {
        let reasons: BTreeMap<String, String> = quarantined
            .iter()
            .map(|one| (one.tool.canonical(), one.reason.to_string()))
            .collect();
        let mut told = self
            .reported_quarantine
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known: HashSet<(&String, &String)> = told.iter().collect();
        for one in quarantined {
            let (name, reason) = (one.tool.canonical(), one.reason.to_string());
            if known.contains(&(&name, &reason)) {
                continue;
            }
            self.events.emit(ToolQuarantined {
                server: &one.tool.server,
                tool: &short_name(&one.tool),
                reason: &reason,
            });
            self.recorder.event(
                RecordType::Server,
                "tool.quarantined",
                Some(one.tool.server.as_str()),
                Some(format!("{}: {reason}", short_name(&one.tool))),
            );
        }
        *told = reasons;
    }
}

/// The name of a tool, cut to the longest allowed length: a hostile name may have any.
fn short_name(tool: &Tool) -> String {
    tool.name.chars().take(MAX_TOOL_NAME_CHARS).collect()
}
