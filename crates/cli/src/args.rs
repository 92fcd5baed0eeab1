//! Arguments as typed.

mod activity;
#[cfg(feature = "agents")]
mod agent;
mod config;
mod flags;
mod lock;
mod people;
#[cfg(feature = "workflow")]
mod workflow;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

pub(crate) use activity::{Activity, ActivityCommand, ActivityFilter, ExportFormat};
#[cfg(feature = "agents")]
pub(crate) use agent::{Agent, AgentMode};
pub(crate) use config::{Config, ConfigCommand, Trust, Warden, Watch};
pub(crate) use lock::{Lock, LockCommand};
pub(crate) use people::{
    ApprovalState, Approvals, ApprovalsCommand, Ceiling, NewToken, Token, TokenCommand, TokenRole,
};
#[cfg(feature = "workflow")]
pub(crate) use workflow::{ExplainCode, RunWorkflow, Validate, Workflow, WorkflowCommand};

/// One gate for every tool call an AI agent makes.
///
/// Callgate stands between agents and their tools. It checks each call against policy, forwards
/// it untouched and records it.
///
/// Start with `callgate demo` to see a call go through, then `callgate serve` or `callgate stdio`.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) shared: Shared,
}

/// Arguments of every command.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Shared {
    /// The configuration file
    #[arg(long, global = true, value_name = "FILE", env = "CALLGATE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The folder of the activity log, the tokens and the logs of servers
    #[arg(long, global = true, value_name = "DIR", env = "CALLGATE_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The log level on stderr: off, error, warn, info, debug or trace
    #[arg(long, global = true, value_name = "LEVEL", env = "CALLGATE_LOG_LEVEL")]
    pub(crate) log_level: Option<String>,
    /// Print data as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Send calls through the gate to a bundled server; needs no configuration
    Demo,
    /// Serve MCP over HTTP
    Serve(Serve),
    /// Serve MCP on standard input and output, for a host that starts its servers
    Stdio(Stdio),
    /// Call one tool through the gate and print its result
    Call(Call),
    /// Run a script that can call all servers, like the tool `run` of the code view
    #[cfg(feature = "code")]
    Run(Run),
    /// List, search and show tools
    Tools(Tools),
    /// List servers, show their logs, and learn their boxes
    Servers(Servers),
    /// List, watch, verify and export recorded calls
    Activity(Activity),
    /// List, approve and deny calls that need approval
    Approvals(Approvals),
    /// Check, test, explain and replay policy files
    Policy(Policy),
    /// Run a coding agent for one task, with its tools routed through the gate
    #[cfg(feature = "agents")]
    Agent(Agent),
    /// Run and check workflows: state machines of commands, agents and plugins
    #[cfg(feature = "workflow")]
    Workflow(Workflow),
    /// Check a workflow and report all its errors; same as `workflow validate`
    #[cfg(feature = "workflow")]
    Validate(Validate),
    /// Explain an error code
    #[cfg(feature = "workflow")]
    Explain(ExplainCode),
    /// Print how to connect a host
    Connect(Connect),
    /// Check a configuration, or show the one in effect
    Config(Config),
    /// Check the installation and report problems
    Doctor,
    /// Trust the callgate.yaml of a project, or a plugin of a project
    Trust(Trust),
    /// Create, list and revoke tokens of agents, approvers and admins
    Token(Token),
    /// Compare tool definitions with callgate.lock, and accept new or changed ones
    Lock(Lock),
    #[cfg(feature = "agents")]
    #[command(hide = true)]
    McpServe,
    #[cfg(feature = "agents")]
    #[command(hide = true)]
    ScriptedModel { script: PathBuf },
    #[command(hide = true)]
    Warden(Warden),
    #[command(hide = true)]
    Watch(Watch),
    #[cfg(feature = "code")]
    #[command(hide = true)]
    Worker { memory_bytes: u64 },
    #[command(hide = true)]
    DemoServer,
}

/// Settings without a file. A flag overrides its environment variable, which overrides the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, ClapArgs)]
pub(crate) struct Gateway {
    /// Add a server: `name:command with arguments`, or `name:https://…` (repeatable)
    #[arg(long = "server", value_name = "NAME:COMMAND|URL")]
    pub(crate) servers: Vec<String>,
    /// The old spelling of `--server`
    #[arg(long = "upstream", value_name = "NAME:COMMAND|URL", hide = true)]
    pub(crate) upstreams: Vec<String>,
    /// The view of hosts whose URL selects none: direct (every tool), search or code
    #[arg(long, value_name = "VIEW", env = "CALLGATE_VIEW")]
    pub(crate) view: Option<ViewName>,
    /// The policy: a file, `default`, `cautious` or `allow-all`
    #[arg(long, value_name = "POLICY", env = "CALLGATE_POLICY")]
    pub(crate) policy: Option<String>,
    /// What the rules of a policy file are matched against: strict (names and arguments) or fast (names only)
    #[arg(long, value_name = "MODE", env = "CALLGATE_POLICY_MODE")]
    pub(crate) policy_mode: Option<PolicyMode>,
    /// A remote gateway that decides each call in place of the policy's rules
    #[arg(long, value_name = "URL", env = "CALLGATE_GUARD_URL")]
    pub(crate) guard_url: Option<String>,
    /// What happens to a call when the remote gateway cannot be asked: deny, allow or fail-closed-with-audit
    #[arg(long, value_name = "MODE", env = "CALLGATE_FAIL_MODE")]
    pub(crate) fail_mode: Option<FailMode>,
    /// The tenant at the remote gateway
    #[arg(long, value_name = "NAME", env = "CALLGATE_TENANT")]
    pub(crate) tenant: Option<String>,
    /// How long a call may take, such as 30s
    #[arg(long, value_name = "TIME", env = "CALLGATE_SERVER_TIMEOUT")]
    pub(crate) server_timeout: Option<String>,
    /// The old spelling of `--server-timeout`
    #[arg(
        long,
        value_name = "TIME",
        env = "CALLGATE_UPSTREAM_TIMEOUT",
        hide = true
    )]
    pub(crate) upstream_timeout: Option<String>,
    /// The longest pause between two connection attempts to a server
    #[arg(long, value_name = "TIME", env = "CALLGATE_RECONNECT_CAP")]
    pub(crate) reconnect_cap: Option<String>,
    /// Add the bundled demo server
    #[arg(long)]
    pub(crate) demo: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewName {
    Direct,
    Search,
    Code,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyMode {
    Strict,
    Fast,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailMode {
    Deny,
    Allow,
    FailClosedWithAudit,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) gateway: Gateway,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", env = "CALLGATE_LISTEN")]
    pub(crate) listen: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Stdio {
    #[command(flatten)]
    pub(crate) gateway: Gateway,
    /// Start own servers even if a `serve` is running on this data folder
    #[arg(long)]
    pub(crate) no_attach: bool,
}

#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Either `callgate call SERVER:TOOL [ARGS]`, or with a declared intent:\n  \
    callgate call tool-read|tool-write|tool-destructive SERVER:TOOL [--args JSON] [--reason TEXT]"
)]
pub(crate) struct Call {
    /// The tool as `server:tool` or as hosts see it; or tool-read, tool-write or tool-destructive, followed by the tool
    pub(crate) first: String,
    /// The tool's arguments, a JSON object; after tool-read, tool-write or tool-destructive, the tool
    #[arg(value_name = "ARGS")]
    pub(crate) second: Option<String>,
    /// The tool's arguments, a JSON object
    #[arg(
        long = "args",
        short = 'j',
        visible_alias = "json_args",
        value_name = "JSON"
    )]
    pub(crate) arguments: Option<String>,
    /// The tool, instead of the positional argument
    #[arg(long, short = 't', value_name = "SERVER:TOOL")]
    pub(crate) tool_name: Option<String>,
    /// What the call will do; same as tool-read, tool-write or tool-destructive
    #[arg(long = "as", value_enum, value_name = "OPERATION")]
    pub(crate) operation: Option<OperationName>,
    /// Why the call is made, for the activity log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// The sensitivity of the call's data: public, internal, private or unknown
    #[arg(long, value_name = "LEVEL")]
    pub(crate) sensitivity: Option<String>,
    /// The format of the result
    #[arg(long, short = 'o', value_enum, value_name = "FORM")]
    pub(crate) output: Option<OutputForm>,
    #[command(flatten)]
    pub(crate) gateway: Gateway,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OperationName {
    Read,
    Write,
    Destructive,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputForm {
    Pretty,
    Json,
}

#[cfg(feature = "code")]
#[derive(Debug, ClapArgs)]
pub(crate) struct Run {
    /// The script, a file that contains it, or - for standard input
    #[arg(value_name = "CODE|FILE|-", required_unless_present = "resume")]
    pub(crate) script: Option<String>,
    /// Resume a held run after its approval
    #[arg(long, value_name = "ID", conflicts_with = "script")]
    pub(crate) resume: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: Gateway,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Tools {
    #[command(subcommand)]
    pub(crate) command: ToolsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List the tools that hosts see
    List(Gateway),
    /// Search tools by purpose
    Search {
        /// What the tool should do, in plain words
        query: String,
        /// The highest number of results
        #[arg(long, value_parser = clap::value_parser!(u8).range(1..=100))]
        limit: Option<u8>,
        #[command(flatten)]
        gateway: Gateway,
    },
    /// Show the full description and schema of a tool
    Show {
        /// The tool as `server:tool`, or as hosts see it
        name: String,
        #[command(flatten)]
        gateway: Gateway,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Servers {
    #[command(subcommand)]
    pub(crate) command: ServersCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ServersCommand {
    /// List the servers and their status
    List(Gateway),
    /// Show what a server wrote to its standard error
    Logs {
        /// The server
        name: String,
        /// The number of lines
        #[arg(long, short = 'n', default_value_t = 100)]
        lines: usize,
    },
    /// Watch what a server uses, and write a box for it
    Learn(Learn),
}

#[derive(Debug, ClapArgs)]
#[command(
    after_help = "The server runs with all rights that it has without a box. Only calls that you ask for are made:\n  \
    callgate servers learn notes --call 'read_note {\"name\": \"today\"}'\n  \
    callgate servers learn notes --for 10m    and use it from your agent meanwhile"
)]
pub(crate) struct Learn {
    /// The server
    pub(crate) name: String,
    /// Call a tool of the server, written as `TOOL` or `TOOL ARGS` (repeatable)
    #[arg(long = "call", value_name = "CALL")]
    pub(crate) calls: Vec<String>,
    /// Serve hosts for this time, such as 60s or 10m, so that you can use the server as always
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) time: Option<String>,
    /// Write the box without asking
    #[arg(long, short = 'y')]
    pub(crate) yes: bool,
    /// Show the box and change nothing
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Policy {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Check a policy file and report its errors
    Check {
        /// The file; default: the configured one
        file: Option<PathBuf>,
    },
    /// Run the test cases of a policy file, from `name.tests.yaml` beside it
    Test {
        /// The policy file or its test cases; default: the configured policy
        file: Option<PathBuf>,
    },
    /// Explain the verdict of a call, rule by rule
    Explain(Explain),
    /// List recorded calls that a policy would decide differently
    Replay(Replay),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Explain {
    /// The tool as `server:tool`
    pub(crate) tool: String,
    /// The tool's arguments, a JSON object
    #[arg(default_value = "{}", value_name = "ARGS")]
    pub(crate) arguments: String,
    /// The name of the calling agent
    #[arg(long, default_value = "anonymous")]
    pub(crate) agent: String,
    /// The agent's name comes from its token, not only from the agent itself
    #[arg(long)]
    pub(crate) vouched_for: bool,
    /// Treat the tool as one that declares itself destructive
    #[arg(long)]
    pub(crate) destructive: bool,
    /// Treat the tool as one that declares itself read-only
    #[arg(long, conflicts_with = "destructive")]
    pub(crate) read_only: bool,
    #[command(flatten)]
    pub(crate) gateway: Gateway,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Replay {
    /// Only calls since a time like 2026-01-31T12:00:00Z, or within an age like 2h, 7d or 2w
    #[arg(long)]
    pub(crate) since: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: Gateway,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Connect {
    /// The host to print the configuration for
    #[arg(long, value_enum, value_name = "HOST")]
    pub(crate) print: HostKind,
    /// Connect over HTTP instead of stdio
    #[arg(long)]
    pub(crate) http: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum HostKind {
    Claude,
    Cursor,
    Codex,
    Vscode,
    Gemini,
    Opencode,
}
