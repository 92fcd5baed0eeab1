//! Pins: what each tool said about itself when it was trusted, and what becomes of one that says something else.
//!
//! A definition is input to a model, and a server may change it whenever it likes. So a tool is offered only while it
//! says what was accepted. Everything here is pure: files are read and written elsewhere, and what is odd about a
//! definition ([`flags`]) is told to people but decides nothing.

mod definition;
mod difference;
mod flags;
mod lock;

use std::{collections::HashMap, fmt};

use serde::{Deserialize, Serialize};

pub use definition::Definition;
pub(crate) use definition::digest_of;
pub use difference::{Difference, differences};
pub use flags::{Flag, Names, flags};
pub use lock::{Lock, LockError};

use crate::{
    Operation, ServerName, Tool,
    policy::looks,
    visible::{Layout, Piece, pieces, visible},
};

/// What is done with tools that nobody has accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PinMode {
    /// What is seen first is accepted; what changes later is not.
    #[default]
    Tofu,
    /// Only what the lock names is accepted.
    Locked,
    /// Nothing is compared.
    Off,
}

/// An accepted definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// What the tool said.
    pub definition: Definition,
    /// What the operator says it may do, instead of what the server declares.
    pub operator: Option<Operation>,
}

/// The accepted definitions, and how strictly they are kept to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    /// How strictly.
    pub mode: PinMode,
    /// What was accepted.
    pub lock: Lock,
    /// Whether the lock is a project's: then an override counts only where it makes a tool stricter.
    pub only_tightens: bool,
}

/// A tool that is kept from hosts, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// The tool as its server lists it now.
    pub tool: Tool,
    /// Why.
    pub reason: Quarantine,
}

/// Why a tool is kept from hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quarantine {
    /// It does not say what was accepted.
    Changed(Vec<Difference>),
    /// The lock does not name it.
    NotLocked,
    /// Its name looks like that of another tool.
    LooksLike(String),
    /// Its name has characters that cannot be seen.
    HiddenName,
}

impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(differences) => {
                let parts: Vec<&str> = differences.iter().map(|one| one.part.as_str()).collect();
                write!(
                    f,
                    "its definition is not the one that was accepted ({})",
                    parts.join(", ")
                )
            }
            Self::NotLocked => f.write_str("the lock does not name it"),
            Self::LooksLike(other) => write!(f, "its name looks like `{other}`"),
            Self::HiddenName => f.write_str("its name has characters that cannot be seen"),
        }
    }
}

impl Quarantine {
    /// Whether accepting the tool would help; a name that deceives is never accepted.
    pub fn can_be_accepted(&self) -> bool {
        match self {
            Self::Changed(_) | Self::NotLocked | Self::LooksLike(_) => true,
            Self::HiddenName => false,
        }
    }

    /// Whether hosts may be told that there is such a tool; a name that deceives is not repeated.
    pub fn lets_its_name_be_told(&self) -> bool {
        match self {
            Self::Changed(_) | Self::NotLocked => true,
            Self::LooksLike(_) | Self::HiddenName => false,
        }
    }
}

/// What becomes of the tools of all servers.
#[derive(Debug, Default)]
pub struct Sorted {
    /// What hosts may see, per server in the order given.
    pub accepted: Vec<Vec<Tool>>,
    /// What they may not.
    pub quarantined: Vec<Quarantined>,
    /// What was accepted because it was seen first: to be put into the lock.
    pub fresh: Vec<Tool>,
}

impl Pins {
    /// Sorts the tools of all servers, each server's in its own order. Of two look-alikes the pinned one, then the
    /// earlier one is kept.
    pub fn sort(&self, servers: &[Vec<Tool>]) -> Sorted {
        let mut taken = self.names_in_use();
        let mut sorted = Sorted::default();
        for tools in servers {
            let mut accepted = Vec::with_capacity(tools.len());
            for tool in tools {
                match self.judge(tool, &mut taken) {
                    Ok(Standing::Pinned(operator)) => accepted.push(match operator {
                        Some(operation) if self.takes(operation, tool) => tool.taken_as(operation),
                        Some(_) | None => tool.clone(),
                    }),
                    Ok(Standing::Fresh) => {
                        sorted.fresh.push(tool.clone());
                        accepted.push(tool.clone());
                    }
                    Err(reason) => {
                        let tool = tool.clone();
                        sorted.quarantined.push(Quarantined { tool, reason });
                    }
                }
            }
            sorted.accepted.push(accepted);
        }
        sorted
    }

    /// Whether an override counts. What the lock says that the server declared is not asked: a project wrote it.
    fn takes(&self, operation: Operation, tool: &Tool) -> bool {
        match operation {
            Operation::Destructive => true,
            Operation::Write => {
                !self.only_tightens
                    || (tool.hints.read_only == Some(true) && tool.hints.destructive != Some(true))
            }
            Operation::Read => !self.only_tightens,
        }
    }

    /// What pinned names look like: nothing else may look like them, whether they are listed or not.
    fn names_in_use(&self) -> HashMap<String, String> {
        match self.mode {
            PinMode::Off => HashMap::new(),
            PinMode::Tofu | PinMode::Locked => self
                .lock
                .pins()
                .map(|(server, tool, _)| format!("{server}:{tool}"))
                .map(|name| (looks(&name), name))
                .collect(),
        }
    }

    fn judge(
        &self,
        tool: &Tool,
        taken: &mut HashMap<String, String>,
    ) -> Result<Standing, Quarantine> {
        if has_hidden(&tool.name) {
            return Err(Quarantine::HiddenName);
        }
        let pin = match self.mode {
            PinMode::Off => None,
            PinMode::Tofu | PinMode::Locked => self.lock.pin(tool.server.as_str(), &tool.name),
        };
        if let Some(pin) = pin {
            if pin.definition.digest == tool.digest {
                return Ok(Standing::Pinned(pin.operator));
            }
            let now = Definition::of(tool);
            return Err(Quarantine::Changed(differences(&pin.definition, &now)));
        }
        let canonical = tool.canonical();
        let other = taken
            .entry(looks(&canonical))
            .or_insert_with(|| canonical.clone());
        let is_twin = *other != canonical
            // Two new tools of one server that look alike are that server's own affair.
            && (self.is_pinned(other) || server_of(other) != tool.server.as_str());
        if is_twin {
            return Err(Quarantine::LooksLike(other.clone()));
        }
        match self.mode {
            PinMode::Off => Ok(Standing::Pinned(None)),
            PinMode::Tofu => Ok(Standing::Fresh),
            PinMode::Locked => Err(Quarantine::NotLocked),
        }
    }

    fn is_pinned(&self, canonical: &str) -> bool {
        canonical
            .split_once(':')
            .is_some_and(|(server, tool)| self.lock.pin(server, tool).is_some())
    }
}

impl Lock {
    /// Accepts what `tool` says now.
    pub fn accept_tool(&mut self, tool: &Tool) {
        let definition = Definition::of(tool);
        let pin = Pin {
            definition,
            operator: None,
        };
        self.accept(tool.server.as_str(), &tool.name, pin);
    }

    /// What of this server the lock names and `tools` do not have.
    pub fn missing<'l>(&'l self, server: &ServerName, tools: &[Tool]) -> Vec<&'l str> {
        self.pins_of(server.as_str())
            .map(|(name, _)| name)
            .filter(|name| tools.iter().all(|tool| tool.name != *name))
            .collect()
    }
}

enum Standing {
    Pinned(Option<Operation>),
    Fresh,
}

/// A tool's canonical name as it may be shown to a person.
pub fn shown_name(tool: &Tool) -> String {
    visible(&tool.canonical(), Layout::OneLine)
}

fn has_hidden(name: &str) -> bool {
    let hidden = |piece: &Piece<'_>| matches!(piece, Piece::Hidden(_));
    pieces(name, Layout::OneLine).iter().any(hidden)
}

fn server_of(canonical: &str) -> &str {
    canonical.split_once(':').map_or("", |(server, _)| server)
}

#[cfg(test)]
mod tests;
