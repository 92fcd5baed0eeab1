//! Suspicious or unusual content in a definition. A suspicious definition waits until a person accepts it; an unusual one is
//! only reported.

mod encoded;
mod hidden;
mod words;

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    fmt,
    sync::{Arc, LazyLock},
};

use callgate_wire::{Json, JsonKind, Strictness};
use regex::Regex;

use crate::{
    Naming, Tool,
    visible::{Layout, mark, visible},
};

/// Longer texts are flagged: a model reads them whole, and people do not.
const LONG_CHARS: usize = 4_000;
/// The longest quotation from a text.
const QUOTED_CHARS: usize = 80;
/// Identifiers up to this length are not searched as text.
const IDENTIFIER_CHARS: usize = 64;
/// The distance between the name of another server's tool and an order about it, in bytes.
const ORDER_WITHIN: usize = 100;

/// A finding in a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flag {
    /// A text contains invisible characters.
    Hidden {
        part: String,
        /// The first of them.
        character: char,
    },
    /// A word mixes letters of two scripts that look alike.
    Mixed { part: String, word: String },
    /// A text contains a sentence in base64 or hex.
    Encoded { part: String, sentence: String },
    /// A text contains instructions that a definition has no reason to contain.
    Says {
        part: String,
        /// The effect, as the predicate of a sentence.
        what: &'static str,
        words: String,
    },
    /// A text is about a tool of another server.
    NamesAnother { part: String, tool: String },
    /// A text is very long.
    Long { part: String, characters: usize },
    /// A default looks like a secret.
    SecretDefault { parameter: String },
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |text: &str| visible(text, Layout::OneLine);
        match self {
            Self::Hidden { part, character } => {
                write!(
                    f,
                    "{part} contains invisible characters, such as {}",
                    mark(*character)
                )
            }
            Self::Mixed { part, word } => {
                let word = line(word);
                write!(
                    f,
                    "{part} mixes letters of two scripts that look alike: `{word}`"
                )
            }
            Self::Encoded { part, sentence } => {
                write!(
                    f,
                    "{part} hides a sentence in an encoding: `{}`",
                    line(sentence)
                )
            }
            Self::Says { part, what, words } => write!(f, "{part} {what}: `{}`", line(words)),
            Self::NamesAnother { part, tool } => {
                write!(f, "{part} names `{}`, a tool of another server", line(tool))
            }
            Self::Long { part, characters } => write!(f, "{part} has {characters} characters"),
            Self::SecretDefault { parameter } => {
                write!(
                    f,
                    "the default of `{}` looks like a secret",
                    line(parameter)
                )
            }
        }
    }
}

impl Flag {
    /// Whether a definition with this flag waits for a person. Honest definitions have the other flags too.
    pub fn holds(&self) -> bool {
        match self {
            Self::Hidden { .. }
            | Self::Mixed { .. }
            | Self::Encoded { .. }
            | Self::Says { .. }
            | Self::NamesAnother { .. } => true,
            Self::Long { .. } | Self::SecretDefault { .. } => false,
        }
    }

    /// Whether the flag is about the name of the tool.
    pub(super) fn is_about_name(&self) -> bool {
        match self {
            Self::Hidden { part, .. }
            | Self::Mixed { part, .. }
            | Self::Encoded { part, .. }
            | Self::Says { part, .. }
            | Self::NamesAnother { part, .. }
            | Self::Long { part, .. } => part == "the name",
            Self::SecretDefault { .. } => false,
        }
    }
}

/// The names of all tools, to find those of other servers in a text.
#[derive(Debug, Default)]
pub struct Names(HashMap<String, Owners>);

/// The tools of one name.
#[derive(Debug)]
struct Owners {
    first: NamedTool,
    /// The servers of the others. A set, because hundreds of servers can have a tool of the same name.
    others: HashSet<Arc<str>>,
}

#[derive(Debug, Clone)]
struct NamedTool {
    server: Arc<str>,
    canonical: Arc<str>,
    /// The name includes the server.
    is_qualified: bool,
}

impl Names {
    /// The names under which `tools` are known.
    pub fn of<'t>(tools: impl IntoIterator<Item = &'t Tool>, naming: &Naming) -> Self {
        let mut names = Self::default();
        for tool in tools {
            let shown = naming.shown(&tool.server, &tool.name);
            names.add(tool.server.as_str(), &tool.name, Some(shown));
        }
        names
    }

    /// Adds a known tool, listed or not.
    pub(super) fn add(&mut self, server: &str, tool: &str, shown: Option<String>) {
        let canonical: Arc<str> = [server, ":", tool].concat().into();
        let server: Arc<str> = server.into();
        let mut add = |name: String, is_qualified: bool| match self.0.entry(name) {
            Entry::Vacant(free) => {
                let first = NamedTool {
                    server: server.clone(),
                    canonical: canonical.clone(),
                    is_qualified,
                };
                let others = HashSet::new();
                free.insert(Owners { first, others });
            }
            Entry::Occupied(mut known) if known.get().first.server != server => {
                known.get_mut().others.insert(server.clone());
            }
            Entry::Occupied(_) => {}
        };
        add(tool.to_owned(), false);
        add(canonical.to_string(), true);
        if let Some(shown) = shown.filter(|shown| shown != tool) {
            add(shown, true);
        }
    }

    /// The tool of another server that a word names. Only words with a separator count, and a server may mention
    /// its own tools.
    fn foreign(&self, word: &str, tool: &Tool) -> Option<&NamedTool> {
        // A tool may be called `search` or `read`: flagging plain words would hold honest definitions.
        if !word.contains(['_', ':', '-']) {
            return None;
        }
        let Owners { first, others } = self.0.get(word)?;
        let own = tool.server.as_str();
        let is_own = *first.server == *own || others.contains(own);
        (!is_own).then_some(first)
    }
}

/// The findings about `tool`; `names` are those of all tools. Empty for a definition over a limit, which is not offered.
pub fn flags(tool: &Tool, names: &Names) -> Vec<Flag> {
    found(tool, names, ScanDepth::Everything)
}

/// Only the findings about tools of other servers.
pub(super) fn shadowing(tool: &Tool, names: &Names) -> Vec<Flag> {
    found(tool, names, ScanDepth::OtherServers)
}

fn found(tool: &Tool, names: &Names, depth: ScanDepth) -> Vec<Flag> {
    let json = Json::validate(&tool.descriptor, Strictness::Full).ok();
    // A tool over a limit is never offered, and its size would make the scan expensive. The limit on
    // depth also bounds the recursion below.
    let Some(json) = json.filter(|_| tool.over_limit.is_none()) else {
        return Vec::new();
    };
    let mut found = FlagScan {
        tool,
        names,
        depth,
        flags: Vec::new(),
    };
    found.walk(json, "the definition", 0);
    found.flags
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ScanDepth {
    Everything,
    OtherServers,
}

struct FlagScan<'f> {
    tool: &'f Tool,
    names: &'f Names,
    depth: ScanDepth,
    flags: Vec<Flag>,
}

impl FlagScan<'_> {
    fn walk(&mut self, json: Json<'_>, part: &str, level: usize) {
        match json.kind() {
            JsonKind::Object => {
                for (key, value) in json.members() {
                    let key = key.as_str().unwrap_or_default();
                    let here = place(part, &key, level);
                    // Models read keys as well, so a sentence can hide in the name of a parameter.
                    if !is_identifier(&key) {
                        self.text(&key, &here);
                    }
                    if key == "default" {
                        self.default(value, part);
                    }
                    self.walk(value, &here, level + 1);
                }
            }
            JsonKind::Array => {
                for element in json.elements() {
                    self.walk(element, part, level + 1);
                }
            }
            JsonKind::String => self.text(&json.as_str().unwrap_or_default(), part),
            JsonKind::Number | JsonKind::Bool | JsonKind::Null => {}
        }
    }

    fn text(&mut self, text: &str, part: &str) {
        // Before the early return: it is all that a repeated scan looks for.
        self.other_servers(text, part);
        // Accepted definitions are searched again only for shadowing, which depends on other servers.
        if self.depth == ScanDepth::OtherServers {
            return;
        }
        let part = || part.to_owned();
        if let Some(character) = hidden::hidden(text) {
            self.add(Flag::Hidden {
                part: part(),
                character,
            });
        }
        if let Some(word) = hidden::mixed(text) {
            let word = quoted(word);
            self.add(Flag::Mixed { part: part(), word });
        }
        if let Some(sentence) = encoded::sentence(text) {
            let sentence = quoted(&sentence);
            self.add(Flag::Encoded {
                part: part(),
                sentence,
            });
        }
        for said in words::suspicious(text) {
            self.add(Flag::Says {
                part: part(),
                what: said.what,
                words: said.words,
            });
        }
        let characters = text.chars().count();
        if characters > LONG_CHARS {
            self.add(Flag::Long {
                part: part(),
                characters,
            });
        }
    }

    /// Flags names of other servers' tools. A qualified name always counts; a bare one may be a coincidence and counts only
    /// near an order.
    fn other_servers(&mut self, text: &str, part: &str) {
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ':' | '.');
        let words = text.split(|c| !is_word(c));
        let mut words = words.map(|word| word.trim_matches(['.', ':', '-']));
        let foreign = words.find_map(|word| {
            let owner = self.names.foreign(word, self.tool)?;
            let start = word.as_ptr() as usize - text.as_ptr() as usize;
            let around = around(text, start, word.len());
            (owner.is_qualified || ORDERS.is_match(around)).then_some(owner)
        });
        if let Some(owner) = foreign {
            let flag = Flag::NamesAnother {
                part: part.to_owned(),
                tool: owner.canonical.to_string(),
            };
            self.add(flag);
        }
    }

    /// Checks a default value; `part` is its parameter.
    fn default(&mut self, value: Json<'_>, part: &str) {
        let Some(text) = value
            .as_str()
            .filter(|_| self.depth == ScanDepth::Everything)
        else {
            return;
        };
        if let Some(variable) = VARIABLES.find(&text) {
            self.add(Flag::Says {
                part: part.to_owned(),
                what: "asks for secrets",
                words: quoted(variable.as_str()),
            });
        }
        let parameter = part.rsplit(' ').next().unwrap_or(part).trim_matches('`');
        let is_secret = SECRETS.is_match(&text)
            // Shorter defaults are placeholders in most cases.
            || (SECRET_NAMES.is_match(parameter) && text.chars().count() >= 8);
        if is_secret {
            self.add(Flag::SecretDefault {
                parameter: parameter.to_owned(),
            });
        }
    }

    fn add(&mut self, flag: Flag) {
        // Schemas repeat descriptions, and a reason with ten equal flags is not read.
        if !self.flags.contains(&flag) {
            self.flags.push(flag);
        }
    }
}

fn quoted(text: &str) -> String {
    text.chars().take(QUOTED_CHARS).collect()
}

fn is_identifier(key: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$' | '.');
    key.len() <= IDENTIFIER_CHARS && key.chars().all(is_plain)
}

/// The text around a word.
fn around(text: &str, start: usize, length: usize) -> &str {
    let from = text.floor_char_boundary(start.saturating_sub(ORDER_WITHIN));
    let to = text.ceil_char_boundary((start + length + ORDER_WITHIN).min(text.len()));
    &text[from..to]
}

/// The part of a definition, for people: `the description`, `parameter `notes``.
fn place(part: &str, key: &str, level: usize) -> String {
    match (level, key) {
        (0, key) => format!("the {}", visible(key, Layout::OneLine)),
        (_, "properties" | "items" | "description" | "title" | "default" | "enum") => {
            part.to_owned()
        }
        (_, key) => format!("parameter `{}`", visible(key, Layout::OneLine)),
    }
}

/// Words of an order about a tool.
static ORDERS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?is)(?-u:\b)(instead of|rather than|before|after|whenever|when|while|must|always|prefer|do not use|don't use|never use|deprecated|broken|requires?|required|has to|have to|needs?|note (on|about|for)|side effect|first|should|every|hinweis|immer|m\u{fc}ssen|muss|statt|siempre|debe|toujours|doit)(?-u:\b)")
        .expect("the pattern is a constant")
});

/// Environment variables that hold secrets.
static VARIABLES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\$\{?[A-Z0-9_]*(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)[A-Z0-9_]*\}?")
        .expect("the pattern is a constant")
});

/// Secrets with a recognisable form.
static SECRETS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(AKIA|ASIA)[0-9A-Z]{16}|gh[opusr]_[A-Za-z0-9]{16,}|github_pat_|xox[abeprs]-|sk-[A-Za-z0-9_-]{16,}|AIza[0-9A-Za-z_-]{30,}|eyJ[A-Za-z0-9_-]{5,}\.|-----BEGIN [A-Z ]*PRIVATE KEY",
    )
    .expect("the pattern is a constant")
});

/// Names of parameters whose values are secrets.
static SECRET_NAMES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(password|passwd|secret|token|api[_-]?key|credential)")
        .expect("the pattern is a constant")
});
