//! Pins: what each tool said about itself when it was trusted, and what becomes of one that says something else.
//!
//! A definition is input to a model, and a server may change it whenever it likes. So a tool is offered only while it
//! says what was accepted, and a definition that looks like an attack ([`flags`]) is not accepted by being seen first.
//! Everything here is pure: files are read and written elsewhere.

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
use looks::Looks;

/// Longest name that is shown whole.
const SHOWN_CHARS: usize = 160;

/// Where accepted definitions are kept.
pub trait PinStore: fmt::Debug + Send + Sync {
    /// Changes the lock as it stands now, and returns what it became. With an error nothing has changed.
    fn change(
        &self,
        edit: &mut dyn FnMut(&mut Lock),
    ) -> Result<Lock, Box<dyn error::Error + Send + Sync>>;

    /// A name for the place; two stores of one place are the same.
    fn place(&self) -> String;
}

/// What is done with tools that nobody has accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PinMode {
    /// What is seen first is accepted unless it is suspicious; what changes later is not.
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
    /// How it came to be accepted.
    pub accepted: Accepted,
}

/// How a definition came to be accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Accepted {
    /// A person accepted it.
    #[default]
    ByPerson,
    /// It was seen first. It loses its standing when it turns out to be about a tool that came later.
    AtFirstSight,
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
    /// It was never accepted and looks like an attack.
    Suspicious(Vec<Flag>),
    /// Its definition is too large.
    OverLimit(OverLimit),
    /// Its entry in the lock cannot be read.
    BrokenEntry(String),
    /// The lock is damaged, so that it is not known whether the tool was accepted.
    DamagedLock(String),
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
            Self::Suspicious(flags) => {
                let flags: Vec<String> = flags.iter().map(ToString::to_string).collect();
                write!(f, "it is held for review: {}", flags.join("; "))
            }
            Self::OverLimit(limit) => write!(f, "it is left out: {limit}"),
            Self::BrokenEntry(why) => write!(f, "its entry in the lock cannot be read: {why}"),
            Self::DamagedLock(why) => write!(
                f,
                "the lock is damaged, so no new tools are accepted: {why}"
            ),
        }
    }
}

impl Quarantine {
    /// Whether accepting the tool would help; a name that deceives is never accepted.
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

    /// Whether hosts may be told that there is such a tool; a name that deceives is not repeated.
    pub fn lets_its_name_be_told(&self) -> bool {
        match self {
            Self::Changed(_) | Self::NotLocked | Self::BrokenEntry(_) | Self::DamagedLock(_) => {
                true
            }
            Self::Suspicious(flags) => !flags.iter().any(Flag::is_about_name),
            Self::OverLimit(limit) => !matches!(limit, OverLimit::Name(_)),
            Self::LooksLike(_) | Self::HiddenName => false,
        }
    }

    /// The reason as hosts get it: the words of a suspicious definition must not reach a model this way.
    pub fn told_to_hosts(&self) -> String {
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
    /// Sorts the tools of all servers, each server's in its own order. Whichever server comes first, two tools that look
    /// alike both wait for a person, unless one of them was accepted by a person.
    pub fn sort(&self, servers: &[Vec<Tool>], naming: &Naming) -> Sorted {
        let known = Known {
            looks: Looks::of(self, servers),
            names: self.names(servers, naming),
        };
        let mut sorted = Sorted::default();
        for tools in servers {
            let mut accepted = Vec::with_capacity(tools.len());
            for tool in tools {
                match self.judge(tool, &known) {
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

    /// The names of all tools that are listed or were accepted.
    fn names(&self, servers: &[Vec<Tool>], naming: &Naming) -> Names {
        let mut names = Names::of(servers.iter().flatten(), naming);
        for (server, tool, _) in self.lock.pins() {
            let shown = ServerName::new(server).map(|server| naming.shown(&server, tool));
            names.add(server, tool, shown.ok());
        }
        names
    }

    fn judge(&self, tool: &Tool, known: &Known) -> Result<Standing, Quarantine> {
        if has_hidden(&tool.name) {
            return Err(Quarantine::HiddenName);
        }
        if let Some(limit) = tool.over_limit {
            return Err(Quarantine::OverLimit(limit));
        }
        if self.mode == PinMode::Off {
            return match known.looks.earlier_twin(tool) {
                Some(other) => Err(Quarantine::LooksLike(other.to_owned())),
                None => Ok(Standing::Pinned(None)),
            };
        }
        let (server, name) = (tool.server.as_str(), tool.name.as_str());
        if let Some(why) = self.lock.broken(server, name) {
            return Err(Quarantine::BrokenEntry(why.to_owned()));
        }
        match self.lock.pin(server, name) {
            Some(pin) => pinned(pin, tool, known),
            None => self.unpinned(tool, known),
        }
    }

    fn unpinned(&self, tool: &Tool, known: &Known) -> Result<Standing, Quarantine> {
        if let Some(other) = known.looks.twin(tool) {
            return Err(Quarantine::LooksLike(other.to_owned()));
        }
        if let Some(why) = self.lock.damage() {
            return Err(Quarantine::DamagedLock(why.to_owned()));
        }
        match self.mode {
            PinMode::Off => Ok(Standing::Pinned(None)),
            PinMode::Locked => Err(Quarantine::NotLocked),
            PinMode::Tofu => match suspicious(flags(tool, &known.names)) {
                Some(reason) => Err(reason),
                None => Ok(Standing::Fresh),
            },
        }
    }
}

/// What is known of all tools when one is judged.
struct Known {
    looks: Looks,
    names: Names,
}

fn pinned(pin: &Pin, tool: &Tool, known: &Known) -> Result<Standing, Quarantine> {
    if pin.definition.digest != tool.digest {
        let now = Definition::of(tool);
        return Err(Quarantine::Changed(differences(&pin.definition, &now)));
    }
    match pin.accepted {
        Accepted::ByPerson => {}
        // The tool that it is about, or looks like, may have come later.
        Accepted::AtFirstSight => {
            if let Some(reason) = suspicious(flags::shadowing(tool, &known.names)) {
                return Err(reason);
            }
            if let Some(other) = known.looks.listed_twin(tool) {
                return Err(Quarantine::LooksLike(other.to_owned()));
            }
        }
    }
    Ok(Standing::Pinned(pin.operator))
}

fn suspicious(flags: Vec<Flag>) -> Option<Quarantine> {
    let holding: Vec<Flag> = flags.into_iter().filter(Flag::holds).collect();
    (!holding.is_empty()).then_some(Quarantine::Suspicious(holding))
}

impl Lock {
    /// Accepts what `tool` says now.
    pub fn accept_tool(&mut self, tool: &Tool, accepted: Accepted) {
        let definition = Definition::of(tool);
        let pin = Pin {
            definition,
            operator: None,
            accepted,
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
