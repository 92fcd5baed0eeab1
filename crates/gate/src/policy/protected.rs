//! Protected places: the files and folders that govern the gateway itself. A call whose arguments lead there needs a
//! person under every policy, and the built-in tools refuse it.
//!
//! This module finds candidate paths and turns lookups into a check; the call path resolves the candidates ([`Reach`]).

use std::collections::{BTreeSet, HashMap};

use callgate_wire::Json;

use super::{Check, Kind, path::PathBase};
use crate::{Call, Digest, Target};
use spelling::{absolute, is_within, plain};
use walk::{CandidateSearch, MAX_PATHS};

mod command;
mod spelling;
mod walk;
mod words;

/// The files and folders that govern a gateway. A folder includes everything in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Protected {
    places: Vec<String>,
    /// The file names of the places: a bare word that equals one may be a path.
    names: Vec<String>,
}

/// Whether a path leads to a protected place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Not to a protected place.
    Elsewhere,
    /// To a protected place, by its name, through a link or as another name of the same file.
    Inside,
    /// To a folder that contains a protected place.
    Above,
    /// The lookup failed.
    Unknown,
}

/// The paths in a call's arguments that may lead to protected places. The search is the most expensive part of judging a
/// long call, so it runs once and its result is kept with the facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtectedCandidates(Result<Vec<Candidate>, TooLarge>);

impl ProtectedCandidates {
    /// The paths to resolve before the call can be judged.
    pub fn paths(&self) -> Vec<String> {
        let found = self.0.iter().flatten();
        let paths: BTreeSet<&String> = found.map(|one| &one.path).collect();
        paths.into_iter().cloned().collect()
    }

    /// Whether there is nothing to resolve.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().map_or(true, Vec::is_empty)
    }
}

/// A path that a call may use.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Absolute.
    path: String,
    /// Whether it was found in the text of a command.
    in_command: bool,
    /// Whether the call may move, delete or copy it as a whole folder.
    takes_whole: bool,
}

/// The arguments are too large to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TooLarge;

impl Protected {
    /// Takes absolute paths. Each place should be given both as named and with links resolved.
    pub fn new(places: impl IntoIterator<Item = String>) -> Self {
        let places: BTreeSet<String> = places
            .into_iter()
            .map(|place| place.trim_end_matches('/').to_owned())
            // The root would protect everything, so no call could pass.
            .filter(|place| place.starts_with('/'))
            .collect();
        let name = |place: &String| place.rsplit('/').next().unwrap_or_default().to_owned();
        let names: BTreeSet<String> = places.iter().map(name).collect();
        Self {
            places: places.into_iter().collect(),
            names: names.into_iter().collect(),
        }
    }

    pub fn places(&self) -> &[String] {
        &self.places
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether an absolute path without `..` is a place or inside one. Ignores case, as some file systems do.
    pub fn covers(&self, path: &str) -> bool {
        self.places.iter().any(|place| is_within(path, place))
    }

    /// Whether the folder `path` contains a place.
    pub fn is_above(&self, path: &str) -> bool {
        let folder = path.trim_end_matches('/');
        self.places.iter().any(|place| is_within(place, folder))
    }

    /// The candidates in the arguments of a call.
    pub(super) fn leads(&self, call: &Call, ground: &PathBase) -> ProtectedCandidates {
        ProtectedCandidates(self.candidates(call, ground))
    }

    /// The check of a call that leads to a protected place; `None` if it does not.
    pub(super) fn check(
        call: &Call,
        leads: &ProtectedCandidates,
        reached: &HashMap<String, Reach>,
    ) -> Option<Check> {
        let found = match &leads.0 {
            Ok(found) => found,
            Err(TooLarge) => {
                let why = "the arguments are too large to check for protected paths";
                return Some(verdict(Kind::RequireApproval, why.to_owned()));
            }
        };
        let mut strictest: Option<Check> = None;
        for candidate in found {
            let Some(why) = candidate.says(reached) else {
                continue;
            };
            // The built-in tools refuse these files anyway, so an approval would release a call that then fails.
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

    fn candidates(&self, call: &Call, ground: &PathBase) -> Result<Vec<Candidate>, TooLarge> {
        let Some(arguments) = super::judge::arguments(call) else {
            return Ok(Vec::new());
        };
        let is_builtin = is_builtin(&call.target);
        let walk = CandidateSearch::over(arguments, &call.target, ground, self)?;
        if walk.paths.is_empty() && walk.lines.is_empty() {
            return Ok(Vec::new());
        }
        // The built-in file tools work on single files; their shell is covered by the words of its commands.
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
                return Err(TooLarge);
            }
        }
        Ok(found)
    }
}

impl Candidate {
    /// Why the candidate needs a person; `None` if it does not.
    fn says(&self, reached: &HashMap<String, Reach>) -> Option<String> {
        let path = &self.path;
        match reached.get(path) {
            Some(Reach::Elsewhere) => None,
            Some(Reach::Inside) => Some(format!(
                "`{path}` is a protected path of this gateway (its configuration, policy, lock file, packs or data folder)"
            )),
            Some(Reach::Above) if self.takes_whole => Some(format!(
                "`{path}` contains protected paths of this gateway, and the call may move, delete or copy it"
            )),
            // Reading `~` is an everyday call; only taking the whole folder touches what is in it.
            Some(Reach::Above) => None,
            // Fail closed, also for a path that was not looked up: a slow file system must not open the way.
            Some(Reach::Unknown) | None => Some(format!(
                "could not determine whether `{path}` leads to a protected path of this gateway"
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
