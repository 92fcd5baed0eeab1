//! What is suspicious or odd in a definition. A suspicious one is held at first sight until a person accepts it; what is only odd is told.

mod encoded;
mod hidden;
mod words;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, LazyLock},
};

use callgate_wire::{Json, JsonKind, Strictness};
use regex::Regex;

use crate::{
    Naming, Tool,
    visible::{Layout, mark, visible},
};

/// A longer text than this is read by a model and by nobody else.
const LONG_CHARS: usize = 4_000;
/// How much of a text is quoted.
const QUOTED_CHARS: usize = 80;
/// A key up to this length that is an identifier is not read as a text.
const IDENTIFIER_CHARS: usize = 64;
/// How far from the name of another server's tool an order about it may stand, in bytes.
const ORDER_WITHIN: usize = 100;

/// Something about a definition that a person should look at, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flag {
    /// A text has characters that a person would not see.
    Hidden {
        /// Which text.
        part: String,
        /// The first of them.
        character: char,
    },
    /// A word mixes letters of two scripts that look alike.
    Mixed {
        /// Which text.
        part: String,
        /// The word.
        word: String,
    },
    /// A text has a sentence in base64 or hex.
    Encoded {
        /// Which text.
        part: String,
        /// The sentence.
        sentence: String,
    },
    /// A text says something that a definition has no reason to say.
    Says {
        /// Which text.
        part: String,
        /// What that does, as a part of a sentence.
        what: &'static str,
        /// Its words.
        words: String,
    },
    /// A text is about a tool of another server.
    NamesAnother {
        /// Which text.
        part: String,
        /// The tool.
        tool: String,
    },
    /// A text is very long.
    Long {
        /// Which text.
        part: String,
        /// How long.
        characters: usize,
    },
    /// A default looks like a secret.
    SecretDefault {
        /// Of which parameter.
        parameter: String,
    },
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |text: &str| visible(text, Layout::OneLine);
        match self {
            Self::Hidden { part, character } => {
                write!(
                    f,
                    "{part} has characters that cannot be seen, such as {}",
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
    /// Whether a definition with this flag waits for a person. The others are in honest definitions, too.
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
pub struct Names(HashMap<String, Vec<Owner>>);

#[derive(Debug, Clone)]
struct Owner {
    server: Arc<str>,
    canonical: Arc<str>,
    /// The name says whose tool it is.
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

    /// Adds a tool that is known and perhaps not listed.
    pub(super) fn add(&mut self, server: &str, tool: &str, shown: Option<String>) {
        let canonical: Arc<str> = [server, ":", tool].concat().into();
        let mut add = |name: String, is_qualified: bool| {
            let owners = self.0.entry(name).or_default();
            if owners.iter().all(|owner| owner.canonical != canonical) {
                owners.push(Owner {
                    server: server.into(),
                    canonical: canonical.clone(),
                    is_qualified,
                });
            }
        };
        add(tool.to_owned(), false);
        add(canonical.to_string(), true);
        if let Some(shown) = shown.filter(|shown| shown != tool) {
            add(shown, true);
        }
    }

    /// The tool of another server than `tool`'s that a word names. A single word may be any word, and a
    /// server may speak of its own tools.
    fn foreign(&self, word: &str, tool: &Tool) -> Option<&Owner> {
        let owners = self
            .0
            .get(word)
            .filter(|_| word.contains(['_', ':', '-']))?;
        let is_own = |owner: &Owner| *owner.server == *tool.server.as_str();
        owners.first().filter(|_| !owners.iter().any(is_own))
    }
}

/// What is suspicious or odd about `tool`; `names` are those of all tools. A definition that is too large is left out anyway.
pub fn flags(tool: &Tool, names: &Names) -> Vec<Flag> {
    found(tool, names, Depth::Everything)
}

/// Only what `tool` says about tools of other servers.
pub(super) fn shadowing(tool: &Tool, names: &Names) -> Vec<Flag> {
    found(tool, names, Depth::OtherServers)
}

fn found(tool: &Tool, names: &Names, depth: Depth) -> Vec<Flag> {
    let json = Json::validate(&tool.descriptor, Strictness::Full).ok();
    let Some(json) = json.filter(|_| tool.over_limit.is_none()) else {
        return Vec::new();
    };
    let mut found = Found {
        tool,
        names,
        depth,
        flags: Vec::new(),
    };
    found.walk(json, "the definition", 0);
    found.flags
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Everything,
    OtherServers,
}

struct Found<'f> {
    tool: &'f Tool,
    names: &'f Names,
    depth: Depth,
    flags: Vec<Flag>,
}

impl Found<'_> {
    fn walk(&mut self, json: Json<'_>, part: &str, level: usize) {
        match json.kind() {
            JsonKind::Object => {
                for (key, value) in json.members() {
                    let key = key.as_str().unwrap_or_default();
                    let here = place(part, &key, level);
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
        self.other_servers(text, part);
        if self.depth == Depth::OtherServers {
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

    /// A name that says whose tool it is counts wherever it stands; any other may be a coincidence, and counts beside an order.
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

    /// `part` is the parameter, by its place in the schema.
    fn default(&mut self, value: Json<'_>, part: &str) {
        let Some(text) = value.as_str().filter(|_| self.depth == Depth::Everything) else {
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
            || (SECRET_NAMES.is_match(parameter) && text.chars().count() >= 8);
        if is_secret {
            self.add(Flag::SecretDefault {
                parameter: parameter.to_owned(),
            });
        }
    }

    fn add(&mut self, flag: Flag) {
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

/// Where a text stands, for a person: `the description`, `parameter `notes``.
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

/// Forms of secrets that have a form.
static SECRETS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(AKIA|ASIA)[0-9A-Z]{16}|gh[opusr]_[A-Za-z0-9]{16,}|github_pat_|xox[abeprs]-|sk-[A-Za-z0-9_-]{16,}|AIza[0-9A-Za-z_-]{30,}|eyJ[A-Za-z0-9_-]{5,}\.|-----BEGIN [A-Z ]*PRIVATE KEY",
    )
    .expect("the pattern is a constant")
});

/// Parameters whose values are secrets whatever they look like.
static SECRET_NAMES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)(password|passwd|secret|token|api[_-]?key|credential)")
        .expect("the pattern is a constant")
});
