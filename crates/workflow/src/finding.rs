//! Table: what can be wrong with a workflow: codes, and what each means.

use callgate_gate::Place;
use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The workflow cannot run.
    Error,
    /// It can, and somebody should know.
    Warning,
}

/// Something that is wrong, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What kind of thing it is.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// The state that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Where in the file, like `states.deploy.mcp_proxy.plugin_tools[0].expose[1]`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// The line, counted from one; zero where it is not known.
    pub line: u64,
    /// The column, likewise.
    pub column: u64,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal: $explained:literal,)*) => {
        /// What kind of thing is wrong.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Code {
            $($(#[$doc])* #[serde(rename = $text)] $name,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// As it is written.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// What it means and what helps.
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
        "A key in `mcp_proxy` is not known. It has `enable`, `intercept_builtins` and `plugin_tools`; an entry of `plugin_tools` has `plugin` and `expose`. A key that was mistyped would otherwise leave an agent with other tools than the author meant.",
    /// A plugin that is not there or does not start.
    UnknownPlugin = "USER.MCP_PROXY.UNKNOWN_PLUGIN":
        "A plugin is not in `.callgate/plugins.yaml`, `.awf/plugins.yaml`, the plugin folders or `plugins` of callgate.yaml; or it was found and nobody trusted it; or it does not start. The message says which. A plugin that was found in the working folder is started after `callgate trust PATH`.",
    /// The plugin has no such operation.
    UnknownOperation = "USER.MCP_PROXY.UNKNOWN_OPERATION":
        "The plugin has no operation of that name. `validate` starts each plugin for at most five seconds and asks it; `--no-plugins` leaves that out.",
    /// Two tools with one name.
    NameCollision = "USER.MCP_PROXY.NAME_COLLISION":
        "Two tools of one step would be shown under one name, so that an agent could not say which it means. Tools of plugins are shown as `PLUGIN_OPERATION`: plugin `a` with `b_c` and plugin `a_b` with `c` are both `a_b_c`. Expose one of them only, or rename a plugin.",
    /// A proxy that offers nothing.
    EmptyProxy = "USER.MCP_PROXY.EMPTY_PROXY":
        "The proxy is on and offers no tool: built-in tools are not intercepted and no operation of a plugin is exposed. `expose` is never implicit: name the operations, set `intercept_builtins: true`, or leave the proxy off.",
    /// An input that cannot be shown to a model.
    UnsupportedSchema = "USER.MCP_PROXY.UNSUPPORTED_SCHEMA":
        "An input of a plugin's operation cannot be shown to a model: its type is none of string, integer, boolean, array and object, its validation is neither url nor email, or its default is not of its type. The plugin has to be changed, or the operation left out.",
    /// The agent cannot be reduced to our tools.
    UnsupportedProvider = "USER.MCP_PROXY.UNSUPPORTED_PROVIDER":
        "A warning. The agent that is installed is not known to be reduced to the gate's tools, so it may use tools of its own round the gate; those are on record as bypassed. `callgate agent probe` looks at the installed agents and remembers what it finds.",
    /// A model that goes round in circles.
    InfiniteLoopGuard = "USER.MCP_PROXY.INFINITE_LOOP_GUARD":
        "A model stopped for tool calls and made none, or made more rounds of calls than `max_rounds` allows (50 when left out).",
    /// An unknown key elsewhere.
    UnknownKey = "USER.WORKFLOW.UNKNOWN_KEY":
        "A key is not known there. A mistyped `on_success` would otherwise end the workflow where the author meant it to go on.",
    /// A value of another type than expected.
    WrongType = "USER.WORKFLOW.WRONG_TYPE":
        "A value is of another type than expected there, or outside the values that it may have.",
    /// Something that must be there is not.
    Missing = "USER.WORKFLOW.MISSING":
        "Something that must be there is missing.",
    /// A state that is not there.
    UnknownState = "USER.WORKFLOW.UNKNOWN_STATE":
        "A state is named that the workflow does not have.",
    /// A state that nothing leads to.
    Unreachable = "USER.WORKFLOW.UNREACHABLE":
        "A warning. Nothing leads to a state from the initial one.",
    /// A template that cannot be read.
    BadTemplate = "USER.WORKFLOW.BAD_TEMPLATE":
        "A template cannot be read, or uses something that is never there. Between `{{` and `}}` stands a path such as `.inputs.name`, `.states.NAME.Output`, `.env.NAME`, `.workflow.id` or `.loop.item`, or one of the functions json, escape, split, join and trimSpace.",
    /// A condition that cannot be read.
    BadExpression = "USER.WORKFLOW.BAD_EXPRESSION":
        "A condition does not compile, or uses something that is never there. Conditions are CEL over paths such as `states.NAME.ExitCode` and `inputs.name`; `and`, `or`, `not` and `contains` are understood, too.",
    /// A proxy on a state that is no agent.
    ProxyWithoutAgent = "USER.WORKFLOW.PROXY_WITHOUT_AGENT":
        "A warning. `mcp_proxy` stands on a state that is no agent, where it has no effect.",
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

    /// Whether the workflow cannot run because of it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl Code {
    fn severity(self) -> Severity {
        match self {
            Self::UnsupportedProvider | Self::Unreachable | Self::ProxyWithoutAgent => {
                Severity::Warning
            }
            Self::UnknownProxyKey
            | Self::UnknownPlugin
            | Self::UnknownOperation
            | Self::NameCollision
            | Self::EmptyProxy
            | Self::UnsupportedSchema
            | Self::InfiniteLoopGuard
            | Self::UnknownKey
            | Self::WrongType
            | Self::Missing
            | Self::UnknownState
            | Self::BadTemplate
            | Self::BadExpression => Severity::Error,
        }
    }
}

/// The code of that name, in full or by its last part, however it is cased.
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
        let at = |path| Finding::new(Code::Missing, path, Place::default(), String::new()).step;
        assert_eq!(at("states.a.retry.backoff").as_deref(), Some("a"));
        assert_eq!(at("states.a").as_deref(), Some("a"));
        assert_eq!(at("states.initial"), None);
        assert_eq!(at("inputs[0].name"), None);
    }
}
