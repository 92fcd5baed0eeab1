//! Building the catalog from the lists of all servers, and notifying hosts when their view of it changes.

use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, atomic::Ordering},
};

use callgate_call::{Announcement, Audience};
use callgate_gate::{Catalog, Item, ItemKind, Listing, Policy, ServerName, Tool};
use callgate_wire::{message, methods};
use tokio::time::Instant;

use super::Fleet;
use crate::server::Server;

impl Fleet {
    pub(super) fn rebuild(&self) {
        self.rebuild_after(&self.policy.load());
    }

    /// Rebuilds the catalog, and notifies hosts if what they could see under `policy_before` differs from
    /// what they see now.
    pub(super) fn rebuild_after(&self, policy_before: &Policy) {
        // Servers rebuild from their own tasks: without the lock the older catalog could be stored last.
        let _one_at_a_time = self
            .rebuilding
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let active = self.roster.active();
        let mut listings: Vec<Listing> = active.iter().map(|server| server.listing()).collect();
        let quarantined = self.apply_pins(&mut listings);
        // Definitions that ship with this program need no pin.
        listings.extend(self.local_providers.load().iter().map(|one| one.listing()));
        let before = self.links.catalog().load();
        // Until hosts can have a list, the configuration alone decides whose a URI is, and not who connects first.
        let (catalog, findings) = match self.published.load(Ordering::Acquire) {
            true => Catalog::build_after(&before, self.naming(), listings),
            false => Catalog::build(self.naming(), listings),
        };
        let catalog = catalog.with_quarantined(quarantined);
        findings.iter().for_each(crate::log::shown_twice);
        let policy = self.policy.load();
        let changes = changes((&before, policy_before), (&catalog, &policy));
        self.links.catalog().store(Arc::new(catalog));
        let is_answered = self.lists_are_answered();
        self.published.store(is_answered, Ordering::Release);
        // No host can have a list yet, so none of them has to ask again.
        if !is_answered {
            return;
        }
        for (servers, method) in changes {
            if servers.is_empty() {
                continue;
            }
            let frame = message::notification(method, None);
            // An error only means that no host is listening.
            let _ = self.announce.send(Announcement {
                audience: Audience::All,
                servers,
                frame,
            });
        }
    }

    /// Whether a host can already have a list. While lists still wait for a first connect, no host has one
    /// that could have changed. Once true it stays true, although a reload may start servers.
    pub(super) fn lists_are_answered(&self) -> bool {
        let can_list = |server: &Arc<Server>| server.state.borrow().can_list();
        self.answered.load(Ordering::Acquire)
            || Instant::now() >= self.list_deadline()
            || self.roster.active().iter().all(can_list)
    }

    /// How long lists and calls wait for servers in their first connect.
    pub(super) fn list_deadline(&self) -> Instant {
        self.started + self.supplies.load().options.connect_wait
    }
}

/// A catalog, and the policy that filters it.
type FilteredCatalog<'a> = (&'a Catalog, &'a Policy);

/// The kinds of lists, each with the servers whose part of it changed: a host that may use none of these
/// servers is not notified.
fn changes(
    before: FilteredCatalog<'_>,
    after: FilteredCatalog<'_>,
) -> [(Vec<ServerName>, &'static str); 3] {
    let items = |kind| {
        differing(
            before.0.items(kind, before.1, None).map(of_item),
            after.0.items(kind, after.1, None).map(of_item),
        )
    };
    let tools = differing(
        before.0.listed(before.1).map(of_tool),
        after.0.listed(after.1).map(of_tool),
    );
    let resources = [ItemKind::Resource, ItemKind::Template].map(items);
    [
        (tools, methods::TOOLS_CHANGED),
        (items(ItemKind::Prompt), methods::PROMPTS_CHANGED),
        (resources.concat(), methods::RESOURCES_CHANGED),
    ]
}

fn of_tool(tool: &Arc<Tool>) -> (&ServerName, &Arc<Tool>) {
    (&tool.server, tool)
}

fn of_item(item: &Arc<Item>) -> (&ServerName, &Arc<Item>) {
    (&item.server, item)
}

/// The servers whose part of a list changed; all of them if only their order did.
fn differing<'c, T: PartialEq + 'c>(
    before: impl Iterator<Item = (&'c ServerName, &'c T)>,
    after: impl Iterator<Item = (&'c ServerName, &'c T)>,
) -> Vec<ServerName> {
    let (before, after): (Vec<_>, Vec<_>) = (before.collect(), after.collect());
    if before == after {
        return Vec::new();
    }
    let all: BTreeSet<&ServerName> = before.iter().chain(&after).map(|(of, _)| *of).collect();
    let is_another = |server: &&ServerName| {
        let own = |(of, _): &&(&ServerName, &T)| of == server;
        !before.iter().filter(own).eq(after.iter().filter(own))
    };
    let own: Vec<ServerName> = all.iter().copied().filter(is_another).cloned().collect();
    match own.is_empty() {
        true => all.into_iter().cloned().collect(),
        false => own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_whose_part_changed_are_named() {
        let [a, b, c] = ["a", "b", "c"].map(|name| ServerName::new(name).unwrap());
        let [a, b, c] = [&a, &b, &c];
        let before = [(a, &1), (b, &2), (b, &3)];
        let told = |after: &[(&ServerName, &i32)]| -> String {
            let servers = differing(before.iter().copied(), after.iter().copied());
            servers.iter().map(ServerName::as_str).collect()
        };
        assert_eq!(told(&before), "");
        assert_eq!(told(&[(a, &1), (a, &9), (b, &2), (b, &3)]), "a");
        assert_eq!(told(&[(a, &1), (b, &3), (b, &2)]), "b");
        assert_eq!(told(&[(a, &1), (b, &2), (b, &3), (c, &4)]), "c");
        assert_eq!(told(&[(a, &5)]), "ab");
        assert_eq!(told(&[(b, &2), (b, &3), (a, &1)]), "ab", "the order alone");
    }
}
