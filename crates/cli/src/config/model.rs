//! Table: `callgate.yaml` as it is written. Unknown keys are errors.

use std::{collections::BTreeMap, fmt, path::PathBuf, str::FromStr, time::Duration};

use callgate_gate::{Builtin, Prefix, ServerName};
use callgate_record::OnFailure;
use serde::{Deserialize, Deserializer, de};

/// The whole file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// The servers, in the order they are written.
    pub(crate) servers: Servers,
    /// How tools are shown.
    pub(crate) naming: Naming,
    /// The address of `serve`.
    pub(crate) listen: Option<String>,
    /// Names under which `serve` may be reached besides loopback.
    pub(crate) hosts: Vec<String>,
    /// The credentials; made at the first start when left out.
    pub(crate) auth: Auth,
    /// Where the record is kept.
    pub(crate) data_dir: Option<PathBuf>,
    /// A built-in policy.
    pub(crate) policy: Option<Builtin>,
    /// How the record is kept.
    pub(crate) audit: Audit,
    /// Limits.
    pub(crate) limits: Limits,
    /// What all servers have in common.
    pub(crate) upstream: Upstream,
    /// Logging.
    pub(crate) telemetry: Telemetry,
}

/// The servers in the order of the file, which is the order of the tool list.
#[derive(Debug, Clone, Default)]
pub(crate) struct Servers(pub(crate) Vec<(ServerName, Server)>);

/// A key of `servers`, checked where it stands so that an error can point at it.
struct Name(ServerName);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        ServerName::new(&text).map(Self).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Servers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Servers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from server names to servers")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Servers, A::Error> {
                let mut servers = Vec::new();
                // A name that stands there twice is refused by the reader of the file.
                while let Some((Name(name), server)) = map.next_entry()? {
                    servers.push((name, server));
                }
                Ok(Servers(servers))
            }

            fn visit_unit<E: de::Error>(self) -> Result<Servers, E> {
                Ok(Servers::default())
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

/// One server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Server {
    /// The program, or a whole command line when `args` is left out.
    pub(crate) command: Option<String>,
    /// Its arguments.
    pub(crate) args: Option<Vec<String>>,
    /// Variables for it; `${VAR}` and `${VAR:-default}` are filled in.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Whether it sees the gateway's whole environment.
    #[serde(default)]
    pub(crate) inherit_env: bool,
    /// Where it runs; relative to the file.
    pub(crate) cwd: Option<PathBuf>,
    /// The address of a server that is reached over HTTP.
    pub(crate) url: Option<String>,
    /// Headers for every request; `${VAR}` and `${VAR:-default}` are filled in.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// Whether `http://` is used as it is, on a private network.
    #[serde(default)]
    pub(crate) insecure_http: bool,
    /// Whether it is used.
    #[serde(default = "yes")]
    pub(crate) enabled: bool,
    /// How long a call may take.
    pub(crate) timeout: Option<Span>,
    /// For people.
    #[serde(default)]
    #[allow(dead_code, reason = "a note for whoever reads the file")]
    pub(crate) description: Option<String>,
    /// Which of its tools there are.
    #[serde(default)]
    pub(crate) tools: ToolLists,
}

/// Patterns of tool names; `*` matches any run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ToolLists {
    /// Only these.
    pub(crate) allow: Option<Vec<String>>,
    /// Never these.
    pub(crate) deny: Vec<String>,
}

/// How tools are shown.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Naming {
    /// Stands between server and tool.
    pub(crate) separator: String,
    /// Whether the server's name stands in front.
    pub(crate) prefix: Prefix,
    /// Longest shown name.
    pub(crate) max_length: usize,
}

impl Default for Naming {
    fn default() -> Self {
        let callgate_gate::Naming {
            separator,
            prefix,
            max_length,
        } = callgate_gate::Naming::default();
        Self {
            separator,
            prefix,
            max_length,
        }
    }
}

/// The credentials.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Auth {
    /// Opens `/mcp`.
    pub(crate) token: Option<String>,
    /// Opens everything else.
    pub(crate) admin_token: Option<String>,
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Auth { .. }")
    }
}

/// How the record is kept.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Audit {
    /// What an entry survives: the process, or a power cut.
    pub(crate) durability: Durability,
    /// What to do with a call that cannot be put on record.
    pub(crate) on_failure: OnFailure,
    /// Patterns of secrets besides the built-in ones.
    pub(crate) redact: Vec<String>,
    /// How much of a body is kept.
    pub(crate) body_bytes: usize,
    /// How long records are kept.
    pub(crate) retain: Retain,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            on_failure: OnFailure::default(),
            redact: Vec::new(),
            body_bytes: 2048,
            retain: Retain::default(),
        }
    }
}

/// What an entry survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Durability {
    /// The death of the process.
    #[default]
    Process,
    /// A power cut: it is synced to the disk before the call is forwarded.
    Power,
}

/// How long records are kept.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Retain {
    /// At most so many days.
    pub(crate) days: u32,
    /// At most so much.
    pub(crate) max_mb: u64,
}

impl Default for Retain {
    fn default() -> Self {
        Self {
            days: 90,
            max_mb: 2048,
        }
    }
}

/// Limits.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    /// Longest line on stdio.
    pub(crate) frame_mib: usize,
    /// Largest body over HTTP.
    pub(crate) http_mib: usize,
    /// Calls under way at once, per connection to a server.
    pub(crate) concurrency_per_server: usize,
    /// Processes of one server at once.
    pub(crate) processes_per_server: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_mib: 4,
            http_mib: 16,
            concurrency_per_server: 64,
            processes_per_server: 4,
        }
    }
}

/// What all servers have in common.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Upstream {
    /// How long a call may take.
    pub(crate) timeout: Span,
    /// How long a first list waits for servers that are still connecting.
    pub(crate) connect_wait: Span,
    /// Longest pause between two attempts to reach a server.
    pub(crate) reconnect_cap: Span,
}

impl Default for Upstream {
    fn default() -> Self {
        let seconds = |n| Span(Duration::from_secs(n));
        Self {
            timeout: seconds(30),
            connect_wait: seconds(10),
            reconnect_cap: seconds(60),
        }
    }
}

/// Logging.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Telemetry {
    /// error, warn, info, debug.
    pub(crate) log: String,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            log: "info".to_owned(),
        }
    }
}

/// A length of time, written like `30s`, `1m 30s` or `500ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a length of time; write it like `30s`, `2m` or `500ms`");
        let parsed: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
        Duration::try_from(parsed).map(Self).map_err(|_| wrong())
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

fn yes() -> bool {
    true
}
