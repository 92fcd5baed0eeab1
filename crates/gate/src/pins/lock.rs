//! `callgate.lock`: the definitions that were accepted, as a file for people and for git.
//!
//! One line per fact and everything in order, so that two branches which accept different tools merge, and a
//! review shows what changed. Text from servers is quoted, and what cannot be seen in it is escaped.
//!
//! Reading never fails. An entry that cannot be read keeps its tool away and no other. What cannot be told apart into entries is
//! damage: the entries that were read count, and no other tool is accepted until the file is mended.

mod parts;

use std::{collections::BTreeMap, fmt::Write as _};

use serde::{Deserialize, de::DeserializeOwned};

use super::{Accepted, Definition, Pin};
use crate::{Digest, Operation, visible::is_visible};

/// The version of the form that is written here.
const VERSION: u32 = 1;
/// Longest file that is read or written.
pub const MAX_LOCK_BYTES: usize = 64 << 20;
/// Longest key: names of tools and parameters with everything escaped.
const MAX_KEY_CHARS: usize = 16 << 10;
/// Servers, tools, facts and lists nest no deeper.
const MAX_DEPTH: usize = 8;

const OPENING: &str = "\
# What each tool said about itself when it was accepted. Callgate keeps this file; review it like code.
# `override: read|write|destructive` on a tool is yours: it counts instead of what the server declares.
";

/// The accepted definitions by server and tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    servers: BTreeMap<String, BTreeMap<String, Entry>>,
    damage: Option<String>,
}

/// What the lock has about a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Accepted(Box<Pin>),
    /// Something that cannot be read, and why.
    Broken(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    #[serde(default)]
    servers: BTreeMap<String, BTreeMap<String, Written>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
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
    /// Reads a lock as it was written.
    pub fn read(text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.len() > MAX_LOCK_BYTES {
            return Self::damaged(format!("it is longer than {MAX_LOCK_BYTES} bytes"));
        }
        let mut lock = match parsed::<File>(text) {
            Ok(file) => Self::of(file),
            Err(why) => parts::read(text, &why),
        };
        if !text.ends_with('\n') && lock.damage.is_none() {
            let what = "it does not end with a line break, so it may have been cut off";
            lock.damage = Some(what.to_owned());
        }
        lock
    }

    fn of(file: File) -> Self {
        if file.version != VERSION {
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

    /// A lock that cannot be read at all.
    pub fn damaged(why: impl Into<String>) -> Self {
        Self {
            servers: BTreeMap::new(),
            damage: Some(why.into()),
        }
    }

    /// Why parts of the file could not be told apart.
    pub fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    /// Why the entry of a tool cannot be read.
    pub fn broken(&self, server: &str, tool: &str) -> Option<&str> {
        match self.servers.get(server)?.get(tool)? {
            Entry::Broken(why) => Some(why),
            Entry::Accepted(_) => None,
        }
    }

    /// Whether there is an entry for a tool, readable or not.
    pub fn has(&self, server: &str, tool: &str) -> bool {
        self.servers
            .get(server)
            .is_some_and(|tools| tools.contains_key(tool))
    }

    /// The lock as a file.
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
                    Entry::Accepted(pin) => write_pin(&mut out, pin),
                    Entry::Broken(why) => {
                        let _ = writeln!(out, "      broken: {}", quoted(why));
                    }
                }
            }
        }
        out
    }

    /// What was accepted of a tool.
    pub fn pin(&self, server: &str, tool: &str) -> Option<&Pin> {
        accepted(self.servers.get(server)?.get(tool)?)
    }

    /// Everything that was accepted, in order.
    pub fn pins(&self) -> impl Iterator<Item = (&str, &str, &Pin)> {
        self.servers.iter().flat_map(|(server, tools)| {
            let named = move |(tool, entry)| {
                Some((server.as_str(), String::as_str(tool), accepted(entry)?))
            };
            tools.iter().filter_map(named)
        })
    }

    /// The names of everything that it has, entries that cannot be read among them.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.servers.iter().flat_map(|(server, tools)| {
            let tools = tools.keys();
            tools.map(move |tool| (server.as_str(), tool.as_str()))
        })
    }

    /// What was accepted of one server.
    pub fn pins_of(&self, server: &str) -> impl Iterator<Item = (&str, &Pin)> {
        let tools = self.servers.get(server).into_iter().flatten();
        tools.filter_map(|(tool, entry)| Some((tool.as_str(), accepted(entry)?)))
    }

    /// Accepts what a tool says. What the operator has said about the tool stays.
    pub fn accept(&mut self, server: &str, tool: &str, mut pin: Pin) {
        let before = self.pin(server, tool).and_then(|before| before.operator);
        pin.operator = pin.operator.or(before);
        self.add(server, tool, Entry::Accepted(Box::new(pin)));
    }

    /// Forgets a tool; says whether it was there.
    pub fn forget(&mut self, server: &str, tool: &str) -> bool {
        let Some(tools) = self.servers.get_mut(server) else {
            return false;
        };
        let was_there = tools.remove(tool).is_some();
        self.servers.retain(|_, tools| !tools.is_empty());
        was_there
    }

    fn add(&mut self, server: &str, tool: &str, entry: Entry) {
        let tools = self.servers.entry(server.to_owned()).or_default();
        tools.insert(tool.to_owned(), entry);
    }
}

fn accepted(entry: &Entry) -> Option<&Pin> {
    match entry {
        Entry::Accepted(pin) => Some(pin),
        Entry::Broken(_) => None,
    }
}

fn unknown_version(version: u32) -> String {
    format!("it has version {version}, and this callgate knows only version {VERSION}")
}

/// Reads YAML within bounds that fit a lock: its own size, no aliases, few levels.
fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            simple_key_max_lookahead: MAX_KEY_CHARS,
            max_events: text.len() + 64,
            max_nodes: text.len() + 64,
            max_total_scalar_bytes: MAX_LOCK_BYTES,
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

impl Written {
    fn entry(self) -> Entry {
        let broken = |why: &str| Entry::Broken(why.to_owned());
        if let Some(why) = self.broken {
            return Entry::Broken(why);
        }
        let (Some(digest), Some(class)) = (Digest::from_hex(&self.digest), self.class) else {
            return match self.class {
                Some(_) => broken("its digest must be 64 hex digits"),
                None => broken("it has no class"),
            };
        };
        let accepted = match self.accepted {
            Some(WrittenAccepted::FirstSight) => Accepted::AtFirstSight,
            None => Accepted::ByPerson,
        };
        Entry::Accepted(Box::new(Pin {
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

/// A text as a YAML string on one line, in which everything can be seen.
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
