//! `callgate.lock`: the accepted definitions, as a file for people and git.
//!
//! One sorted line per fact, so that branches that accept different tools merge and a review shows what changed.
//! Text from servers is quoted, with invisible characters escaped.
//!
//! Reading never fails. An invalid entry quarantines its own tool only. Text that cannot be split into entries is
//! damage: the entries that were read count, and no other tool is accepted until the file is repaired.

mod parts;

use std::{collections::BTreeMap, fmt::Write as _};

use serde::{Deserialize, de::DeserializeOwned};

use super::{Accepted, Definition, Pin};
use crate::{Digest, Operation, visible::is_visible};

/// The version of the file format.
const VERSION: u32 = 1;
/// The largest lock file.
pub const MAX_LOCK_BYTES: usize = 64 << 20;
/// The longest key: the name of a tool or parameter with every character escaped.
const MAX_KEY_CHARS: usize = 16 << 10;
/// The deepest nesting: servers, tools, facts and lists.
const MAX_DEPTH: usize = 8;

const OPENING: &str = "\
# What each tool said about itself when it was accepted. Callgate keeps this file; review it like code.
# `override: read|write|destructive` on a tool is yours: it counts instead of what the server declares.
";

/// The accepted definitions by server and tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    servers: BTreeMap<String, BTreeMap<String, LockEntry>>,
    damage: Option<String>,
}

/// A tool's entry in the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LockEntry {
    Accepted(Box<Pin>),
    /// Invalid, with the reason.
    Broken(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    servers: BTreeMap<String, BTreeMap<String, WrittenEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenEntry {
    /// An entry that was broken when the file was last written.
    broken: Option<String>,
    #[serde(default)]
    digest: String,
    class: Option<Operation>,
    #[serde(rename = "override")]
    operator: Option<Operation>,
    accepted: Option<WrittenAccepted>,
    title: Option<String>,
    description: Option<String>,
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    input: Option<String>,
    output: Option<String>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    #[serde(default)]
    icons: Vec<String>,
    #[serde(default)]
    more: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum WrittenAccepted {
    FirstSight,
}

impl Lock {
    /// Reads a lock file; problems become broken entries or damage.
    pub fn read(text: &str) -> Self {
        // Some editors add a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.len() > MAX_LOCK_BYTES {
            return Self::damaged(format!("it is longer than {MAX_LOCK_BYTES} bytes"));
        }
        let mut lock = match parsed::<File>(text) {
            Ok(file) => Self::of(file),
            // One bad merge must not quarantine every tool, so the file is read again entry by entry.
            Err(why) => parts::read(text, &why),
        };
        // A file cut between two entries is valid YAML: only its missing last newline shows the cut.
        if !text.ends_with('\n') && lock.damage.is_none() {
            let what = "it does not end with a newline, so it may be truncated";
            lock.damage = Some(what.to_owned());
        }
        lock
    }

    fn of(file: File) -> Self {
        if file.version != VERSION {
            // Another version may mean something else by the same keys, so none of its entries is used.
            return Self::damaged(unknown_version(file.version));
        }
        let mut lock = Self::default();
        for (server, tools) in file.servers {
            for (tool, written) in tools {
                lock.add(&server, &tool, written.entry());
            }
        }
        lock
    }

    /// A lock without any readable entry.
    pub fn damaged(why: impl Into<String>) -> Self {
        Self {
            servers: BTreeMap::new(),
            damage: Some(why.into()),
        }
    }

    /// Why the file could not be split into entries.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Why the entry of a tool is invalid.
    pub fn broken(&self, server: &str, tool: &str) -> Option<&str> {
        match self.servers.get(server)?.get(tool)? {
            LockEntry::Broken(why) => Some(why),
            LockEntry::Accepted(_) => None,
        }
    }

    /// Whether there is an entry for a tool, valid or not.
    pub fn has(&self, server: &str, tool: &str) -> bool {
        self.servers
            .get(server)
            .is_some_and(|tools| tools.contains_key(tool))
    }

    /// The text of the lock file.
    pub fn write(&self) -> String {
        let mut out = format!("{OPENING}version: {VERSION}\nservers:");
        if self.servers.is_empty() {
            out.push_str(" {}\n");
            return out;
        }
        out.push('\n');
        for (server, tools) in &self.servers {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "  {}:", quoted(server));
            for (tool, entry) in tools {
                let _ = writeln!(out, "    {}:", quoted(tool));
                match entry {
                    LockEntry::Accepted(pin) => write_pin(&mut out, pin),
                    // Written back as broken: dropping the entry would make its tool look new, and it would be accepted.
                    LockEntry::Broken(why) => {
                        let _ = writeln!(out, "      broken: {}", quoted(why));
                    }
                }
            }
        }
        out
    }

    /// The pin of a tool.
    pub fn pin(&self, server: &str, tool: &str) -> Option<&Pin> {
        accepted(self.servers.get(server)?.get(tool)?)
    }

    /// Every pin, sorted by server and tool.
    pub fn pins(&self) -> impl Iterator<Item = (&str, &str, &Pin)> {
        self.servers.iter().flat_map(|(server, tools)| {
            let named = move |(tool, entry)| {
                Some((server.as_str(), String::as_str(tool), accepted(entry)?))
            };
            tools.iter().filter_map(named)
        })
    }

    /// The server and tool of every entry, including invalid ones.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.servers.iter().flat_map(|(server, tools)| {
            let tools = tools.keys();
            tools.map(move |tool| (server.as_str(), tool.as_str()))
        })
    }

    /// The pins of one server.
    pub fn pins_of(&self, server: &str) -> impl Iterator<Item = (&str, &Pin)> {
        let tools = self.servers.get(server).into_iter().flatten();
        tools.filter_map(|(tool, entry)| Some((tool.as_str(), accepted(entry)?)))
    }

    /// Accepts a definition. The operator's override stays.
    pub fn accept(&mut self, server: &str, tool: &str, mut pin: Pin) {
        let before = self.pin(server, tool).and_then(|before| before.operator);
        // Accepting a new definition does not change the operator's own classification.
        pin.operator = pin.operator.or(before);
        self.add(server, tool, LockEntry::Accepted(Box::new(pin)));
    }

    /// Removes a tool; returns whether it had an entry.
    pub fn forget(&mut self, server: &str, tool: &str) -> bool {
        let Some(tools) = self.servers.get_mut(server) else {
            return false;
        };
        let was_there = tools.remove(tool).is_some();
        // An empty server would be written as a key without a value.
        self.servers.retain(|_, tools| !tools.is_empty());
        was_there
    }

    fn add(&mut self, server: &str, tool: &str, entry: LockEntry) {
        let tools = self.servers.entry(server.to_owned()).or_default();
        tools.insert(tool.to_owned(), entry);
    }
}

fn accepted(entry: &LockEntry) -> Option<&Pin> {
    match entry {
        LockEntry::Accepted(pin) => Some(pin),
        LockEntry::Broken(_) => None,
    }
}

fn unknown_version(version: u32) -> String {
    format!("it has version {version}, but this callgate supports only version {VERSION}")
}

/// Parses YAML within bounds that fit a lock: its own size, no aliases, few levels.
fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            simple_key_max_lookahead: MAX_KEY_CHARS,
            max_events: text.len() + 64,
            max_nodes: text.len() + 64,
            max_total_scalar_bytes: MAX_LOCK_BYTES,
            // Aliases would allow a billion-laughs file, and would hide in a review what an entry says.
            max_aliases: 0,
            max_anchors: 0,
            max_merge_keys: 0,
            max_documents: 1,
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
        },
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}

impl WrittenEntry {
    fn entry(self) -> LockEntry {
        let broken = |why: &str| LockEntry::Broken(why.to_owned());
        if let Some(why) = self.broken {
            return LockEntry::Broken(why);
        }
        let (Some(digest), Some(class)) = (Digest::from_hex(&self.digest), self.class) else {
            return match self.class {
                Some(_) => broken("its `digest` is not 64 hex digits"),
                None => broken("its `class` is missing"),
            };
        };
        let accepted = match self.accepted {
            Some(WrittenAccepted::FirstSight) => Accepted::AtFirstSight,
            None => Accepted::ByPerson,
        };
        LockEntry::Accepted(Box::new(Pin {
            operator: self.operator,
            accepted,
            definition: Definition {
                digest,
                class,
                title: self.title,
                description: self.description,
                parameters: self.parameters,
                input: self.input,
                output: self.output,
                annotations: self.annotations,
                icons: self.icons,
                more: self.more,
            },
        }))
    }
}

fn write_pin(out: &mut String, pin: &Pin) {
    let says = &pin.definition;
    let mut line = |text: String| {
        let _ = writeln!(out, "      {text}");
    };
    line(format!("digest: {}", quoted(&says.digest.to_string())));
    line(format!("class: {}", says.class.as_str()));
    if let Some(operator) = pin.operator {
        line(format!("override: {}", operator.as_str()));
    }
    match pin.accepted {
        Accepted::ByPerson => {}
        Accepted::AtFirstSight => line("accepted: first_sight".to_owned()),
    }
    let texts = [
        ("title", &says.title),
        ("description", &says.description),
        ("input", &says.input),
        ("output", &says.output),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            line(format!("{key}: {}", quoted(text)));
        }
    }
    for (key, facts) in [
        ("parameters", &says.parameters),
        ("annotations", &says.annotations),
        ("more", &says.more),
    ] {
        if facts.is_empty() {
            continue;
        }
        line(format!("{key}:"));
        for (name, text) in facts {
            line(format!("  {}: {}", quoted(name), quoted(text)));
        }
    }
    if !says.icons.is_empty() {
        line("icons:".to_owned());
        for icon in &says.icons {
            line(format!("  - {}", quoted(icon)));
        }
    }
}

/// A text as a one-line YAML string without invisible characters.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if is_visible(c) => out.push(c),
            // Writing to a string cannot fail.
            c if u32::from(c) <= 0xffff => _ = write!(out, "\\u{:04X}", u32::from(c)),
            c => _ = write!(out, "\\U{:08X}", u32::from(c)),
        }
    }
    out.push('"');
    out
}
