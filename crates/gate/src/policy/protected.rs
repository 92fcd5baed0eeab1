//! Protected places: the files and folders that govern the gateway itself. A call whose arguments lead there needs a
//! person, whatever the rules say, and the built-in tools refuse it.
//!
//! Where a path really leads is looked up by the call path ([`Reach`]); here is what must be looked at, and what
//! counts for how much.

use std::collections::{BTreeSet, HashMap};

use callgate_wire::{Json, JsonKind};

use super::{
    Check, Kind,
    path::Ground,
    projection::{self, Sought},
};
use crate::{Call, Digest, ServerName, Target, Tool, tool::split_words};
use spelling::{absolute, begins_like_path, is_within, may_be_path, plain, spelled};

mod command;
mod spelling;
mod words;

/// How many values of a call's arguments are looked at; a call with more needs a person.
const MAX_VALUES: usize = 10_000;
/// How deep they are looked for.
const MAX_DEPTH: usize = 64;
/// A longer string is a path only if it begins like one.
const LONGEST_PLAIN: usize = 4096;
/// The arguments of the built-in tools that are paths.
const BUILTIN_KEYS: [&str; 3] = ["path", "file_path", "cwd"];

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

/// A path that a call may mean.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    /// Absolute.
    path: String,
    /// Whether it stands in the text of a command.
    in_command: bool,
    /// Whether the call may move or delete a whole folder by it.
    takes_away: bool,
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

    /// The paths that must be looked at before a call can be judged.
    pub(super) fn asked(&self, call: &Call, ground: &Ground) -> Vec<String> {
        let found = self.candidates(call, ground).unwrap_or_default();
        let paths: BTreeSet<String> = found.into_iter().map(|one| one.path).collect();
        paths.into_iter().collect()
    }

    /// What is said to a call that leads to a protected place.
    pub(super) fn check(
        &self,
        call: &Call,
        ground: &Ground,
        reached: &HashMap<String, Reach>,
    ) -> Option<Check> {
        let found = match self.candidates(call, ground) {
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
        let mut walk = Walk {
            protected: self,
            ground,
            values: 0,
            has_command: false,
            says_take_away: false,
            found: Vec::new(),
        };
        let is_builtin = is_builtin(&call.target);
        if is_builtin {
            walk.builtin(arguments);
        } else {
            walk.value(arguments, None, 0)?;
        }
        let takes_away = walk.says_take_away || may_take_away(&call.target);
        let (mut found, has_command) = (walk.found, walk.has_command);
        if takes_away && !is_builtin {
            found.iter_mut().for_each(|one| one.takes_away = true);
        }
        if has_command {
            let lines = projection::project(Some(arguments), Sought::Commands);
            let lines = lines.map_err(|_| TooMuch)?;
            let folder = arguments.get("cwd").and_then(Json::as_str);
            let folder = folder.map_or_else(
                || ground.folder.clone(),
                |cwd| plain(&absolute(&cwd, ground)),
            );
            for line in lines {
                found.extend(command::candidates(&line, ground, &folder, self));
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
            Some(Reach::Above) if self.takes_away => Some(format!(
                "`{path}` contains what governs this gateway, and the call may move or delete it"
            )),
            Some(Reach::Above) => None,
            Some(Reach::Unknown) | None => Some(format!(
                "it could not be found out whether `{path}` leads to what governs this gateway"
            )),
        }
    }
}

/// Looks through arguments for what may be a path.
struct Walk<'a> {
    protected: &'a Protected,
    ground: &'a Ground,
    values: usize,
    /// Whether a command stands in the arguments.
    has_command: bool,
    /// Whether an argument says that something is moved or deleted: `{"op": "delete"}`.
    says_take_away: bool,
    found: Vec<Candidate>,
}

impl Walk<'_> {
    /// The built-in tools' own arguments; nothing else of theirs is a path.
    fn builtin(&mut self, arguments: Json<'_>) {
        for key in BUILTIN_KEYS {
            if let Some(text) = arguments.get(key).and_then(Json::as_str) {
                self.add(&text);
            }
        }
        self.has_command = arguments.get("command").is_some();
    }

    fn value(&mut self, value: Json<'_>, key: Option<&str>, depth: usize) -> Result<(), TooMuch> {
        self.values += 1;
        if self.values > MAX_VALUES || depth > MAX_DEPTH {
            return Err(TooMuch);
        }
        match value.kind() {
            JsonKind::Object => {
                for (name, value) in value.members() {
                    self.text(name, None);
                    let name = name.as_str().unwrap_or_default();
                    self.has_command |= projection::is_command_key(&name);
                    // What stands inside a value belongs to its key, whatever it is called there.
                    let outer = key.filter(|key| words::is_path_key(key));
                    self.value(value, Some(outer.unwrap_or(&name)), depth + 1)?;
                }
            }
            JsonKind::Array => {
                for element in value.elements() {
                    self.value(element, key, depth + 1)?;
                }
            }
            JsonKind::String => self.text(value, key),
            JsonKind::Number | JsonKind::Bool | JsonKind::Null => {}
        }
        Ok(())
    }

    /// A string under `key`, or a key itself.
    fn text(&mut self, value: Json<'_>, key: Option<&str>) {
        let raw = value.bytes();
        if raw.len() > LONGEST_PLAIN && !begins_like_path(raw) {
            return;
        }
        let odd = |byte: &u8| matches!(byte, b'/' | b'\\' | b'~' | b'%' | b'$' | 0x80..);
        if raw.iter().any(odd) {
            let Some(text) = value.as_str() else { return };
            if key.is_some_and(words::is_path_key) || may_be_path(&text) {
                self.add(&text);
            }
            if let Some((option, path)) = text.split_once('=')
                && !option.contains(char::is_whitespace)
            {
                self.add(path);
            }
            return;
        }
        let Some(text) = value.as_str() else { return };
        if key.is_some_and(words::is_path_key) || self.is_known(&text) {
            self.add(&text);
        } else if key.is_some() && words::takes_away(&text) {
            self.says_take_away = true;
        }
    }

    fn is_known(&self, text: &str) -> bool {
        let names = &self.protected.names;
        names.iter().any(|name| name.eq_ignore_ascii_case(text))
    }

    fn add(&mut self, text: &str) {
        for path in spelled(text, self.ground) {
            let candidate = Candidate {
                path,
                in_command: false,
                takes_away: false,
            };
            if !self.found.contains(&candidate) {
                self.found.push(candidate);
            }
        }
    }
}

fn is_builtin(target: &Target) -> bool {
    *target.server() == ServerName::builtin()
}

/// Whether a call may move or delete a folder as a whole.
fn may_take_away(target: &Target) -> bool {
    match target {
        Target::Tool(tool) => tool_takes_away(tool),
        Target::Prompt(_) | Target::Resource(_) | Target::Completion(_) | Target::Method { .. } => {
            false
        }
    }
}

fn tool_takes_away(tool: &Tool) -> bool {
    let by_name = || {
        split_words(&tool.name)
            .iter()
            .any(|word| words::takes_away(word))
    };
    tool.looks_destructive() || by_name()
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
