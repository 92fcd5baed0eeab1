//! Servers in the format of other MCP clients, under `mcpServers`: a map, or an array of entries with a
//! `name`. Keys that callgate does not know are ignored with a note, never an error.

use std::{borrow::Cow, collections::BTreeMap, collections::BTreeSet, fmt};

use callgate_gate::{Place, ServerName};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_saphyr::Spanned;

use crate::model::{NamedServer, Server, Servers};

/// Longest name of a server.
const NAME_LENGTH: usize = 32;

/// The entries of `mcpServers`, converted to servers of `callgate.yaml`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ForeignServers {
    servers: Vec<NamedServer>,
    ignored: BTreeSet<String>,
    renamed: Vec<(String, ServerName)>,
}

impl ForeignServers {
    /// The servers, and notes about ignored keys and changed names.
    pub fn understood(self) -> (Vec<NamedServer>, Vec<String>) {
        let mut notes = Vec::new();
        if !self.ignored.is_empty() {
            let keys: Vec<String> = self.ignored.iter().map(|key| format!("`{key}`")).collect();
            notes.push(format!(
                "ignoring unknown keys under `mcpServers`: {}",
                keys.join(", ")
            ));
        }
        let renamed = self.renamed.iter();
        notes.extend(renamed.map(|(from, to)| format!("server `{from}` is renamed to `{to}`")));
        (self.servers, notes)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    fn add<E: de::Error>(&mut self, name: &str, entry: Spanned<Entry>) -> Result<(), E> {
        let place = Place::of(&entry.referenced);
        let legal = legal_name(name);
        let name = ServerName::new(&legal).map_err(E::custom).inspect(|ours| {
            if legal != name {
                self.renamed.push((name.to_owned(), ours.clone()));
            }
        })?;
        if self.servers.iter().any(|known| known.name == name) {
            return Err(E::custom(format!("server `{name}` is defined twice")));
        }
        let Entry {
            server, ignored, ..
        } = entry.value;
        self.ignored.extend(ignored);
        self.servers.push(NamedServer {
            name,
            server,
            place,
        });
        Ok(())
    }
}

/// An entry of `mcpServers`.
struct Entry {
    name: Option<String>,
    server: Server,
    ignored: Vec<String>,
}

/// How an entry says that its server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Kind {
    #[serde(rename = "stdio")]
    Stdio,
    #[serde(
        rename = "http",
        alias = "sse",
        alias = "streamable-http",
        alias = "streamableHttp",
        alias = "streamable_http"
    )]
    Http,
}

/// A value that other tools write as text, as a number or as a truth value.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Truth(bool),
    Whole(i64),
    Number(f64),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Truth(truth) => write!(f, "{truth}"),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> de::Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a server with `command` or `url`")
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let mut entry = Entry {
            name: None,
            server: Server {
                enabled: true,
                ..Server::default()
            },
            ignored: Vec::new(),
        };
        let mut kind = None;
        let server = &mut entry.server;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "name" => entry.name = Some(map.next_value()?),
                "type" | "transport" => kind = Some(map.next_value::<Kind>()?),
                "command" => server.command = map.next_value::<Option<String>>()?,
                "args" => server.args = map.next_value::<Option<Vec<Scalar>>>()?.map(texts),
                "env" => server.env = expandable(map.next_value()?),
                "cwd" => server.cwd = map.next_value()?,
                "url" | "serverUrl" | "httpUrl" => {
                    server.url = map.next_value::<Option<String>>()?.map(ours);
                }
                "headers" => server.headers = expandable(map.next_value()?),
                "disabled" => server.enabled = !map.next_value::<bool>()?,
                "enabled" => server.enabled = map.next_value()?,
                "description" => server.description = map.next_value()?,
                // Ours: other clients ignore the key.
                "box" => server.sandbox = map.next_value()?,
                _ => {
                    map.next_value::<de::IgnoredAny>()?;
                    entry.ignored.push(key);
                }
            }
        }
        match (kind, &server.command, &server.url) {
            (Some(Kind::Stdio), None, _) => Err(de::Error::custom("`type: stdio` needs `command`")),
            (Some(Kind::Http), _, None) => Err(de::Error::custom("this `type` needs `url`")),
            (Some(Kind::Stdio), Some(_), _) => {
                server.url = None;
                Ok(entry.of_command())
            }
            (Some(Kind::Http), _, Some(_)) => {
                server.command = None;
                Ok(entry.of_url())
            }
            (None, Some(_), None) => Ok(entry.of_command()),
            (None, None, Some(_)) => Ok(entry.of_url()),
            (None, Some(_), Some(_)) => Err(de::Error::custom(
                "it has both `command` and `url`; set `type` to `stdio` or `http` to choose one",
            )),
            (None, None, None) => Err(de::Error::custom("it needs `command` or `url`")),
        }
    }
}

impl Entry {
    /// Drops the keys of URLs. Other clients take `command` as one program, even if it contains spaces.
    fn of_command(mut self) -> Self {
        self.server.headers.clear();
        self.server.args.get_or_insert_default();
        self
    }

    fn of_url(mut self) -> Self {
        self.server.args = None;
        self.server.env.clear();
        self.server.cwd = None;
        self.server.sandbox = None;
        self
    }
}

impl<'de> Deserialize<'de> for ForeignServers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = ForeignServers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from names to servers, or an array of servers with a `name`")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = ForeignServers::default();
                while let Some((name, entry)) = map.next_entry::<String, Spanned<Entry>>()? {
                    all.add(&name, entry)?;
                }
                Ok(all)
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut all = ForeignServers::default();
                while let Some(mut entry) = seq.next_element::<Spanned<Entry>>()? {
                    let name = entry.value.name.take();
                    let name = name.ok_or_else(|| de::Error::missing_field("name"))?;
                    all.add(&name, entry)?;
                }
                Ok(all)
            }

            fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
                Ok(ForeignServers::default())
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// Written like `servers`: `config show` prints what was understood.
impl Serialize for ForeignServers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Servers(self.servers.clone()).serialize(serializer)
    }
}

impl JsonSchema for ForeignServers {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ForeignServers".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["object", "array", "null"]})
    }
}

fn texts(scalars: Vec<Scalar>) -> Vec<String> {
    let texts = scalars.iter().map(Scalar::to_string);
    texts.map(ours).collect()
}

fn expandable(written: Option<BTreeMap<String, Scalar>>) -> BTreeMap<String, String> {
    let written = written.unwrap_or_default().into_iter();
    written
        .map(|(key, value)| (key, ours(value.to_string())))
        .collect()
}

/// `${env:VAR}`, as editors write it, means `${VAR}`.
fn ours(text: String) -> String {
    text.replace("${env:", "${")
}

/// The name with `-` for every character that a server name cannot have.
fn legal_name(name: &str) -> String {
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let mut made: String = name
        .chars()
        .map(|c| if legal(c) { c } else { '-' })
        .collect();
    while made.contains("__") {
        made = made.replace("__", "_");
    }
    made.truncate(NAME_LENGTH);
    made
}
