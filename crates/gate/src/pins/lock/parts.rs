//! Reading a lock that is not valid as a whole: entry by entry, by the lines on which entries begin.

use std::collections::BTreeMap;

use super::{Entry, Lock, MAX_KEY_CHARS, VERSION, Written, parsed};

/// How deep servers, tools and facts stand in a lock that was written here.
const SERVER_INDENT: &str = "  ";
const TOOL_INDENT: &str = "    ";
const FACT_INDENT: &str = "      ";
/// How many colons a name may have.
const MAX_COLONS: usize = 32;

/// Reads what can be read; `why` says why the whole cannot.
pub(super) fn read(text: &str, why: &str) -> Lock {
    let mut reading = Reading::default();
    for line in text.lines() {
        reading.line(line);
    }
    reading.end_entry();
    let is_whole = reading.has_version && reading.has_servers && !reading.has_strays;
    if !is_whole {
        reading.lock.damage = Some(why.lines().next().unwrap_or_default().to_owned());
    }
    reading.lock
}

#[derive(Default)]
struct Reading {
    lock: Lock,
    has_version: bool,
    has_servers: bool,
    /// Some line belongs to nothing that is known: the name of a tool may have been lost.
    has_strays: bool,
    server: Option<String>,
    /// The lines of an entry so far, its name on the first.
    entry: String,
}

impl Reading {
    fn line(&mut self, line: &str) {
        if line.trim().is_empty() || line.starts_with(FACT_INDENT) {
            // A fact before the name of any tool has lost that name.
            self.has_strays |= !line.trim().is_empty() && self.entry.trim().is_empty();
            self.add(line);
        } else if line.starts_with(TOOL_INDENT) && self.server.is_some() {
            self.end_entry();
            self.add(line);
        } else if let Some(server) = server_on(line) {
            self.end_entry();
            self.server = Some(server);
        } else if line.trim_end() == format!("version: {VERSION}") {
            self.has_version = true;
        } else if line.trim_end() == "servers:" {
            self.has_servers = true;
        } else if !line.starts_with('#') {
            self.has_strays = true;
            // It also spoils the entry in which it stands.
            self.add(line);
        }
    }

    fn add(&mut self, line: &str) {
        self.entry
            .push_str(line.strip_prefix(TOOL_INDENT).unwrap_or(line));
        self.entry.push('\n');
    }

    fn end_entry(&mut self) {
        let text = std::mem::take(&mut self.entry);
        let Some(server) = self.server.clone().filter(|_| !text.trim().is_empty()) else {
            return;
        };
        match parsed::<BTreeMap<String, Written>>(&text) {
            Ok(tools) => {
                for (tool, written) in tools {
                    self.keep(&server, tool, written.entry());
                }
            }
            Err(why) => match name_on(text.lines().next().unwrap_or_default()) {
                Some(tool) => self.keep(&server, tool, Entry::Broken(why)),
                None => self.has_strays = true,
            },
        }
    }

    fn keep(&mut self, server: &str, tool: String, entry: Entry) {
        let known = self.lock.servers.entry(server.to_owned()).or_default();
        let entry = match known.contains_key(&tool) {
            true => Entry::Broken("it is in the lock twice".to_owned()),
            false => entry,
        };
        known.insert(tool, entry);
    }
}

/// The server whose tools come next.
fn server_on(line: &str) -> Option<String> {
    let rest = line.strip_prefix(SERVER_INDENT)?;
    let name = name_on(rest).filter(|_| !rest.starts_with(' '))?;
    rest.trim_end().ends_with(':').then_some(name)
}

/// The key that a line begins with, also where its value cannot be read.
fn name_on(line: &str) -> Option<String> {
    let line = line.get(..MAX_KEY_CHARS).unwrap_or(line);
    let colons = line.match_indices(':').map(|(at, _)| at).take(MAX_COLONS);
    let mut names = colons.filter_map(|at| {
        let key = format!("{}: 0", &line[..at]);
        let map = parsed::<BTreeMap<String, u8>>(&key).ok()?;
        map.into_keys().next()
    });
    names.next()
}
