//! `callgate.lock`: the definitions that were accepted, as a file for people and for git.
//!
//! One line per fact and everything in order, so that two branches which accept different tools merge, and a
//! review shows what changed. Text from servers is quoted, and what cannot be seen in it is escaped.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::Deserialize;

use super::{Definition, Pin};
use crate::{Digest, Operation, visible::is_visible};

/// The version of the form that is written here.
const VERSION: u32 = 1;

const OPENING: &str = "\
# What each tool said about itself when it was accepted. Callgate keeps this file; review it like code.
# `override: read|write|destructive` on a tool is yours: it counts instead of what the server declares.
";

/// The accepted definitions by server and tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    servers: BTreeMap<String, BTreeMap<String, Pin>>,
}

/// Why a text is no lock.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// It cannot be read as what it should be.
    #[error("{0}")]
    Unreadable(String),
    /// It was written by a newer callgate.
    #[error("the lock has version {0}, and this callgate knows only version {VERSION}")]
    Version(u32),
    /// A digest that is none.
    #[error("the digest of `{0}` must be 64 hex digits")]
    Digest(String),
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
    digest: String,
    class: Operation,
    #[serde(rename = "override")]
    operator: Option<Operation>,
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
}

impl Lock {
    /// Reads a lock as it was written.
    pub fn read(text: &str) -> Result<Self, LockError> {
        let file: File = serde_saphyr::from_str(text)
            .map_err(|error| LockError::Unreadable(error.to_string()))?;
        if file.version != VERSION {
            return Err(LockError::Version(file.version));
        }
        let mut lock = Self::default();
        for (server, tools) in file.servers {
            for (tool, written) in tools {
                let digest = Digest::from_hex(&written.digest)
                    .ok_or_else(|| LockError::Digest(format!("{server}:{tool}")))?;
                lock.accept(&server, &tool, written.pin(digest));
            }
        }
        Ok(lock)
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
            for (tool, pin) in tools {
                let _ = writeln!(out, "    {}:", quoted(tool));
                write_pin(&mut out, pin);
            }
        }
        out
    }

    /// What was accepted of a tool.
    pub fn pin(&self, server: &str, tool: &str) -> Option<&Pin> {
        self.servers.get(server)?.get(tool)
    }

    /// Everything that was accepted, in order.
    pub fn pins(&self) -> impl Iterator<Item = (&str, &str, &Pin)> {
        self.servers.iter().flat_map(|(server, tools)| {
            let named = move |(tool, pin)| (server.as_str(), String::as_str(tool), pin);
            tools.iter().map(named)
        })
    }

    /// What was accepted of one server.
    pub fn pins_of(&self, server: &str) -> impl Iterator<Item = (&str, &Pin)> {
        let tools = self.servers.get(server).into_iter().flatten();
        tools.map(|(tool, pin)| (tool.as_str(), pin))
    }

    /// Accepts what a tool says. What the operator has said about the tool stays.
    pub fn accept(&mut self, server: &str, tool: &str, mut pin: Pin) {
        let tools = self.servers.entry(server.to_owned()).or_default();
        pin.operator = pin
            .operator
            .or_else(|| tools.get(tool).and_then(|before| before.operator));
        tools.insert(tool.to_owned(), pin);
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
}

impl Written {
    fn pin(self, digest: Digest) -> Pin {
        Pin {
            operator: self.operator,
            definition: Definition {
                digest,
                class: self.class,
                title: self.title,
                description: self.description,
                parameters: self.parameters,
                input: self.input,
                output: self.output,
                annotations: self.annotations,
                icons: self.icons,
            },
        }
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
