//! The catalog that all servers make together, and telling hosts when what they see has changed.

use std::sync::{Arc, PoisonError, atomic::Ordering};

use callgate_call::{Announcement, Audience};
use callgate_gate::{Catalog, Finding, ItemKind, Listing, Policy};
use callgate_wire::{message, methods};
use tokio::time::Instant;

use super::Fleet;
use crate::server::Server;

impl Fleet {
    /// Makes the catalog anew.
    pub(super) fn rebuild(&self) {
        self.rebuild_after(&self.policy.load());
    }

    /// Makes the catalog anew. Hosts are told when what they could see under the policy before is not
    /// what they see now.
    pub(super) fn rebuild_after(&self, policy_before: &Policy) {
        let _one_at_a_time = self
            .rebuilding
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let active = self.roster.active();
        let mut listings: Vec<Listing> = active.iter().map(|server| server.listing()).collect();
        let quarantined = self.keep_to_pins(&mut listings);
        // What this program brings itself needs no pin.
        listings.extend(self.in_house.load().iter().map(|one| one.listing()));
        let (catalog, findings) = Catalog::build(self.naming(), listings);
        let catalog = catalog.with_quarantined(quarantined);
        for Finding::ShownTwice {
            shown,
            kept,
            left_out,
        } in findings
        {
            tracing::warn!(
                shown,
                kept,
                left_out,
                "two tools or prompts have one shown name; the later is left out"
            );
        }
        let (before, policy) = (self.catalog.load(), self.policy.load());
        let items_changed = |kind| {
            let listed_before = before.items(kind, policy_before, None);
            !listed_before.eq(catalog.items(kind, &policy, None))
        };
        let changes = [
            (
                !before.listed(policy_before).eq(catalog.listed(&policy)),
                methods::TOOLS_CHANGED,
            ),
            (items_changed(ItemKind::Prompt), methods::PROMPTS_CHANGED),
            (
                items_changed(ItemKind::Resource) || items_changed(ItemKind::Template),
                methods::RESOURCES_CHANGED,
            ),
        ];
        self.catalog.store(Arc::new(catalog));
        if !self.lists_are_answered() {
            return;
        }
        for (_, method) in changes.into_iter().filter(|(changed, _)| *changed) {
            let frame = message::notification(method, None);
            // Nobody listening is no failure.
            let _ = self.announce.send(Announcement {
                audience: Audience::All,
                server: None,
                frame,
            });
        }
    }

    /// Whether a list can have been answered from the snapshot before: as long as one would wait for
    /// a first connect, no host has a list that could have changed. Once it was so it stays so, though
    /// another configuration may start servers.
    pub(super) fn lists_are_answered(&self) -> bool {
        let can_list = |server: &Arc<Server>| server.state.borrow().can_list();
        self.answered.load(Ordering::Acquire)
            || Instant::now() >= self.list_deadline()
            || self.roster.active().iter().all(can_list)
    }

    /// Until when lists and calls wait for servers in their first connect.
    pub(super) fn list_deadline(&self) -> Instant {
        self.started + self.supplies.load().options.connect_wait
    }
}
