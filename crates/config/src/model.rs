//! Table: `callgate.yaml` as it is written. Unknown keys are errors. The sentences here are the
//! reference page and the JSON Schema.

use std::{
    collections::BTreeMap, fmt, num::NonZeroUsize, path::PathBuf, str::FromStr, time::Duration,
};

use callgate_gate::{Place, ServerName};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser::SerializeMap};
use serde_saphyr::Spanned;

use crate::{
    approval_keys::Approvals,
    boxes::{BoxChoice, BoxDefaults, BoxEntry, BoxKeys},
    checked,
    foreign::ForeignServers,
    guard::{Guard, Tenants},
    heads::Heads,
};

/// The configuration of a gateway. Every key is optional.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "callgate.yaml")]
pub struct Config {
    /// The location of this file's JSON Schema, for editors. Callgate ignores it.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// MCP servers by name. Their tools are listed in this order.
    pub servers: Servers,
    /// Servers in the format of other MCP clients: a map, or an array of entries with a `name`.
    /// What an entry restricts holds; unknown keys are errors.
    #[serde(
        rename = "mcpServers",
        skip_serializing_if = "ForeignServers::is_empty"
    )]
    pub mcp_servers: ForeignServers,
    /// The defaults of all boxes. A box limits what a program that callgate starts may reach.
    #[serde(rename = "box")]
    pub boxes: BoxDefaults,
    /// The built-in tools: Read, Write, Edit, Bash, Glob and Grep.
    pub builtins: Builtins,
    /// Plugins by name. Their operations are tools, like those of a server.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub plugins: BTreeMap<String, PluginEntry>,
    /// Workflows.
    #[serde(skip_serializing_if = "Workflows::is_default")]
    pub workflows: Workflows,
    /// Agent steps.
    #[serde(skip_serializing_if = "Agents::is_default")]
    pub agents: Agents,
    /// The default view, used when neither the URL, the token nor a flag selects one.
    pub view: View,
    /// How tool names are shown to hosts.
    pub naming: Naming,
    /// The address that `serve` listens on; default `127.0.0.1:7117`.
    #[serde(deserialize_with = "checked::address")]
    pub listen: Option<String>,
    /// Host names, besides loopback, that requests to `serve` may use.
    pub hosts: Vec<String>,
    /// The credentials of `serve`.
    pub auth: Auth,
    /// The folder of the activity log, the tokens and the logs of servers; default: the XDG data folder.
    pub data_dir: Option<PathBuf>,
    /// The policy: a file, relative to this one, or a built-in policy: `default`, `cautious` or
    /// `allow-all`. Default: `default`.
    pub policy: Option<PolicyChoice>,
    /// Which parts of a call the rules of a policy file are matched against; default `strict`.
    pub policy_mode: Option<PolicyMode>,
    /// A remote gateway that decides calls in place of the rules of `policy`.
    pub guard: Guard,
    /// Tenants by name, besides `local`, which always exists.
    pub tenants: Tenants,
    /// How new and changed tool definitions are treated; default `tofu`. Accepted definitions are
    /// kept in `callgate.lock` beside this file.
    pub pins: Option<PinChoice>,
    /// How calls that need approval are held, announced and decided.
    pub approvals: Approvals,
    /// How callers of the `search` view declare the intent of their calls.
    pub intent_declaration: IntentDeclaration,
    /// The `search` view.
    pub search: Search,
    /// The `code` view: limits of a script, and its local packs.
    pub code: Code,
    /// How the activity log is kept.
    #[serde(alias = "audit")]
    pub activity: Activity,
    /// Limits. Each description says what happens when the limit is reached.
    pub limits: Limits,
    /// Settings that all servers share.
    #[serde(alias = "upstream")]
    pub server_defaults: ServerDefaults,
    /// Logging and tracing.
    pub telemetry: Telemetry,
}

/// The servers in the order of the file, which is the order of the tool list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Servers(pub Vec<NamedServer>);

/// A server, its name, and its position in the file.
#[derive(Debug, Clone)]
pub struct NamedServer {
    pub name: ServerName,
    pub server: Server,
    pub place: Place,
}

/// One MCP server: either a `command` or a `url`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["command"]}, {"required": ["url"]}]))]
pub struct Server {
    /// The program; without `args`, a whole command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The arguments of `command`; `${VAR}` and `${VAR:-default}` are expanded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Environment variables of the server; `${VAR}` and `${VAR:-default}` are expanded. A missing
    /// variable switches off this server only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Whether the server inherits the gateway's whole environment, except `CALLGATE_*`.
    #[serde(default)]
    pub inherit_env: bool,
    /// The server's working folder, relative to this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The URL of a server that is reached over HTTP; `${VAR}` is expanded. `http://` becomes
    /// `https://`, except on loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers for every request; `${VAR}` and `${VAR:-default}` are expanded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Whether `http://` is kept instead of becoming `https://`, for private networks.
    #[serde(default)]
    pub insecure_http: bool,
    /// Whether the server is used.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// How long a call may take; default `server_defaults.timeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeSpan>,
    /// The form of MCP that is spoken with the server.
    #[serde(default, skip_serializing_if = "Protocol::is_auto")]
    pub protocol: Protocol,
    /// A note for people; callgate does not use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Which tools of the server are offered.
    #[serde(default, skip_serializing_if = "ToolLists::is_empty")]
    pub tools: ToolLists,
    /// What the server's process may reach: a map with `mode`, `read`, `write` and `net`, or only a
    /// mode; without it, all that its user may. docs/boxes.md
    #[serde(rename = "box", default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<BoxEntry>,
}

/// The form of MCP that is spoken with a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// The host's form if the server supports it, else the other form.
    #[default]
    Auto,
    /// Versions up to 2025-11-25, which begin with `initialize`.
    Handshake,
    /// Version 2026-07-28, in which each request is self-contained.
    Stateless,
}

impl Protocol {
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// Patterns of tool names; `*` matches any sequence of characters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolLists {
    /// Offer only these tools; default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Never offer these tools.
    pub deny: Vec<String>,
}

/// The built-in tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Builtins {
    /// Whether hosts of `serve` and `stdio` get the built-in tools. Agent steps do not depend on
    /// this setting.
    pub enabled: bool,
    /// The folders that file tools may use, relative to this file; relative paths in calls start
    /// from the first one. Default: the folder that the gateway was started in. An agent step uses
    /// its own folder first, then these.
    pub roots: Option<Vec<PathBuf>>,
}

/// One plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginEntry {
    /// The plugin's program, or the folder that contains its program `awf-plugin-FOLDER`; relative
    /// to this file.
    pub path: PathBuf,
    /// The configuration that the plugin gets at its start.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub config: serde_json::Map<String, serde_json::Value>,
    /// How long an operation may take; default `server_defaults.timeout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<TimeSpan>,
    /// What the plugin's process may reach, like the `box` of a server.
    #[serde(rename = "box", default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<BoxEntry>,
}

/// Workflows.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Workflows {
    /// What the commands of workflows may reach, like the `box` of a server. Relative paths are
    /// relative to the run's working folder.
    #[serde(rename = "box", skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<BoxEntry>,
}

impl Workflows {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Agent steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Agents {
    /// What agents may reach besides their step and their model, like the `box` of a server. Agents
    /// are boxed with `best_effort` unless another mode is set here.
    #[serde(rename = "box", skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<BoxEntry>,
}

impl Agents {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The box with the mode of agents. `box.mode` does not count: other boxes are written by users who know what their machine
    /// enforces, and this one is there by default.
    pub(crate) fn keys(&self) -> BoxKeys {
        let BoxEntry(keys) = self.sandbox.clone().unwrap_or_default();
        BoxKeys {
            mode: keys.mode.or(Some(BoxChoice::BestEffort)),
            ..keys
        }
    }
}

/// Which tools hosts see, and how hosts call them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum View {
    /// Every tool of every server.
    #[default]
    Direct,
    /// A few tools that find, describe and call the others.
    Search,
    /// One tool, `run`, whose scripts call the others.
    Code,
}

impl View {
    /// The configured view for a view of the gate.
    pub fn of(view: callgate_gate::View) -> Self {
        match view {
            callgate_gate::View::Direct => Self::Direct,
            callgate_gate::View::Search => Self::Search,
            callgate_gate::View::Code => Self::Code,
        }
    }

    /// The view of the gate for a configured view.
    pub fn to_gate(self) -> callgate_gate::View {
        match self {
            Self::Direct => callgate_gate::View::Direct,
            Self::Search => callgate_gate::View::Search,
            Self::Code => callgate_gate::View::Code,
        }
    }
}

/// How callers of the `search` view declare the intent of their calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IntentDeclaration {
    /// Whether a call is refused when the server marks its tool as doing more than the caller
    /// declared. If `false`, that is only a warning in the log, and recorded.
    pub strict_server_validation: bool,
    /// Whether callers must declare the operation as well as choose the tool for it. If `false`, it
    /// is inferred.
    pub required: bool,
    /// The form of the declaration in tool schemas; default: chosen by the client's name, `nested`
    /// for most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<IntentForm>,
}

impl Default for IntentDeclaration {
    fn default() -> Self {
        Self {
            strict_server_validation: true,
            required: true,
            form: None,
        }
    }
}

/// How an intent is written. Both forms are always accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum IntentForm {
    /// As an object.
    Nested,
    /// As plain fields beside the tool's name, for models that cannot write nested objects.
    Flat,
}

/// The `search` view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Search {
    /// The default detail of each tool in search results.
    pub detail: SearchDetail,
    /// The longest result that is returned whole, in characters. Of a longer one the beginning is
    /// returned, with a handle for `read_result`.
    pub inline_chars: NonZeroUsize,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            detail: SearchDetail::Full,
            inline_chars: NonZeroUsize::new(20_000).expect("a default is not zero"),
        }
    }
}

/// The `code` view. A script that reaches a limit ends with an error that names the limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Code {
    /// CPU time of one script.
    pub cpu: TimeSpan,
    /// Time from start to end of a script, including its calls.
    pub wall: TimeSpan,
    /// Memory of one script, in MiB.
    pub memory_mib: NonZeroUsize,
    /// Tool calls of one script.
    pub calls: NonZeroUsize,
    /// Length of the script, in KiB.
    pub source_kib: NonZeroUsize,
    /// Depth of functions defined inside functions.
    pub nesting: NonZeroUsize,
    /// Printed text and the result together, in KiB; also the limit for the arguments of one call.
    pub output_kib: NonZeroUsize,
    /// The longest result that is returned whole, in characters. Of a longer one the beginning is
    /// returned, with a handle for `read_result`.
    pub inline_chars: NonZeroUsize,
    /// The folder of local packs, relative to this file: `brave.py` is the pack `brave`. Default:
    /// `.callgate/packs` beside this file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packs: Option<PathBuf>,
}

impl Default for Code {
    fn default() -> Self {
        let some = |n| NonZeroUsize::new(n).expect("a default is not zero");
        Self {
            cpu: TimeSpan(Duration::from_secs(5)),
            wall: TimeSpan(Duration::from_secs(120)),
            memory_mib: some(128),
            calls: some(1000),
            source_kib: some(64),
            nesting: some(8),
            output_kib: some(1024),
            inline_chars: some(5000),
            packs: None,
        }
    }
}

/// The detail of each tool in search results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum SearchDetail {
    /// A one-line signature.
    Compact,
    /// The whole schema.
    Full,
}

/// How tool names are shown to hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Naming {
    /// The text between server name and tool name: one or more of `A-Z a-z 0-9 _ - .`
    #[serde(deserialize_with = "checked::separator")]
    pub separator: String,
    /// Whether the server's name precedes the tool's name. With `never` and a single server, that
    /// server also gets unknown methods.
    pub prefix: Prefix,
    /// The longest shown name, 16 to 128 characters: many hosts add a prefix and cut at 64. Longer
    /// names are cut and end in a short hash.
    #[schemars(range(min = 16, max = 128))]
    #[serde(deserialize_with = "checked::name_length")]
    pub max_length: usize,
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
            prefix: match prefix {
                callgate_gate::Prefix::Always => Prefix::Always,
                callgate_gate::Prefix::Never | callgate_gate::Prefix::Step => Prefix::Never,
            },
            max_length,
        }
    }
}

/// Whether the server's name precedes the tool's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Prefix {
    /// `server__tool`, even with a single server.
    Always,
    /// Only the tool's name; two tools with the same name are an error.
    Never,
}

/// The credentials of `serve`. A missing token is generated at the first start and kept in the data
/// folder.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// The agent token, which gives access to `/mcp` only; `${VAR}` is expanded.
    pub token: Option<String>,
    /// The admin token, which gives access to everything except `/mcp`; `${VAR}` is expanded.
    pub admin_token: Option<String>,
    /// Routes that need no token when they are requested from this machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open_on_loopback: Vec<OpenRoute>,
}

/// A route that can be opened to this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum OpenRoute {
    /// `/v1/check`.
    Check,
    /// `/metrics`.
    Metrics,
}

impl Auth {
    /// Whether a route needs no token when it is requested from this machine.
    pub fn opens(&self, route: OpenRoute) -> bool {
        self.open_on_loopback.contains(&route)
    }
}

impl fmt::Debug for Auth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Auth { .. }")
    }
}

/// A policy: a built-in one, or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyChoice {
    /// Calls that look destructive need approval; all others are allowed. All are recorded.
    Default,
    /// Calls of tools that do not declare themselves harmless need approval. All are recorded.
    Cautious,
    /// All calls are allowed and recorded.
    AllowAll,
    /// The rules of a file decide.
    File(PathBuf),
}

/// Which parts of a call the rules of a policy file are matched against, least strict first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum PolicyMode {
    /// Only the tool's name.
    Fast,
    /// The tool's name and its arguments, in the scope that the tool is mapped to.
    Strict,
}

/// How new and changed tool definitions are treated, least strict first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum PinChoice {
    /// Definitions are not checked.
    Off,
    /// A definition is accepted when it is first seen, unless it looks like an attack; a tool that
    /// changes later is withheld from hosts.
    Tofu,
    /// The same as `tofu`; named after the review that a definition needs if it looks like an
    /// attack.
    Review,
    /// Only tools whose definition is in `callgate.lock` are offered.
    Locked,
}

impl PinChoice {
    /// The effective choice: `review` means `tofu`.
    pub fn effective(choice: Option<Self>) -> Self {
        match choice {
            None | Some(Self::Tofu | Self::Review) => Self::Tofu,
            Some(other @ (Self::Off | Self::Locked)) => other,
        }
    }
}

/// How the activity log is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Activity {
    /// What a written entry survives.
    pub durability: Durability,
    /// What happens to a call that cannot be recorded.
    pub on_failure: OnFailure,
    /// Regular expressions that match secrets, in addition to the built-in ones.
    #[serde(deserialize_with = "checked::patterns")]
    pub redact: Vec<String>,
    /// How many bytes of a call's arguments and of its result are kept.
    pub body_bytes: usize,
    /// How long records are kept.
    pub retain: Retain,
    /// Where the newest entries are published, so that a log that is cut or replaced later is noticed.
    pub heads: Heads,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            durability: Durability::Process,
            on_failure: OnFailure::Refuse,
            redact: Vec::new(),
            body_bytes: 2048,
            retain: Retain::default(),
            heads: Heads::default(),
        }
    }
}

/// What a written entry survives, least strict first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Durability {
    /// The death of the process, including kill -9.
    Process,
    /// A power cut: the entry is synced to the disk before the call is forwarded.
    Power,
}

/// What happens to a call that cannot be recorded, least strict first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum OnFailure {
    /// The call proceeds; its entry is written later.
    Allow,
    /// The call is refused.
    Refuse,
}

/// How long records are kept, and how much of the disk they take. The oldest segments are deleted first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retain {
    /// The longest time, in days.
    pub days: u32,
    /// What the activity log, its search index and its trash may take of the disk together, in megabytes. Before they take
    /// more, the index gives back what it can, then the trash goes, then the oldest entries. No call is refused because
    /// of this limit.
    pub max_mb: u64,
}

impl Default for Retain {
    fn default() -> Self {
        Self {
            days: 90,
            max_mb: 2048,
        }
    }
}

/// Limits. Each description says what happens when the limit is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The longest line on stdio, from hosts and from servers. A longer line is refused, and the
    /// next one is read.
    pub frame_mib: NonZeroUsize,
    /// The largest HTTP body; a larger one is refused.
    pub http_mib: NonZeroUsize,
    /// Memory for all requests and answers in flight. When it is used up, stdio is not read until
    /// there is room, and HTTP waits for 2 s and then answers 503. A larger request runs alone.
    pub inflight_mib: NonZeroUsize,
    /// Open HTTP connections. Beyond that, the longest-idle connection of the busiest client
    /// address is closed to make room; if none is idle, the new one is answered 503.
    pub connections: NonZeroUsize,
    /// How long a session over HTTP may go without a request in flight or an open stream. Then it
    /// ends, and its next request is answered 404, upon which a client initializes a new one.
    #[serde(deserialize_with = "checked::session_idle")]
    pub session_idle: TimeSpan,
    /// Calls in flight per connection to a server; further calls wait.
    pub concurrency_per_server: NonZeroUsize,
    /// Processes of one server: one, and one for each further kind of host. For hosts beyond that
    /// the server is unavailable.
    pub processes_per_server: NonZeroUsize,
}

impl Default for Limits {
    fn default() -> Self {
        let some = |n| NonZeroUsize::new(n).expect("a default is not zero");
        Self {
            frame_mib: some(4),
            http_mib: some(16),
            inflight_mib: some(256),
            connections: some(1024),
            session_idle: TimeSpan(Duration::from_secs(24 * 3600)),
            concurrency_per_server: some(64),
            processes_per_server: some(4),
        }
    }
}

/// Settings that all servers share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ServerDefaults {
    /// How long a call may take, unless its server has a `timeout`.
    pub timeout: TimeSpan,
    /// How long a first list or call waits for servers that are still connecting.
    pub connect_wait: TimeSpan,
    /// How long the answer to `initialize` waits for servers that were never connected before, so that it
    /// has their prompts, resources and instructions. Later starts know what the servers offer and do not wait.
    pub initialize_wait: TimeSpan,
    /// The longest pause between two connection attempts to a server.
    pub reconnect_cap: TimeSpan,
}

impl Default for ServerDefaults {
    fn default() -> Self {
        let seconds = |n| TimeSpan(Duration::from_secs(n));
        Self {
            timeout: seconds(30),
            connect_wait: seconds(10),
            initialize_wait: seconds(1),
            reconnect_cap: seconds(60),
        }
    }
}

/// Logging and tracing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// The log level on stderr.
    pub log: LogLevel,
    /// The OpenTelemetry collector that gets a span for each call, over HTTP, for example
    /// `http://127.0.0.1:4318`; `/v1/traces` is added if the URL has no path. Without it, no spans
    /// are sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp: Option<String>,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            log: LogLevel::Info,
            otlp: None,
        }
    }
}

/// A log level. Each level includes the levels before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// Failures.
    Error,
    /// Also what needs attention.
    Warn,
    /// Also what happens.
    Info,
    /// Also how it happens.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// A length of time, written like `30s`, `1m 30s` or `500ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSpan(pub Duration);

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a length of time; write it like `30s`, `2m` or `500ms`");
        let parsed: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
        Duration::try_from(parsed).map(Self).map_err(|_| wrong())
    }
}

impl FromStr for PolicyChoice {
    type Err = ();

    /// A word without a dot or a slash must be a built-in name, so that a misspelled name is an
    /// error and not a missing file.
    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "default" => Ok(Self::Default),
            "cautious" => Ok(Self::Cautious),
            "allow-all" => Ok(Self::AllowAll),
            file if file.contains(['.', '/']) => Ok(Self::File(file.into())),
            _ => Err(()),
        }
    }
}

impl<'de> Deserialize<'de> for PolicyChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let known = "it can be `default`, `cautious`, `allow-all` or a file like `policy.yaml`";
        // A custom error, because the reader adds the position to those but not to unknown variants.
        text.parse()
            .map_err(|()| de::Error::custom(format!("unknown variant `{text}`; {known}")))
    }
}

impl Serialize for PolicyChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Default => serializer.serialize_str("default"),
            Self::Cautious => serializer.serialize_str("cautious"),
            Self::AllowAll => serializer.serialize_str("allow-all"),
            Self::File(file) => serializer.collect_str(&file.display()),
        }
    }
}

impl JsonSchema for PolicyChoice {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PolicyChoice".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "`default`, `cautious`, `allow-all` or a file",
            "examples": ["default", "cautious", "allow-all", "policy.yaml"],
        })
    }
}

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(duration) = self;
        match jiff::SignedDuration::try_from(*duration) {
            Ok(duration) => serializer.collect_str(&format_args!("{duration:#}")),
            Err(_) => serializer.collect_str(&format_args!("{}s", duration.as_secs())),
        }
    }
}

impl JsonSchema for TimeSpan {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "format": "time span",
            "examples": ["30s", "1m 30s", "500ms"],
        })
    }
}

impl ToolLists {
    fn is_empty(&self) -> bool {
        self.allow.is_none() && self.deny.is_empty()
    }
}

/// The position is ignored: moving a server within the file does not change it.
impl PartialEq for NamedServer {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.server == other.server
    }
}

/// A key of `servers`, checked while it is read so that an error can point at it.
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
                // The YAML reader has already refused a name that is given twice.
                while let Some((Name(name), server)) = map.next_entry::<_, Spanned<Server>>()? {
                    let place = Place::of(&server.referenced);
                    let server = server.value;
                    servers.push(NamedServer {
                        name,
                        server,
                        place,
                    });
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

impl Serialize for Servers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for NamedServer { name, server, .. } in &self.0 {
            map.serialize_entry(name.as_str(), server)?;
        }
        map.end()
    }
}

impl JsonSchema for Servers {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Servers".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let server = generator.subschema_for::<Server>();
        json_schema!({
            "type": ["object", "null"],
            "propertyNames": {"pattern": "^[A-Za-z0-9_-]{1,32}$"},
            "additionalProperties": server,
        })
    }
}

fn yes() -> bool {
    true
}
