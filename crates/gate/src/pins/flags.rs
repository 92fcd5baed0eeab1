//! What deserves a second look in a definition. A flag ranks and explains; it decides nothing.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, LazyLock},
};

use callgate_wire::{Json, JsonKind, Strictness};
use regex::Regex;

use crate::{
    Naming, Tool,
    visible::{Layout, Piece, mark, pieces, visible},
};

/// A longer text than this is read by a model and by nobody else.
const LONG_CHARS: usize = 4_000;
/// How much of a suspicious text is quoted.
const QUOTED_CHARS: usize = 80;
/// Schemas are looked into this deep.
const MAX_DEPTH: usize = 16;

/// Something odd about a definition, with the reason a person reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flag {
    /// A text has characters that a person would not see.
    Hidden {
        /// Which text.
        part: String,
        /// The first of them.
        character: char,
    },
    /// A text speaks to the model instead of describing the tool.
    Instructs {
        /// Which text.
        part: String,
        /// What it says.
        words: String,
    },
    /// A text names a tool of another server.
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
        match self {
            Self::Hidden { part, character } => {
                write!(
                    f,
                    "{part} has characters that cannot be seen, such as {}",
                    mark(*character)
                )
            }
            Self::Instructs { part, words } => {
                write!(
                    f,
                    "{part} gives orders to the model: `{}`",
                    visible(words, Layout::OneLine)
                )
            }
            Self::NamesAnother { part, tool } => {
                write!(f, "{part} names `{tool}`, a tool of another server")
            }
            Self::Long { part, characters } => write!(f, "{part} has {characters} characters"),
            Self::SecretDefault { parameter } => {
                let parameter = visible(parameter, Layout::OneLine);
                write!(f, "the default of `{parameter}` looks like a secret")
            }
        }
    }
}

/// The names of all tools, to find those of other servers in a text.
#[derive(Debug, Default)]
pub struct Names(HashMap<String, Vec<Arc<str>>>);

impl Names {
    /// The names under which `tools` are known.
    pub fn of<'t>(tools: impl IntoIterator<Item = &'t Tool>, naming: &Naming) -> Self {
        let mut names = Self::default();
        for tool in tools {
            let canonical: Arc<str> = tool.canonical().into();
            let shown = naming.shown(&tool.server, &tool.name);
            for name in [tool.name.clone(), canonical.to_string(), shown] {
                names.0.entry(name).or_default().push(canonical.clone());
            }
        }
        names
    }

    /// The tool of another server than `tool`'s that a word names. A single word may be any word, and a
    /// server may speak of its own tools.
    fn foreign(&self, word: &str, tool: &Tool) -> Option<&str> {
        let owners = self
            .0
            .get(word)
            .filter(|_| word.contains(['_', ':', '-']))?;
        let is_own = |canonical: &str| {
            let of_server = canonical.strip_prefix(tool.server.as_str());
            of_server.is_some_and(|rest| rest.starts_with(':'))
        };
        let foreign = owners.first()?;
        (!owners.iter().any(|owner| is_own(owner))).then_some(foreign)
    }
}

/// What is odd about `tool`; `names` are those of all tools.
pub fn flags(tool: &Tool, names: &Names) -> Vec<Flag> {
    let Ok(json) = Json::validate(&tool.descriptor, Strictness::Full) else {
        return Vec::new();
    };
    let mut found = Found {
        tool,
        names,
        flags: Vec::new(),
    };
    found.walk(json, "the definition", 0);
    found.flags
}

struct Found<'f> {
    tool: &'f Tool,
    names: &'f Names,
    flags: Vec<Flag>,
}

impl Found<'_> {
    fn walk(&mut self, json: Json<'_>, part: &str, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        match json.kind() {
            JsonKind::Object => {
                for (key, value) in json.members() {
                    let key = key.as_str().unwrap_or_default();
                    self.hidden(&key, part);
                    let here = place(part, &key, depth);
                    if key == "default" {
                        self.default(value, part);
                    }
                    self.walk(value, &here, depth + 1);
                }
            }
            JsonKind::Array => {
                for element in json.elements() {
                    self.walk(element, part, depth + 1);
                }
            }
            JsonKind::String => self.text(&json.as_str().unwrap_or_default(), part),
            JsonKind::Number | JsonKind::Bool | JsonKind::Null => {}
        }
    }

    fn text(&mut self, text: &str, part: &str) {
        self.hidden(text, part);
        if let Some(order) = ORDERS.find(text) {
            let words = order.as_str().chars().take(QUOTED_CHARS).collect();
            self.add(Flag::Instructs {
                part: part.to_owned(),
                words,
            });
        }
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | ':' | '.');
        let words = text.split(|c| !is_word(c));
        let mut words = words.map(|word| word.trim_matches(['.', ':', '-']));
        if let Some(other) = words.find_map(|word| self.names.foreign(word, self.tool)) {
            self.add(Flag::NamesAnother {
                part: part.to_owned(),
                tool: other.to_owned(),
            });
        }
        let characters = text.chars().count();
        if characters > LONG_CHARS {
            self.add(Flag::Long {
                part: part.to_owned(),
                characters,
            });
        }
    }

    fn hidden(&mut self, text: &str, part: &str) {
        let hidden = pieces(text, Layout::Lines)
            .into_iter()
            .find_map(|piece| match piece {
                Piece::Hidden(c) if c != '\r' => Some(c),
                Piece::Hidden(_) | Piece::Plain(_) => None,
            });
        if let Some(character) = hidden {
            self.add(Flag::Hidden {
                part: part.to_owned(),
                character,
            });
        }
    }

    /// `part` is the parameter, by its place in the schema.
    fn default(&mut self, value: Json<'_>, part: &str) {
        let Some(text) = value.as_str() else {
            return;
        };
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

/// Where a text stands, for a person: `the description`, `parameter `notes``.
fn place(part: &str, key: &str, depth: usize) -> String {
    match (depth, key) {
        (0, key) => format!("the {}", visible(key, Layout::OneLine)),
        (_, "properties" | "items" | "description" | "title" | "default" | "enum") => {
            part.to_owned()
        }
        (_, key) => format!("parameter `{}`", visible(key, Layout::OneLine)),
    }
}

/// Words with which a definition speaks past the person to the model.
static ORDERS: LazyLock<Regex> = LazyLock::new(|| {
    let orders = [
        r"</?\s*(important|system|instructions?|secret|hidden|assistant)\s*>",
        r"\b(ignore|disregard|forget)\b.{0,20}\b(previous|prior|above|earlier|other|all)\b.{0,20}\b(instruction|rule|prompt|message|tool)s?",
        r"\b(do not|don't|never)\b.{0,20}\b(tell|mention|inform|notify|reveal|show|warn|ask)\b.{0,30}\b(user|human|person|operator)",
        r"\bwithout\b.{0,10}\b(telling|asking|informing|notifying|mentioning)\b",
        r"\b(system prompt|developer message|hidden instruction)s?\b",
        r"\b(always|must|first)\b.{0,20}\b(call|use|invoke|run)\b.{0,30}\b(before|instead of|prior to)\b.{0,30}\b(any|every|other|all)\b",
        r"(~|home|\$HOME)/\.(ssh|aws|gnupg|config/gcloud)|\bid_(rsa|ed25519)\b|\.aws/credentials|\bmcp\.json\b",
        r"\b(send|forward|include|append|copy|upload|pass)\b.{0,60}\b(conversation|chat history|api[ _-]?keys?|passwords?|credentials?|private keys?|environment variables)\b",
    ];
    Regex::new(&format!("(?is){}", orders.join("|"))).expect("the pattern is a constant")
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
