//! Table: the codes of findings in workflows, and what each means.

use callgate_gate::Place;
use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The workflow cannot run.
    Error,
    /// The workflow can run, but its author should know.
    Warning,
}

/// A problem in a workflow, with its position.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub code: Code,
    pub severity: Severity,
    /// The state that the finding is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The path in the file, such as `states.deploy.mcp_proxy.plugin_tools[0].expose[1]`.
    pub path: String,
    pub message: String,
    /// The line, counted from one; zero if it is unknown.
    pub line: u64,
    /// The column, counted from one; zero if it is unknown.
    pub column: u64,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal: $explained:literal,)*) => {
        /// The kind of a finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Code {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// What the code means and what to do.
            pub fn explained(self) -> &'static str {
                match self {
                    $(Self::$name => $explained,)*
                }
            }
        }
    };
}

codes! {
    /// An unknown key in `mcp_proxy`.
    UnknownProxyKey = "USER.MCP_PROXY.UNKNOWN_KEY":
        "`mcp_proxy` has an unknown key. Its keys are `enable`, `intercept_builtins`, `plugin_tools` and `tools`; an entry of `plugin_tools` has `plugin` and `expose`. Ignoring a mistyped key could give an agent other tools than the author meant.",
    /// A plugin that is not found, not trusted or does not start.
    UnknownPlugin = "USER.MCP_PROXY.UNKNOWN_PLUGIN":
        "A plugin is not in `.callgate/plugins.yaml`, `.awf/plugins.yaml`, the plugin folders or `plugins` of callgate.yaml; or it was found but is not trusted; or it does not start. The message says which. A plugin found in the working folder only starts after `callgate trust PATH`.",
    /// The plugin has no such operation.
    UnknownOperation = "USER.MCP_PROXY.UNKNOWN_OPERATION":
        "The plugin has no operation of that name. `validate` starts each plugin for at most five seconds and asks it; `--no-plugins` skips this check.",
    /// A server that the configuration does not have, or one that does not list the tools.
    UnknownServer = "USER.MCP_PROXY.UNKNOWN_SERVER":
        "`tools` names a server that callgate.yaml does not have or that is disabled, or is not of the form `SERVER:TOOL`. When the step starts: a server did not connect, or lists no tool that matches. The agent is not started then.",
    /// Two tools with the same shown name.
    NameCollision = "USER.MCP_PROXY.NAME_COLLISION":
        "Two tools of one step would have the same name, so an agent could not tell them apart. Plugin tools are named `PLUGIN_OPERATION`: plugin `a` with `b_c` and plugin `a_b` with `c` are both `a_b_c`. Expose only one of them, or rename a plugin.",
    /// A proxy that offers no tools.
    EmptyProxy = "USER.MCP_PROXY.EMPTY_PROXY":
        "The proxy is enabled but offers no tools: built-in tools are not intercepted, and neither a plugin operation nor a server's tool is offered. `expose` is never implicit: name the operations, set `intercept_builtins: true`, or disable the proxy.",
    /// An input without a JSON Schema form.
    UnsupportedSchema = "USER.MCP_PROXY.UNSUPPORTED_SCHEMA":
        "An input of a plugin's operation cannot be shown to a model: its type is not string, integer, boolean, array or object, its validation is not url or email, or its default does not have its type. Change the plugin, or do not expose the operation.",
    /// The agent is not known to run with the gate's tools alone.
    UnsupportedProvider = "USER.MCP_PROXY.UNSUPPORTED_PROVIDER":
        "A warning. The installed agent is not known to run with the gate's tools alone, so it may use its own tools without passing the gate; such calls are recorded as bypassed. `callgate agent probe` tests the installed agents and stores the result.",
    /// A model that does not stop calling tools.
    InfiniteLoopGuard = "USER.MCP_PROXY.INFINITE_LOOP_GUARD":
        "A model ended an answer with the finish reason `tool_calls` but made no call, or made more rounds of calls than `max_rounds` allows (default 50).",
    /// An unknown key elsewhere.
    UnknownKey = "WORKFLOW.PARSE.UNKNOWN_FIELD":
        "A key is unknown and resembles a known one. Ignoring a mistyped `on_success`, for example, would end the workflow where the author meant it to continue.",
    /// An unknown key that resembles no known one.
    IgnoredKey = "USER.WORKFLOW.IGNORED_KEY":
        "A warning. A key is unknown and has no effect. Files for other workflow runners may have such keys; remove the key if the file is only for Callgate.",
    /// The file is not YAML, or a value is missing, has another type or is not allowed.
    Malformed = "WORKFLOW.PARSE.YAML_SYNTAX":
        "The file is not valid YAML, or a value is missing, has the wrong type, or is outside its allowed values.",
    /// A reference to a state that does not exist.
    UnknownState = "WORKFLOW.VALIDATION.MISSING_STATE":
        "A state refers to a state that does not exist in the workflow.",
    /// A file that the workflow names does not exist.
    MissingFile = "USER.INPUT.MISSING_FILE":
        "A file that the workflow names does not exist or cannot be read. Paths of prompts and scripts are relative to the workflow's folder; templates and called workflows are looked for beside the workflow.",
    /// A skill that a state names does not exist.
    MissingSkill = "USER.INPUT.MISSING_SKILL":
        "A state names a skill that is not in `.awf/skills`, `.agents/skills` or `.claude/skills` of the working folder, nor in those of the user, or a folder without `SKILL.md`. `AWF_SKILLS_PATH` replaces these folders.",
    /// A role that a state names does not exist.
    MissingRole = "USER.INPUT.MISSING_ROLE":
        "A state names a role that is not in `.awf/roles` or `.agents/roles` of the working folder, nor in those of the user, or a folder without `AGENTS.md`. `AWF_ROLES_PATH` replaces these folders. The state fails when it is reached.",
    /// An agent that Callgate cannot run.
    ForeignAgent = "USER.WORKFLOW.FOREIGN_AGENT":
        "A warning. Callgate has no agent of this name, but AWF may; the state fails when it is reached.",
    /// A state that cannot be reached.
    Unreachable = "USER.WORKFLOW.UNREACHABLE":
        "A warning. The state cannot be reached from the initial state.",
    /// A malformed template, or one with an unknown path.
    BadTemplate = "USER.WORKFLOW.BAD_TEMPLATE":
        "A template is malformed, or uses a path that never has a value. Write between `{{` and `}}` a path such as `.inputs.name`, `.states.NAME.Output`, `.env.NAME`, `.workflow.id` or `.loop.item`, or one of the functions json, escape, split, join, trimSpace and readFile. A value of a state that cannot have run yet is refused, too.",
    /// A malformed condition, or one with an unknown path.
    BadExpression = "USER.WORKFLOW.BAD_EXPRESSION":
        "A condition does not compile, or uses a path that never has a value. Conditions are CEL over paths such as `states.NAME.ExitCode` and `inputs.name`; `and`, `or`, `not` and `contains` also work.",
    /// A proxy on a state that runs no agent.
    ProxyWithoutAgent = "USER.WORKFLOW.PROXY_WITHOUT_AGENT":
        "A warning. `mcp_proxy` is set on a state that does not run an agent, where it has no effect.",
}

impl Finding {
    pub(crate) fn new(code: Code, path: impl Into<String>, place: Place, message: String) -> Self {
        let path = path.into();
        let step = path.strip_prefix("states.").map(|rest| {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            rest[..end].to_owned()
        });
        Self {
            code,
            severity: code.severity(),
            step: step.filter(|step| step != "initial"),
            path,
            message,
            line: place.line,
            column: place.column,
        }
    }

    /// The finding as a warning.
    pub(crate) fn warning(self) -> Self {
        Self {
            severity: Severity::Warning,
            ..self
        }
    }

    /// Whether the finding keeps the workflow from running.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl Code {
    fn severity(self) -> Severity {
        match self {
            Self::UnsupportedProvider
            | Self::Unreachable
            | Self::ProxyWithoutAgent
            | Self::IgnoredKey
            | Self::MissingRole
            | Self::ForeignAgent => Severity::Warning,
            Self::UnknownProxyKey
            | Self::UnknownPlugin
            | Self::UnknownOperation
            | Self::UnknownServer
            | Self::NameCollision
            | Self::EmptyProxy
            | Self::UnsupportedSchema
            | Self::InfiniteLoopGuard
            | Self::UnknownKey
            | Self::Malformed
            | Self::UnknownState
            | Self::MissingFile
            | Self::MissingSkill
            | Self::BadTemplate
            | Self::BadExpression => Severity::Error,
        }
    }
}

/// The code of that name, in full or by its last part, ignoring case.
pub fn explain(text: &str) -> Option<Code> {
    let wanted = text.trim().to_uppercase();
    let mut codes = Code::ALL.iter().copied();
    let whole = codes.clone().find(|code| code.as_str() == wanted);
    whole.or_else(|| codes.find(|code| code.as_str().rsplit('.').next() == Some(wanted.as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_codes_are_found_in_full_and_by_last_part() {
        for code in Code::ALL {
            assert_eq!(explain(code.as_str()), Some(*code));
        }
        assert_eq!(explain("empty_proxy"), Some(Code::EmptyProxy));
        assert_eq!(explain("unknown_key"), Some(Code::UnknownProxyKey));
        assert_eq!(explain("nothing"), None);
    }

    #[test]
    fn a_finding_names_its_step() {
        let at = |path| Finding::new(Code::Malformed, path, Place::default(), String::new()).step;
        assert_eq!(at("states.a.retry.backoff").as_deref(), Some("a"));
        assert_eq!(at("states.a").as_deref(), Some("a"));
        assert_eq!(at("states.initial"), None);
        assert_eq!(at("inputs[0].name"), None);
    }
}
