//! Servers in the format of other MCP clients, under `mcpServers`: a map, or an array of entries with a
//! `name`.
//!
//! What an entry restricts holds here too, or the file is refused. So only keys of which it is known that they restrict
//! nothing ([`HARMLESS`]) are ignored, with a note; any other unknown key is an error.

use std::{borrow::Cow, collections::BTreeMap, collections::BTreeSet, fmt};

use callgate_gate::{Place, ServerName};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_saphyr::Spanned;

use crate::model::{NamedServer, Server, Servers};

/// Longest name of a server.
const NAME_LENGTH: usize = 32;

/// Keys that restrict nothing: approvals and trust that a host gives without asking, its time limits, its notes, and how it
/// keeps a connection. Callgate decides all of these itself.
const HARMLESS: &[&str] = &[
    "alwaysAllow",
    "authProviderType",
    "autoApprove",
    "auto_approve_tool_changes",
    "created",
    "gallery",
    "health_check_interval",
    "icon",
    "iconPath",
    "initTimeout",
    "init_timeout",
    "launcher_wait_timeout",
    "max_concurrent_requests",
    "oauth",
    "queue_size",
    "queue_timeout",
    "reconnect_on_use",
    "shared",
    "skip_quarantine",
    "source_registry_id",
    "source_registry_provenance",
    "startup_timeout_ms",
    "startup_timeout_sec",
    "timeout",
    "title",
    "tool_discovery_interval",
    "tool_timeout_sec",
    "toon_output",
    "trust",
    "trust_mode",
    "updated",
    "version",
];

/// The entries of `mcpServers`, converted to servers of `callgate.yaml`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ForeignServers {
    servers: Vec<NamedServer>,
    ignored: BTreeSet<String>,
    quarantined: Vec<ServerName>,
    renamed: Vec<(String, ServerName)>,
}

impl ForeignServers {
    /// The servers, and notes about ignored keys, quarantined servers and changed names.
    pub fn understood(self) -> (Vec<NamedServer>, Vec<String>) {
        let mut notes = Vec::new();
        if !self.ignored.is_empty() {
            let keys: Vec<String> = self.ignored.iter().map(|key| format!("`{key}`")).collect();
            notes.push(format!(
                "ignoring keys of another client under `mcpServers`: {}",
                keys.join(", ")
            ));
        }
        let quarantined = self.quarantined.iter();
        notes.extend(quarantined.map(|name| {
            format!("server `{name}` is quarantined in this file and is not started; remove `quarantined` after a review")
        }));
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
            mut server,
            ignored,
            is_quarantined,
            ..
        } = entry.value;
        self.ignored.extend(ignored);
        if is_quarantined {
            server.enabled = false;
            self.quarantined.push(name.clone());
        }
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
    is_quarantined: bool,
    ignored: Vec<String>,
}

/// How an entry says that its server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
enum Kind {
    #[serde(rename = "auto")]
    Auto,
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

/// Whether a server runs in a container; what is not said means that it does.
#[derive(Deserialize)]
struct Isolation {
    #[serde(default = "isolated")]
    enabled: bool,
}

fn isolated() -> bool {
    true
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
            is_quarantined: false,
            ignored: Vec::new(),
        };
        let mut kind = Kind::Auto;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "name" => entry.name = Some(map.next_value()?),
                "type" | "transport" | "protocol" => {
                    kind = map.next_value::<Kind>()?;
                }
                // A server that any key switches off is off.
                "disabled" => entry.server.enabled &= !map.next_value::<bool>()?,
                "enabled" => entry.server.enabled &= map.next_value::<bool>()?,
                "quarantined" => entry.is_quarantined = map.next_value()?,
                harmless if HARMLESS.contains(&harmless) => {
                    map.next_value::<de::IgnoredAny>()?;
                    entry.ignored.push(key);
                }
                _ => entry.server_key(&key, &mut map)?,
            }
        }
        let server = &mut entry.server;
        match (kind, &server.command, &server.url) {
            (Kind::Stdio, None, _) => Err(de::Error::custom("`type: stdio` needs `command`")),
            (Kind::Http, _, None) => Err(de::Error::custom("this `type` needs `url`")),
            (Kind::Stdio, Some(_), _) => {
                server.url = None;
                Ok(entry.of_command())
            }
            (Kind::Http, _, Some(_)) => {
                server.command = None;
                Ok(entry.of_url())
            }
            (Kind::Auto, Some(_), None) => Ok(entry.of_command()),
            (Kind::Auto, None, Some(_)) => Ok(entry.of_url()),
            (Kind::Auto, Some(_), Some(_)) => Err(de::Error::custom(
                "it has both `command` and `url`; set `type` to `stdio` or `http` to choose one",
            )),
            (Kind::Auto, None, None) => Err(de::Error::custom("it needs `command` or `url`")),
        }
    }
}

impl Entry {
    /// Reads the value of a key that says what the server is or which tools it offers.
    fn server_key<'de, A: de::MapAccess<'de>>(
        &mut self,
        key: &str,
        map: &mut A,
    ) -> Result<(), A::Error> {
        let server = &mut self.server;
        match key {
            "command" => server.command = map.next_value()?,
            "args" => server.args = map.next_value::<Option<Vec<Scalar>>>()?.map(texts),
            "env" => server.env = expandable(map.next_value()?),
            "cwd" | "working_dir" => server.cwd = map.next_value()?,
            "url" | "serverUrl" | "httpUrl" => {
                server.url = map.next_value::<Option<String>>()?.map(ours);
            }
            "headers" | "http_headers" => server.headers = expandable(map.next_value()?),
            "description" => server.description = map.next_value()?,
            "disabled_tools" | "disabledTools" | "excludeTools" => {
                let denied = map.next_value::<Option<Vec<String>>>()?;
                server.tools.deny.extend(denied.unwrap_or_default());
            }
            "enabled_tools" | "enabledTools" | "includeTools" => {
                let allowed = map.next_value::<Option<Vec<String>>>()?;
                let mut names = allowed.iter().flatten();
                if let Some(name) = names.find(|name| name.contains('*')) {
                    let what =
                        format!("`{name}` in `{key}` is a pattern; list the tools by their names");
                    return Err(de::Error::custom(what));
                }
                if allowed.is_some()
                    && server
                        .tools
                        .allow
                        .replace(allowed.unwrap_or_default())
                        .is_some()
                {
                    let what = format!(
                        "the allowed tools are listed twice; remove `{key}` or the other list"
                    );
                    return Err(de::Error::custom(what));
                }
            }
            // Ours: other clients ignore the key.
            "box" => server.sandbox = map.next_value()?,
            "isolation" => {
                if map
                    .next_value::<Option<Isolation>>()?
                    .is_some_and(|isolation| isolation.enabled)
                {
                    let what = "`isolation` runs this server in a container, which callgate does not; replace it with `box`";
                    return Err(de::Error::custom(what));
                }
            }
            _ => {
                let what = format!(
                    "unknown key `{key}`: it may restrict this server, so it is not ignored; remove it if it does not"
                );
                return Err(de::Error::custom(what));
            }
        }
        Ok(())
    }

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
