//! Protected places: the files and folders that govern the gateway itself. A call whose arguments lead there needs a
//! person, whatever the rules say, and the built-in tools refuse it.
//!
//! Where a path really leads is looked up by the call path ([`Reach`]); here is what must be looked at, and what
//! counts for how much.

use std::collections::{BTreeSet, HashMap};

use callgate_wire::Json;

use super::{Check, Kind, path::Ground};
use crate::{Call, Digest, Target};
use spelling::{absolute, is_within, plain};
use walk::{MAX_PATHS, Walk};

mod command;
mod spelling;
mod walk;
mod words;

/// The files and folders that govern a gateway. A folder stands for everything in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Protected {
    places: Vec<String>,
    /// The last parts of the places: a bare word that is one of them may be a path.
    names: Vec<String>,
}

/// Where a path leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// To no protected place.
    Elsewhere,
    /// To a protected place, by its name, through a link or as another name of the same file.
    Inside,
    /// To a folder that a protected place lies in.
    Above,
    /// That could not be found out.
    Unknown,
}

/// What a call's arguments may lead to. Looking through them is the dearest part of judging a long call, so it is done
/// once and kept with the facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leads(Result<Vec<Candidate>, TooMuch>);

impl Leads {
    /// The paths that must be looked at before the call can be judged.
    pub fn paths(&self) -> Vec<String> {
        let found = self.0.iter().flatten();
        let paths: BTreeSet<&String> = found.map(|one| &one.path).collect();
        paths.into_iter().cloned().collect()
    }

    /// Whether there are none of them.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().map_or(true, Vec::is_empty)
    }
}

/// A path that a call may mean.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Absolute.
    path: String,
    /// Whether it stands in the text of a command.
    in_command: bool,
    /// Whether the call may move, delete or copy a whole folder by it.
    takes_whole: bool,
}

/// The arguments are too large to be looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TooMuch;

impl Protected {
    /// These places, absolute. Each should be given by the name that people use and by where it really is.
    pub fn new(places: impl IntoIterator<Item = String>) -> Self {
        let places: BTreeSet<String> = places
            .into_iter()
            .map(|place| place.trim_end_matches('/').to_owned())
            // The root would be everything.
            .filter(|place| place.starts_with('/'))
            .collect();
        let name = |place: &String| place.rsplit('/').next().unwrap_or_default().to_owned();
        let names: BTreeSet<String> = places.iter().map(name).collect();
        Self {
            places: places.into_iter().collect(),
            names: names.into_iter().collect(),
        }
    }

    /// The places.
    pub fn places(&self) -> &[String] {
        &self.places
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether an absolute path without `..` is a place or lies in one. Case is folded: some file systems fold it.
    pub fn covers(&self, path: &str) -> bool {
        self.places.iter().any(|place| is_within(path, place))
    }

    /// Whether a place lies in the folder `path`.
    pub fn is_above(&self, path: &str) -> bool {
        let folder = path.trim_end_matches('/');
        self.places.iter().any(|place| is_within(place, folder))
    }

    /// What the arguments of a call may lead to.
    pub(super) fn leads(&self, call: &Call, ground: &Ground) -> Leads {
        Leads(self.candidates(call, ground))
    }

    /// What is said to a call that leads to a protected place.
    pub(super) fn check(
        call: &Call,
        leads: &Leads,
        reached: &HashMap<String, Reach>,
    ) -> Option<Check> {
        let found = match &leads.0 {
            Ok(found) => found,
            Err(TooMuch) => {
                let why =
                    "the arguments are too large to see whether they lead to a protected path";
                return Some(verdict(Kind::RequireApproval, why.to_owned()));
            }
        };
        let mut strictest: Option<Check> = None;
        for candidate in found {
            let Some(why) = candidate.says(reached) else {
                continue;
            };
            let kind = if is_builtin(&call.target) && !candidate.in_command {
                Kind::Deny
            } else {
                Kind::RequireApproval
            };
            if strictest.as_ref().is_none_or(|check| check.kind < kind) {
                strictest = Some(verdict(kind, why));
            }
        }
        strictest
    }

    fn candidates(&self, call: &Call, ground: &Ground) -> Result<Vec<Candidate>, TooMuch> {
        let Some(arguments) = super::judge::arguments(call) else {
            return Ok(Vec::new());
        };
        let is_builtin = is_builtin(&call.target);
        let walk = Walk::over(arguments, &call.target, ground, self)?;
        if walk.paths.is_empty() && walk.lines.is_empty() {
            return Ok(Vec::new());
        }
        let takes_whole = !is_builtin && (walk.says_take_whole || takes_whole(&call.target));
        let candidate = |path| Candidate {
            path,
            in_command: false,
            takes_whole,
        };
        let mut found: Vec<Candidate> = walk.paths.into_iter().map(candidate).collect();
        let folder = arguments.get("cwd").and_then(Json::as_str);
        let folder = folder.map_or_else(
            || ground.folder.clone(),
            |cwd| plain(&absolute(&cwd, ground)),
        );
        for line in walk.lines {
            found.extend(command::candidates(&line, ground, &folder, self));
            if found.len() > MAX_PATHS {
                return Err(TooMuch);
            }
        }
        Ok(found)
    }
}

impl Candidate {
    /// Why it needs a person, if it does.
    fn says(&self, reached: &HashMap<String, Reach>) -> Option<String> {
        let path = &self.path;
        match reached.get(path) {
            Some(Reach::Elsewhere) => None,
            Some(Reach::Inside) => Some(format!(
                "`{path}` is part of what governs this gateway (its configuration, policy, lock, packs or data folder)"
            )),
            Some(Reach::Above) if self.takes_whole => Some(format!(
                "`{path}` contains what governs this gateway, and the call may move, delete or copy it"
            )),
            Some(Reach::Above) => None,
            Some(Reach::Unknown) | None => Some(format!(
                "it could not be found out whether `{path}` leads to what governs this gateway"
            )),
        }
    }
}

fn is_builtin(target: &Target) -> bool {
    target.server().is_builtin()
}

/// Whether a call may move, delete or copy a folder as a whole.
fn takes_whole(target: &Target) -> bool {
    match target {
        Target::Tool(tool) => {
            tool.looks_destructive()
                || callgate_wire::words(&tool.name).any(|word| words::takes_whole(&word))
        }
        Target::Prompt(_) | Target::Resource(_) | Target::Completion(_) | Target::Method { .. } => {
            false
        }
    }
}

fn verdict(kind: Kind, reason: String) -> Check {
    let rule = format!("{}:gateway:protected_path", kind.as_str());
    Check {
        scope: "gateway".to_owned(),
        kind,
        hash: Digest::of(rule.as_bytes()),
        rule,
        reason,
        judged: None,
    }
}

#[cfg(test)]
mod tests;
