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
    checked,
    foreign::ForeignServers,
    guard::{Guard, Tenants},
};

/// The configuration of a gateway. Everything can be left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "callgate.yaml")]
pub struct Config {
    /// For editors: where the schema of this file is. It is not looked at.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// The servers by name, in the order in which their tools are listed.
    pub servers: Servers,
    /// Servers as other tools write them: a map, or an array of entries with a `name`. Keys that
    /// only the other tool knows are ignored, with a note.
    #[serde(
        rename = "mcpServers",
        skip_serializing_if = "ForeignServers::is_empty"
    )]
    pub mcp_servers: ForeignServers,
    /// The tools that are built in: Read, Write, Edit, Bash, Glob and Grep.
    pub builtins: Builtins,
    /// The plugins by name; their operations are tools like any server's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub plugins: BTreeMap<String, PluginEntry>,
    /// What hosts see where neither the URL nor a flag says it.
    pub view: View,
    /// How tools are shown.
    pub naming: Naming,
    /// The address that `serve` listens on; `127.0.0.1:7117` when left out.
    #[serde(deserialize_with = "checked::address")]
    pub listen: Option<String>,
    /// Names under which `serve` may be reached besides loopback.
    pub hosts: Vec<String>,
    /// The credentials of `serve`.
    pub auth: Auth,
    /// Where the record, the tokens and the logs are kept; the XDG data folder when left out.
    pub data_dir: Option<PathBuf>,
    /// The policy: a file, relative to this one, or a built-in one by its name, `default`, `cautious` or
    /// `allow-all`; `default` when left out.
    pub policy: Option<PolicyChoice>,
    /// How much a policy file is asked about each call; `strict` when left out.
    pub policy_mode: Option<PolicyMode>,
    /// Another gateway that is asked in place of the rules of `policy`.
    pub guard: Guard,
    /// Tenants besides `local`: a name, and what is its own.
    pub tenants: Tenants,
    /// What is done with tools whose definitions nobody has accepted; `tofu` when left out. What was
    /// accepted stands in `callgate.lock` beside this file.
    pub pins: Option<PinChoice>,
    /// How people are asked about calls that need their approval.
    pub approvals: Approvals,
    /// How callers of the `search` view declare what their calls will do.
    pub intent_declaration: IntentDeclaration,
    /// The `search` view.
    pub search: Search,
    /// The `code` view: what a script may use, and its local packs.
    pub code: Code,
    /// How the record is kept.
    pub audit: Audit,
    /// Limits. What happens at each is in its sentence.
    pub limits: Limits,
    /// What all servers have in common.
    pub upstream: Upstream,
    /// Logging and spans.
    pub telemetry: Telemetry,
}

/// The servers in the order of the file, which is the order of the tool list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Servers(pub Vec<NamedServer>);

/// A server, its name, and where it stands in the file.
#[derive(Debug, Clone)]
pub struct NamedServer {
    pub name: ServerName,
    pub server: Server,
    pub place: Place,
}

/// One server: a `command`, or a `url`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["command"]}, {"required": ["url"]}]))]
pub struct Server {
    /// The program, or a whole command line when `args` is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Its arguments; `${VAR}` and `${VAR:-default}` are filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Variables for it; `${VAR}` and `${VAR:-default}` are filled in, and one that is missing
    /// switches off this server alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Whether it sees the gateway's whole environment, except `CALLGATE_*`.
    #[serde(default)]
    pub inherit_env: bool,
    /// Where it runs; relative to the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// The address of a server that is reached over HTTP; `${VAR}` is filled in. `http://` becomes
    /// `https://`, except on loopback.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Headers for every request; `${VAR}` and `${VAR:-default}` are filled in.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Whether `http://` is used as it is, on a private network.
    #[serde(default)]
    pub insecure_http: bool,
    /// Whether it is used.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// How long a call may take; `upstream.timeout` when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Which form of the protocol is spoken with it: the host's own where the server speaks it, or only
    /// that of the versions up to 2025-11-25, or only that of 2026-07-28.
    #[serde(default, skip_serializing_if = "Protocol::is_auto")]
    pub protocol: Protocol,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Which of its tools there are.
    #[serde(default, skip_serializing_if = "ToolLists::is_empty")]
    pub tools: ToolLists,
}

/// Forms of the protocol.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// The host's own where the server speaks it, else the other.
    #[default]
    Auto,
    /// Versions up to 2025-11-25, which begin with `initialize`.
    Handshake,
    /// 2026-07-28, in which each request stands for itself.
    Stateless,
}

impl Protocol {
    fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
}

/// Patterns of tool names; `*` matches any run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ToolLists {
    /// Only these; all when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    /// Never these.
    pub deny: Vec<String>,
}

/// The built-in tools.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Builtins {
    /// Whether hosts of `serve` and `stdio` get them. An agent's step has them in any case.
    pub enabled: bool,
    /// The folders that file tools may use, relative to the file; relative paths in calls start from
    /// the first. The folder that the gateway was started in when left out. To an agent's step these
    /// are added: its own folder comes first.
    pub roots: Option<Vec<PathBuf>>,
}

/// One plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginEntry {
    /// Its program, or the folder that its program `awf-plugin-FOLDER` lies in; relative to the file.
    pub path: PathBuf,
    /// What it is told at its start.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub config: serde_json::Map<String, serde_json::Value>,
    /// How long an operation may take; `upstream.timeout` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
}

/// What hosts see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum View {
    /// Every tool of every server.
    #[default]
    Direct,
    /// A handful of tools that find, describe and call the others.
    Search,
    /// One tool, `run`, that runs scripts which call the others.
    Code,
}

impl View {
    /// A view of the doors, as it is written here.
    pub fn of(view: callgate_gate::View) -> Self {
        match view {
            callgate_gate::View::Direct => Self::Direct,
            callgate_gate::View::Search => Self::Search,
            callgate_gate::View::Code => Self::Code,
        }
    }

    /// The view as the doors know it.
    pub fn meant(self) -> callgate_gate::View {
        match self {
            Self::Direct => callgate_gate::View::Direct,
            Self::Search => callgate_gate::View::Search,
            Self::Code => callgate_gate::View::Code,
        }
    }
}

/// How callers of the `search` view declare what their calls will do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IntentDeclaration {
    /// Whether a call is refused that a server marks as doing more than was declared; otherwise that is
    /// a warning, in the log and on record.
    pub strict_server_validation: bool,
    /// Whether the operation must be declared besides being chosen; otherwise it is inferred.
    pub required: bool,
    /// How the schemas say that it is written; by the client's name when left out, `nested` for most.
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

/// How an intent is written; both spellings are always understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum IntentForm {
    /// As an object.
    Nested,
    /// Beside the tool's name, without any object, for models that cannot write nested ones.
    Flat,
}

/// The `search` view.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Search {
    /// How much a search tells about each tool where it is not asked.
    pub detail: SearchDetail,
    /// A result with more characters is shown as a beginning and a handle, which `read_result` reads.
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

/// The `code` view. A script that reaches a limit ends with an error that names it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Code {
    /// CPU time of a script itself.
    pub cpu: Span,
    /// Time from its beginning to its end, calls included.
    pub wall: Span,
    /// Memory.
    pub memory_mib: NonZeroUsize,
    /// Calls of tools.
    pub calls: NonZeroUsize,
    /// The script's own text.
    pub source_kib: NonZeroUsize,
    /// Functions inside functions.
    pub nesting: NonZeroUsize,
    /// Printed text and the result together; also the arguments of one call.
    pub output_kib: NonZeroUsize,
    /// A result with more characters is shown as a beginning and a handle, which `read_result` reads.
    pub inline_chars: NonZeroUsize,
    /// The folder of local packs, relative to the file: `brave.py` is the pack `brave`. `.callgate/packs`
    /// beside the file when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packs: Option<PathBuf>,
}

impl Default for Code {
    fn default() -> Self {
        let some = |n| NonZeroUsize::new(n).expect("a default is not zero");
        Self {
            cpu: Span(Duration::from_secs(5)),
            wall: Span(Duration::from_secs(120)),
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

/// How much a search tells about each tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum SearchDetail {
    /// A one-line signature.
    Compact,
    /// The whole schema.
    Full,
}

/// How tools are shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Naming {
    /// Stands between server and tool: one or more of `A-Z a-z 0-9 _ - .`
    #[serde(deserialize_with = "checked::separator")]
    pub separator: String,
    /// Whether the server's name stands in front. With `never` and one server, every method passes.
    pub prefix: Prefix,
    /// Longest shown name, 16 to 128: hosts add a prefix of their own and cut at 64. Longer names end
    /// in a short hash.
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

/// Whether the server's name stands in front of a tool's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Prefix {
    /// `server__tool`, also with a single server.
    Always,
    /// The tool's own name; two of one name are an error.
    Never,
}

/// The credentials. What is left out is made at the first start and kept in the data folder.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Auth {
    /// Opens `/mcp` and nothing else; `${VAR}` is filled in.
    pub token: Option<String>,
    /// Opens everything else; `${VAR}` is filled in.
    pub admin_token: Option<String>,
    /// What needs no token when it is asked from this machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open_on_loopback: Vec<OpenRoute>,
}

/// Something that may be open to this machine.
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
    /// Whether something is open to this machine.
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
    /// What looks destructive needs approval; all else is allowed and recorded.
    Default,
    /// What does not say that it is harmless needs approval; all is recorded.
    Cautious,
    /// Everything is allowed and recorded.
    AllowAll,
    /// What the rules in a file say.
    File(PathBuf),
}

/// How much a policy file is asked about each call; the later is the stricter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum PolicyMode {
    /// The tool's name alone.
    Fast,
    /// The tool's name, and its arguments in the scope that the tool is mapped to.
    Strict,
}

/// What is done with tools whose definitions nobody has accepted; the later is the stricter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum PinChoice {
    /// Nothing is compared.
    Off,
    /// What is seen first is accepted, unless it looks like an attack; what changes later is kept from hosts.
    Tofu,
    /// The same as `tofu`, by the name of what happens to definitions that look like an attack.
    Review,
    /// Only what the lock names is offered.
    Locked,
}

impl PinChoice {
    /// What a choice amounts to, from least to most strict: `review` and `tofu` are the same.
    pub fn meant(choice: Option<Self>) -> Self {
        match choice {
            None | Some(Self::Tofu | Self::Review) => Self::Tofu,
            Some(other @ (Self::Off | Self::Locked)) => other,
        }
    }
}

/// How the record is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Audit {
    /// What an entry survives.
    pub durability: Durability,
    /// What to do with a call that cannot be put on record.
    pub on_failure: OnFailure,
    /// Regular expressions of secrets besides the built-in ones.
    #[serde(deserialize_with = "checked::patterns")]
    pub redact: Vec<String>,
    /// How much of arguments and results is kept.
    pub body_bytes: usize,
    /// How long records are kept.
    pub retain: Retain,
}

impl Default for Audit {
    fn default() -> Self {
        Self {
            durability: Durability::Process,
            on_failure: OnFailure::Refuse,
            redact: Vec::new(),
            body_bytes: 2048,
            retain: Retain::default(),
        }
    }
}

/// What an entry survives; the later is the stricter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Durability {
    /// The death of the process, also by kill -9.
    Process,
    /// A power cut: it is synced to the disk before the call is forwarded.
    Power,
}

/// What to do with a call that cannot be put on record; the later is the stricter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum OnFailure {
    /// The call goes on; its record is owed.
    Allow,
    /// No record, no call.
    Refuse,
}

/// How long records are kept; the oldest segments go first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Retain {
    /// At most so many days.
    pub days: u32,
    /// At most so much, in megabytes.
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

/// Limits. What happens at each is in its sentence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Longest line on stdio, both sides; a longer one is refused and the next one is read.
    pub frame_mib: NonZeroUsize,
    /// Largest body over HTTP; a larger one is refused.
    pub http_mib: NonZeroUsize,
    /// Requests and answers in the works at once, all together. When it is used up, stdio is not
    /// read until there is room, and HTTP waits for 2 s and answers 503. A larger request goes alone.
    pub inflight_mib: NonZeroUsize,
    /// Connections over HTTP at once. Beyond it, the one longest without a request is closed for a
    /// new one; when all have one, the new one is answered 503.
    pub connections: NonZeroUsize,
    /// Calls under way at once, per connection to a server; more wait their turn.
    pub concurrency_per_server: NonZeroUsize,
    /// Processes of one server at once: one, and one more for each other kind of host. What comes
    /// then is told that the server is unavailable.
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
            concurrency_per_server: some(64),
            processes_per_server: some(4),
        }
    }
}

/// What all servers have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Upstream {
    /// How long a call may take, where the server says nothing else.
    pub timeout: Span,
    /// How long a first list or call waits for servers that are still connecting.
    pub connect_wait: Span,
    /// Longest pause between two attempts to reach a server.
    pub reconnect_cap: Span,
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

/// Logging and spans.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// How much is logged to stderr.
    pub log: LogLevel,
    /// The OpenTelemetry collector that gets a span for each call, over HTTP:
    /// `http://127.0.0.1:4318`. `/v1/traces` is added where the address has no path. When left out,
    /// nothing is sent anywhere.
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

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum LogLevel {
    /// Nothing.
    Off,
    /// What failed.
    Error,
    /// What needs to be looked at, too.
    Warn,
    /// What happens, too.
    Info,
    /// How it happens, too.
    Debug,
    /// Everything.
    Trace,
}

impl LogLevel {
    /// The word for it.
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
pub struct Span(pub Duration);

impl FromStr for Span {
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

    /// A word without a dot or a slash is a name, so that a name that is misspelled is no file.
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
        // A text of our own: the reader knows the place of those, and not of unknown variants.
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

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(duration) = self;
        match jiff::SignedDuration::try_from(*duration) {
            Ok(duration) => serializer.collect_str(&format_args!("{duration:#}")),
            Err(_) => serializer.collect_str(&format_args!("{}s", duration.as_secs())),
        }
    }
}

impl JsonSchema for Span {
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

/// Where a server stands says nothing about what it is.
impl PartialEq for NamedServer {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.server == other.server
    }
}

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
