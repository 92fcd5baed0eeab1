//! Arguments as typed.

mod activity;
#[cfg(feature = "agents")]
mod agent;
mod flags;
mod lock;
mod people;
#[cfg(feature = "workflow")]
mod workflow;

use std::{ffi::OsString, path::PathBuf};

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

pub(crate) use activity::{Activity, ActivityCommand, ActivityFilter, ExportFormat};
#[cfg(feature = "agents")]
pub(crate) use agent::{Agent, AgentMode};
pub(crate) use lock::{Lock, LockCommand};
pub(crate) use people::{
    ApprovalState, Approvals, ApprovalsCommand, Ceiling, NewToken, Token, TokenCommand, TokenRole,
};
#[cfg(feature = "workflow")]
pub(crate) use workflow::{ExplainCode, RunWorkflow, Validate, Workflow, WorkflowCommand};

/// One gate for every tool call an AI agent makes.
///
/// Callgate stands between agents and their tools. It checks each call against policy, forwards
/// it untouched and keeps a record that loses nothing.
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

/// What every command takes.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Shared {
    /// The configuration file
    #[arg(long, global = true, value_name = "FILE", env = "CALLGATE_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Where the record, the tokens and the logs are kept
    #[arg(long, global = true, value_name = "DIR", env = "CALLGATE_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// How much is logged to stderr: error, warn, info, debug
    #[arg(long, global = true, value_name = "LEVEL", env = "CALLGATE_LOG_LEVEL")]
    pub(crate) log_level: Option<String>,
    /// Print data as JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See a call go through the gate, with a bundled server; needs nothing
    Demo,
    /// Serve MCP over HTTP on one port
    Serve(Serve),
    /// Serve MCP on standard input and output, for hosts that start their servers
    Stdio(Stdio),
    /// Call one tool through the gate and print its result
    Call(Call),
    /// Run a script over all servers, as the tool `run` of the code view does
    #[cfg(feature = "code")]
    Run(Run),
    /// The tools there are
    Tools(Tools),
    /// The servers there are
    Servers(Servers),
    /// What happened: every call on record
    Activity(Activity),
    /// Calls that need a person: see them, approve them, deny them
    Approvals(Approvals),
    /// Check, test, explain and replay policy files
    Policy(Policy),
    /// Run a coding agent for one task, with the gate as where its tools come from
    #[cfg(feature = "agents")]
    Agent(Agent),
    /// Run state machines of commands, agents and plugins
    #[cfg(feature = "workflow")]
    Workflow(Workflow),
    /// Say everything that is wrong with a workflow: the same as `workflow validate`
    #[cfg(feature = "workflow")]
    Validate(Validate),
    /// Say what a code means
    #[cfg(feature = "workflow")]
    Explain(ExplainCode),
    /// How to connect a host
    Connect(Connect),
    /// Check the configuration, or show what is in effect
    Config(Config),
    /// Check the installation and say what is wrong
    Doctor,
    /// Allow the callgate.yaml of a folder to be used, or a plugin that was found there
    Trust(Trust),
    /// Tokens for agents, approvers and admins
    Token(Token),
    /// Look at what tools said when they were accepted, and accept what they say now
    Lock(Lock),
    #[cfg(feature = "agents")]
    #[command(hide = true)]
    McpServe,
    #[cfg(feature = "agents")]
    #[command(hide = true)]
    ScriptedModel { script: PathBuf },
    #[command(hide = true)]
    Warden(Warden),
    #[cfg(feature = "code")]
    #[command(hide = true)]
    Worker { memory_bytes: u64 },
    #[command(hide = true)]
    DemoServer,
}

/// What a gateway can be told without a file; a flag beats the environment beats the file.
#[derive(Debug, Clone, Default, PartialEq, Eq, ClapArgs)]
pub(crate) struct Gateway {
    /// Add a server: `name:command with arguments`, or `name:https://…` (repeatable)
    #[arg(long = "upstream", value_name = "NAME:COMMAND|URL")]
    pub(crate) upstreams: Vec<String>,
    /// What hosts see where the URL does not say it: direct (every tool), search or code
    #[arg(long, value_name = "VIEW", env = "CALLGATE_VIEW")]
    pub(crate) view: Option<ViewName>,
    /// The policy: a file, default, cautious or allow-all
    #[arg(long, value_name = "POLICY", env = "CALLGATE_POLICY")]
    pub(crate) policy: Option<String>,
    /// How much a policy file is asked: strict, or fast (names alone)
    #[arg(long, value_name = "MODE", env = "CALLGATE_POLICY_MODE")]
    pub(crate) policy_mode: Option<PolicyMode>,
    /// Another gateway that is asked about each call in place of the policy's rules
    #[arg(long, value_name = "URL", env = "CALLGATE_GUARD_URL")]
    pub(crate) guard_url: Option<String>,
    /// What counts when it cannot be asked: deny, allow or fail-closed-with-audit
    #[arg(long, value_name = "MODE", env = "CALLGATE_FAIL_MODE")]
    pub(crate) fail_mode: Option<FailMode>,
    /// The tenant that it is asked for
    #[arg(long, value_name = "NAME", env = "CALLGATE_TENANT")]
    pub(crate) tenant: Option<String>,
    /// How long a call may take, for example 30s
    #[arg(long, value_name = "TIME", env = "CALLGATE_UPSTREAM_TIMEOUT")]
    pub(crate) upstream_timeout: Option<String>,
    /// Longest pause between two attempts to reach a server
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
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", env = "CALLGATE_LISTEN")]
    pub(crate) listen: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Stdio {
    #[command(flatten)]
    pub(crate) gateway: Gateway,
    /// Serve alone, also beside a running `serve` of this data folder
    #[arg(long)]
    pub(crate) no_attach: bool,
}

#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Either `callgate call SERVER:TOOL [ARGS]`, or with a declared intent:\n  \
    callgate call tool-read|tool-write|tool-destructive SERVER:TOOL [--args JSON] [--reason TEXT]"
)]
pub(crate) struct Call {
    /// The tool as `server:tool`, or as hosts see it; or tool-read, tool-write or tool-destructive in front of it
    pub(crate) first: String,
    /// Its arguments, a JSON object; behind tool-read and the like the tool
    #[arg(value_name = "ARGS")]
    pub(crate) second: Option<String>,
    /// Its arguments, a JSON object
    #[arg(
        long = "args",
        short = 'j',
        visible_alias = "json_args",
        value_name = "JSON"
    )]
    pub(crate) arguments: Option<String>,
    /// The tool, instead of writing it behind tool-read and the like
    #[arg(long, short = 't', value_name = "SERVER:TOOL")]
    pub(crate) tool_name: Option<String>,
    /// What the call will do: the same as tool-read and the like
    #[arg(long = "as", value_enum, value_name = "OPERATION")]
    pub(crate) operation: Option<OperationName>,
    /// Why it is made, for the record
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// How private its data are: public, internal, private or unknown
    #[arg(long, value_name = "LEVEL")]
    pub(crate) sensitivity: Option<String>,
    /// How the result is printed
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
    /// The script, a file that it stands in, or - for standard input
    #[arg(value_name = "CODE|FILE|-", required_unless_present = "resume")]
    pub(crate) script: Option<String>,
    /// Go on with a held run, once it is approved
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
    /// List every tool, as hosts see it
    List(Gateway),
    /// Find tools by what they are for
    Search {
        /// What the tool should do, in plain words
        query: String,
        /// At most so many
        #[arg(long, value_parser = clap::value_parser!(u8).range(1..=100))]
        limit: Option<u8>,
        #[command(flatten)]
        gateway: Gateway,
    },
    /// Show the whole descriptor of a tool
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
    /// List every server and how it stands
    List(Gateway),
    /// Show what a server wrote to its standard error
    Logs {
        /// The server
        name: String,
        /// How many lines
        #[arg(long, short = 'n', default_value_t = 100)]
        lines: usize,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Policy {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say whether a policy file is right, and where it is not
    Check {
        /// The file; the configured one when left out
        file: Option<PathBuf>,
    },
    /// Run the cases that stand beside a policy file, in `name.tests.yaml`
    Test {
        /// The policy file, or its cases; the configured one when left out
        file: Option<PathBuf>,
    },
    /// Say why a call gets its verdict, rule by rule
    Explain(Explain),
    /// Say what a policy would have decided on the recorded calls, where that differs
    Replay(Replay),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Explain {
    /// The tool as `server:tool`
    pub(crate) tool: String,
    /// Its arguments, a JSON object
    #[arg(default_value = "{}", value_name = "ARGS")]
    pub(crate) arguments: String,
    /// The agent that calls
    #[arg(long, default_value = "anonymous")]
    pub(crate) agent: String,
    /// The name is that of the agent's token, and not only its own word
    #[arg(long)]
    pub(crate) vouched_for: bool,
    /// The tool declares that it is destructive
    #[arg(long)]
    pub(crate) destructive: bool,
    /// The tool declares that it only reads
    #[arg(long, conflicts_with = "destructive")]
    pub(crate) read_only: bool,
    #[command(flatten)]
    pub(crate) gateway: Gateway,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Replay {
    /// Only since then: a time like 2026-01-31T12:00:00Z, or an age like 2h
    #[arg(long)]
    pub(crate) since: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: Gateway,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Connect {
    /// Print the snippet for this host
    #[arg(long, value_enum, value_name = "HOST")]
    pub(crate) print: HostKind,
    /// Over HTTP instead of stdio
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

#[derive(Debug, ClapArgs)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Say whether a file is right, and where it is not
    Check {
        /// The file; the one that would be used when left out
        file: Option<PathBuf>,
    },
    /// Show what is in effect, flags and variables included, without secrets
    Show(Serve),
    /// Print the JSON Schema of the file
    Schema,
    /// Print the reference page
    #[command(hide = true)]
    Reference,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Trust {
    /// The file, the folder of a plugin, or a list of plugins; `./callgate.yaml` when left out
    pub(crate) file: Option<PathBuf>,
    /// Take the trust back
    #[arg(long)]
    pub(crate) revoke: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Warden {
    pub(crate) parent: u32,
    #[arg(long)]
    pub(crate) remove: Option<PathBuf>,
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}
