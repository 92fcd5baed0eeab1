//! Recovers a lock that is not valid as a whole: splits it at the lines where entries begin.

use std::collections::BTreeMap;

use super::{Lock, LockEntry, MAX_KEY_CHARS, VERSION, WrittenEntry, parsed};

/// The indentation of servers, tools and facts in a lock file.
const SERVER_INDENT: &str = "  ";
const TOOL_INDENT: &str = "    ";
const FACT_INDENT: &str = "      ";
/// The most colons in a name that are tried.
const MAX_COLONS: usize = 32;

/// Reads the valid entries; `why` is the error of the whole file.
pub(super) fn read(text: &str, why: &str) -> Lock {
    let mut reading = LockRecovery::default();
    for line in text.lines() {
        reading.line(line);
    }
    reading.end_entry();
    // Strict about the frame: if any tool name may be lost, a missing entry proves nothing.
    let is_whole = reading.has_version && reading.has_servers && !reading.has_strays;
    if !is_whole {
        reading.lock.damage = Some(why.lines().next().unwrap_or_default().to_owned());
    }
    reading.lock
}

#[derive(Default)]
struct LockRecovery {
    lock: Lock,
    has_version: bool,
    has_servers: bool,
    /// Some line belongs to no known entry: the name of a tool may have been lost.
    has_strays: bool,
    server: Option<String>,
    /// The lines of the current entry; its name is on the first.
    entry: String,
}

impl LockRecovery {
    fn line(&mut self, line: &str) {
        if line.trim().is_empty() || line.starts_with(FACT_INDENT) {
            // A fact before any tool's name belongs to a tool whose name line is gone.
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
            // Added so that the surrounding entry fails to parse: a conflict marker inside it means it cannot be trusted.
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
        match parsed::<BTreeMap<String, WrittenEntry>>(&text) {
            Ok(tools) => {
                for (tool, written) in tools {
                    self.keep(&server, tool, written.entry());
                }
            }
            Err(why) => match name_on(text.lines().next().unwrap_or_default()) {
                Some(tool) => self.keep(&server, tool, LockEntry::Broken(why)),
                None => self.has_strays = true,
            },
        }
    }

    fn keep(&mut self, server: &str, tool: String, entry: LockEntry) {
        let known = self.lock.servers.entry(server.to_owned()).or_default();
        // After a merge both branches' entries may be there; neither may win silently.
        let entry = match known.contains_key(&tool) {
            true => LockEntry::Broken("the lock file has two entries for it".to_owned()),
            false => entry,
        };
        known.insert(tool, entry);
    }
}

/// The server name on a line that starts a server.
fn server_on(line: &str) -> Option<String> {
    let rest = line.strip_prefix(SERVER_INDENT)?;
    let name = name_on(rest).filter(|_| !rest.starts_with(' '))?;
    rest.trim_end().ends_with(':').then_some(name)
}

/// The key at the start of a line, even if its value is invalid.
fn name_on(line: &str) -> Option<String> {
    // Bounds the work below: every colon of a hostile line costs one parse of the text before it.
    let line = line.get(..MAX_KEY_CHARS).unwrap_or(line);
    let colons = line.match_indices(':').map(|(at, _)| at).take(MAX_COLONS);
    let mut names = colons.filter_map(|at| {
        let key = format!("{}: 0", &line[..at]);
        let map = parsed::<BTreeMap<String, u8>>(&key).ok()?;
        map.into_keys().next()
    });
    names.next()
}
