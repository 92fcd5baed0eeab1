//! Look-alike names: finds tools that people could confuse.

use std::collections::HashMap;

use super::{PinMode, Pins, has_hidden};
use crate::{Tool, policy::looks};

/// The names in use, by visual skeleton. Pinned names come first, then listed ones in order.
pub(super) struct LookalikeIndex(HashMap<String, Vec<NameInUse>>);

#[derive(Debug)]
struct NameInUse {
    canonical: String,
    server: String,
    is_pinned: bool,
    is_listed: bool,
}

impl LookalikeIndex {
    /// Indexes pinned names, listed or not, and all listed names.
    pub(super) fn of(pins: &Pins, servers: &[Vec<Tool>]) -> Self {
        let mut all = Self(HashMap::new());
        match pins.mode {
            PinMode::Off => {}
            PinMode::Tofu | PinMode::Locked => {
                for (server, tool) in pins.lock.names() {
                    all.add(server, tool, true);
                }
            }
        }
        for tool in servers
            .iter()
            .flatten()
            .filter(|tool| !has_hidden(&tool.name))
        {
            all.add(tool.server.as_str(), &tool.name, false);
        }
        all
    }

    fn add(&mut self, server: &str, tool: &str, is_pinned: bool) {
        let canonical = [server, ":", tool].concat();
        // The server's name is part of the comparison: `rnail:send` imitates `mail:send`.
        let alike = self.0.entry(looks(&canonical)).or_default();
        match alike.iter_mut().find(|one| one.canonical == canonical) {
            Some(known) => known.is_listed |= !is_pinned,
            None => alike.push(NameInUse {
                canonical,
                server: server.to_owned(),
                is_pinned,
                is_listed: !is_pinned,
            }),
        }
    }

    /// Another name that a new tool could be confused with. Two new look-alikes of one server are allowed: no trust boundary
    /// lies between them.
    pub(super) fn twin(&self, tool: &Tool) -> Option<&str> {
        self.find(tool, |one| {
            one.is_pinned || one.server != tool.server.as_str()
        })
    }

    /// Like [`Self::twin`], among the tools that other servers list now.
    pub(super) fn listed_twin(&self, tool: &Tool) -> Option<&str> {
        self.find(tool, |one| {
            one.is_listed && one.server != tool.server.as_str()
        })
    }

    /// Like [`Self::twin`], if listed earlier: without pins no person chooses, so the first one wins.
    pub(super) fn earlier_twin(&self, tool: &Tool) -> Option<&str> {
        let alike = self.0.get(&looks(&tool.canonical()))?;
        let first = alike.first()?;
        let is_twin = first.canonical != tool.canonical() && first.server != tool.server.as_str();
        is_twin.then_some(first.canonical.as_str())
    }

    fn find(&self, tool: &Tool, counts: impl Fn(&NameInUse) -> bool) -> Option<&str> {
        let canonical = tool.canonical();
        let mut alike = self.0.get(&looks(&canonical))?.iter();
        let twin = alike.find(|one| one.canonical != canonical && counts(one))?;
        Some(&twin.canonical)
    }
}
