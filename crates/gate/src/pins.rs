//! Pins: the accepted definition of each tool, and the quarantine of tools whose definition changed.
//!
//! A definition is input to a model, and a server can change it at any time. So a tool is offered only while its
//! definition is the accepted one, and a definition that looks like an attack ([`flags`]) is not accepted at first
//! sight. Everything here is pure: files are read and written elsewhere.

mod definition;
mod difference;
mod flags;
mod limits;
mod lock;
mod looks;

use std::{error, fmt};

use serde::{Deserialize, Serialize};

pub use definition::Definition;
pub(crate) use definition::digest_of;
pub use difference::{Difference, differences};
pub use flags::{Flag, Names, flags};
pub use limits::{
    MAX_DEFINITION_BYTES, MAX_DEFINITION_DEPTH, MAX_DEFINITION_VALUES, MAX_KEY_CHARS,
    MAX_TOOL_NAME_CHARS, OverLimit,
};
pub use lock::{Lock, MAX_LOCK_BYTES};

use crate::{
    Naming, Operation, ServerName, Tool,
    visible::{Layout, Piece, pieces, visible},
};
use looks::LookalikeIndex;

/// Longer names are cut for display.
const SHOWN_CHARS: usize = 160;

/// The storage of accepted definitions.
pub trait PinStore: fmt::Debug + Send + Sync {
    /// Edits the current lock and returns the result. After an error nothing has changed.
    fn change(
        &self,
        edit: &mut dyn FnMut(&mut Lock),
    ) -> Result<Lock, Box<dyn error::Error + Send + Sync>>;

    /// The name of the place; stores with equal names share one lock.
    fn place(&self) -> String;
}

/// The treatment of tools that are not accepted yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PinMode {
    /// Trust on first use: a new definition is accepted unless it is suspicious; a changed one is not.
    #[default]
    Tofu,
    /// Only tools in the lock are accepted.
    Locked,
    /// Nothing is compared.
    Off,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The definition that was accepted.
    pub definition: Definition,
    /// The operator's override of what the server declares.
    pub operator: Option<Operation>,
    /// How it came to be accepted.
    pub accepted: Accepted,
}

/// How a definition came to be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accepted {
    /// A person accepted it.
    #[default]
    ByPerson,
    /// At first sight. Revoked when it turns out to be about a tool that was listed later.
    AtFirstSight,
}

/// The accepted definitions, and how strictly they are enforced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    pub mode: PinMode,
    pub lock: Lock,
    /// Whether the lock belongs to a project: then an override counts only where it makes a tool stricter.
    pub only_tightens: bool,
}

/// A tool that is hidden from hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// The tool as its server lists it now.
    pub tool: Tool,
    pub reason: Quarantine,
}

/// Why a tool is hidden from hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quarantine {
    /// Its definition differs from the accepted one.
    Changed(Vec<Difference>),
    /// It is not in the lock.
    NotLocked,
    /// Its name looks like that of another tool.
    LooksLike(String),
    /// Its name contains invisible characters.
    HiddenName,
    /// It was never accepted and its definition looks like an attack.
    Suspicious(Vec<Flag>),
    /// Its definition is too large.
    OverLimit(OverLimit),
    /// Its entry in the lock is invalid.
    BrokenEntry(String),
    /// The lock is damaged, so whether the tool was accepted is unknown.
    DamagedLock(String),
}

impl fmt::Display for Quarantine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(differences) => {
                let parts: Vec<&str> = differences.iter().map(|one| one.part.as_str()).collect();
                write!(
                    f,
                    "its definition changed since it was accepted ({})",
                    parts.join(", ")
                )
            }
            Self::NotLocked => f.write_str("the lock file does not contain it"),
            Self::LooksLike(other) => write!(f, "its name looks like `{other}`"),
            Self::HiddenName => f.write_str("its name contains invisible characters"),
            Self::Suspicious(flags) => {
                let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
                write!(f, "it is held for review: {}", flags.join("; "))
            }
            Self::OverLimit(limit) => write!(f, "it exceeds a limit: {limit}"),
            Self::BrokenEntry(why) => write!(f, "its entry in the lock file is invalid: {why}"),
            Self::DamagedLock(why) => write!(
                f,
                "the lock file is damaged, so no new tools are accepted: {why}"
            ),
        }
    }
}

impl Quarantine {
    /// Whether a person can accept the tool; a deceptive name is never accepted.
    pub fn can_be_accepted(&self) -> bool {
        match self {
            Self::Changed(_)
            | Self::NotLocked
            | Self::LooksLike(_)
            | Self::Suspicious(_)
            | Self::BrokenEntry(_)
            | Self::DamagedLock(_) => true,
            Self::HiddenName | Self::OverLimit(_) => false,
        }
    }

    /// Whether hosts may learn that the tool exists; a deceptive name is not repeated.
    pub fn may_disclose_name(&self) -> bool {
        match self {
            Self::Changed(_) | Self::NotLocked | Self::BrokenEntry(_) | Self::DamagedLock(_) => {
                true
            }
            Self::Suspicious(flags) => !flags.iter().any(Flag::is_about_name),
            Self::OverLimit(limit) => !matches!(limit, OverLimit::Name(_)),
            Self::LooksLike(_) | Self::HiddenName => false,
        }
    }

    /// The reason for hosts. The words of a suspicious definition are left out: they must not reach a model this way.
    pub fn reason_for_hosts(&self) -> String {
        match self {
            Self::Suspicious(_) => "it is held for review".to_owned(),
            Self::Changed(_)
            | Self::NotLocked
            | Self::LooksLike(_)
            | Self::HiddenName
            | Self::OverLimit(_)
            | Self::BrokenEntry(_)
            | Self::DamagedLock(_) => self.to_string(),
        }
    }
}

/// The tools of all servers, sorted into accepted and quarantined.
#[derive(Debug, Default)]
pub struct Sorted {
    /// The tools that hosts may see, per server in the given order.
    pub accepted: Vec<Vec<Tool>>,
    /// The tools that are hidden from hosts.
    pub quarantined: Vec<Quarantined>,
    /// The tools accepted at first sight, to be added to the lock.
    pub fresh: Vec<Tool>,
}

impl Pins {
    /// Sorts the tools of all servers, each server's in its own order. Two new tools that look alike both wait for a person,
    /// whichever server comes first, unless a person accepted one of them.
    pub fn sort(&self, servers: &[Vec<Tool>], naming: &Naming) -> Sorted {
        let known = AllTools {
            looks: LookalikeIndex::of(self, servers),
            names: self.names(servers, naming),
        };
        let mut sorted = Sorted::default();
        for tools in servers {
            let mut accepted = Vec::with_capacity(tools.len());
            for tool in tools {
                match self.judge(tool, &known) {
                    Ok(PinStatus::Pinned(operator)) => accepted.push(match operator {
                        Some(operation) if self.takes(operation, tool) => {
                            tool.with_operation(operation)
                        }
                        Some(_) | None => tool.clone(),
                    }),
                    Ok(PinStatus::Fresh) => {
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

    /// Whether an override counts. Compares with what the server declares now; the class in the lock was written by the
    /// project.
    fn takes(&self, operation: Operation, tool: &Tool) -> bool {
        match operation {
            // The strictest class needs no proof of being stricter.
            Operation::Destructive => true,
            Operation::Write => {
                !self.only_tightens
                    || (tool.hints.read_only == Some(true) && tool.hints.destructive != Some(true))
            }
            Operation::Read => !self.only_tightens,
        }
    }

    /// The names of all listed or accepted tools.
    fn names(&self, servers: &[Vec<Tool>], naming: &Naming) -> Names {
        let mut names = Names::of(servers.iter().flatten(), naming);
        // Pinned tools count while their server is down: a definition can name them all the same.
        for (server, tool, _) in self.lock.pins() {
            let shown = ServerName::new(server).map(|server| naming.shown(&server, tool));
            names.add(server, tool, shown.ok());
        }
        names
    }

    fn judge(&self, tool: &Tool, known: &AllTools) -> Result<PinStatus, Quarantine> {
        if has_hidden(&tool.name) {
            // First, in every mode: approvals and rules name tools, and people cannot read this name.
            return Err(Quarantine::HiddenName);
        }
        // Before any comparison, which would walk the oversized definition.
        if let Some(limit) = tool.over_limit {
            return Err(Quarantine::OverLimit(limit));
        }
        if self.mode == PinMode::Off {
            // Even without pins, no server may offer a look-alike of an earlier server's tool.
            return match known.looks.earlier_twin(tool) {
                Some(other) => Err(Quarantine::LooksLike(other.to_owned())),
                None => Ok(PinStatus::Pinned(None)),
            };
        }
        let (server, name) = (tool.server.as_str(), tool.name.as_str());
        // Before the pin: a broken entry that counted as "not pinned" would be accepted again at first sight.
        if let Some(why) = self.lock.broken(server, name) {
            return Err(Quarantine::BrokenEntry(why.to_owned()));
        }
        match self.lock.pin(server, name) {
            Some(pin) => pinned(pin, tool, known),
            None => self.unpinned(tool, known),
        }
    }

    fn unpinned(&self, tool: &Tool, known: &AllTools) -> Result<PinStatus, Quarantine> {
        if let Some(other) = known.looks.twin(tool) {
            return Err(Quarantine::LooksLike(other.to_owned()));
        }
        // The lost entry of a damaged lock may be this tool's: accepting it now would hide a change.
        if let Some(why) = self.lock.damage() {
            return Err(Quarantine::DamagedLock(why.to_owned()));
        }
        match self.mode {
            PinMode::Off => Ok(PinStatus::Pinned(None)),
            PinMode::Locked => Err(Quarantine::NotLocked),
            PinMode::Tofu => match suspicious(flags(tool, &known.names)) {
                Some(reason) => Err(reason),
                None => Ok(PinStatus::Fresh),
            },
        }
    }
}

/// Facts about all tools that judging one tool needs.
struct AllTools {
    looks: LookalikeIndex,
    names: Names,
}

fn pinned(pin: &Pin, tool: &Tool, known: &AllTools) -> Result<PinStatus, Quarantine> {
    if pin.definition.digest != tool.digest {
        // Digests decide. The summaries are only compared to explain the change to a person.
        let now = Definition::of(tool);
        return Err(Quarantine::Changed(differences(&pin.definition, &now)));
    }
    match pin.accepted {
        Accepted::ByPerson => {}
        // Checked again on every list: the tool that this one shadows or imitates may have been listed later.
        Accepted::AtFirstSight => {
            if let Some(reason) = suspicious(flags::shadowing(tool, &known.names)) {
                return Err(reason);
            }
            if let Some(other) = known.looks.listed_twin(tool) {
                return Err(Quarantine::LooksLike(other.to_owned()));
            }
        }
    }
    Ok(PinStatus::Pinned(pin.operator))
}

fn suspicious(flags: Vec<Flag>) -> Option<Quarantine> {
    // Flags that honest definitions also have are reported and do not hold a tool.
    let holding: Vec<Flag> = flags.into_iter().filter(Flag::holds).collect();
    (!holding.is_empty()).then_some(Quarantine::Suspicious(holding))
}

impl Lock {
    /// Accepts the current definition of `tool`.
    pub fn accept_tool(&mut self, tool: &Tool, accepted: Accepted) {
        let definition = Definition::of(tool);
        let pin = Pin {
            definition,
            operator: None,
            accepted,
        };
        self.accept(tool.server.as_str(), &tool.name, pin);
    }

    /// The pinned tools of a server that are missing from `tools`.
    pub fn missing<'l>(&'l self, server: &ServerName, tools: &[Tool]) -> Vec<&'l str> {
        self.pins_of(server.as_str())
            .map(|(name, _)| name)
            .filter(|name| tools.iter().all(|tool| tool.name != *name))
            .collect()
    }
}

enum PinStatus {
    Pinned(Option<Operation>),
    Fresh,
}

/// A tool's canonical name, safe and short enough for display.
pub fn shown_name(tool: &Tool) -> String {
    let name = visible(&tool.canonical(), Layout::OneLine);
    match name.char_indices().nth(SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

fn has_hidden(name: &str) -> bool {
    let hidden = |piece: &Piece<'_>| matches!(piece, Piece::Hidden(_));
    pieces(name, Layout::OneLine).iter().any(hidden)
}

#[cfg(test)]
mod measured;
#[cfg(test)]
mod tests;
