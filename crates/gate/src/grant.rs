//! What a token lets its holder do. What a principal may not use, it does not see either.

use std::sync::Arc;

use callgate_wire::methods;

use crate::{Check, Digest, Kind, Operation, Target, Tool};

/// The scope under which a token's own limits speak.
const SCOPE: &str = "token";

/// What the holder of a token may do; by default everything that policy allows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Grant {
    limits: Option<Arc<Limits>>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Limits {
    servers: Option<Vec<String>>,
    ceiling: Operation,
}

impl Grant {
    /// Only these servers (all, when `None`), and nothing that does more than `ceiling`.
    pub fn new(servers: Option<Vec<String>>, ceiling: Operation) -> Self {
        let is_limit = servers.is_some() || ceiling < Operation::Destructive;
        Self {
            limits: is_limit.then(|| Arc::new(Limits { servers, ceiling })),
        }
    }

    /// Whether the holder may use anything of a server.
    pub fn includes(&self, server: &str) -> bool {
        let limits = self.limits.as_deref();
        let servers = limits.and_then(|limits| limits.servers.as_ref());
        servers.is_none_or(|servers| servers.iter().any(|known| known == server))
    }

    /// Why the holder may not use a tool, if it may not.
    pub(crate) fn refuses(&self, tool: &Tool) -> Option<Check> {
        let limits = self.limits.as_deref()?;
        self.refuses_as(limits, tool.server.as_str(), || operation(tool))
    }

    /// Why the holder may not read anything of a server, if it may not.
    pub(crate) fn refuses_reading(&self, server: &str) -> Option<Check> {
        let limits = self.limits.as_deref()?;
        self.refuses_as(limits, server, || Operation::Read)
    }

    /// Why the holder may not make a request of this method, if it may not.
    pub(crate) fn refuses_method(&self, server: &str, method: &str) -> Option<Check> {
        let limits = self.limits.as_deref()?;
        self.refuses_as(limits, server, || operation_of_method(method))
    }

    /// The same for whatever a call is aimed at.
    pub(crate) fn refuses_target(&self, target: &Target) -> Option<Check> {
        match target {
            Target::Tool(tool) => self.refuses(tool),
            // To read is the least that can be done.
            Target::Prompt(of) | Target::Resource(of) | Target::Completion(of) => {
                self.refuses_reading(of.server.as_str())
            }
            Target::Method { server, method, .. } => self.refuses_method(server.as_str(), method),
        }
    }

    fn refuses_as(
        &self,
        limits: &Limits,
        server: &str,
        operation: impl FnOnce() -> Operation,
    ) -> Option<Check> {
        if !self.includes(server) {
            return Some(denied("servers", "this token is not for this server"));
        }
        (operation() > limits.ceiling)
            .then(|| denied("ceiling", "this token is not for calls that can do so much"))
    }
}

/// What a tool can do: what it says, and destruction where it says nothing and its name does.
fn operation(tool: &Tool) -> Operation {
    if tool.looks_destructive() {
        Operation::Destructive
    } else {
        tool.hints.operation()
    }
}

/// What another request can do: anything, unless it is known to read.
fn operation_of_method(method: &str) -> Operation {
    let reads = [
        methods::TOOLS_LIST,
        "resources/list",
        "resources/templates/list",
        "resources/read",
        methods::TASKS_GET,
        methods::TASKS_RESULT,
        "resources/subscribe",
        "resources/unsubscribe",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        // Of a server to its host, which changes nothing at the server.
        methods::ELICITATION,
        methods::SAMPLING,
        methods::ROOTS_LIST,
    ];
    if reads.contains(&method) {
        Operation::Read
    } else {
        Operation::Destructive
    }
}

fn denied(what: &str, reason: &str) -> Check {
    let rule = format!("deny:{SCOPE}:{what}");
    Check {
        scope: SCOPE.to_owned(),
        kind: Kind::Deny,
        hash: Digest::of(rule.as_bytes()),
        rule,
        reason: reason.to_owned(),
        judged: None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::ServerName;

    fn tool(server: &str, descriptor: &'static str) -> Tool {
        let server = ServerName::new(server).expect("it is a name");
        Tool::from_descriptor(&server, Bytes::from_static(descriptor.as_bytes())).expect("a tool")
    }

    fn rule(grant: &Grant, tool: &Tool) -> Option<String> {
        grant.refuses(tool).map(|check| check.rule)
    }

    #[test]
    fn a_grant_limits_servers_and_operations() {
        let reads = tool(
            "fs",
            r#"{"name":"cat","annotations":{"readOnlyHint":true}}"#,
        );
        let silent = tool("fs", r#"{"name":"put"}"#);
        let deletes = tool("fs", r#"{"name":"delete_all"}"#);
        let all = Grant::default();
        let reader = Grant::new(None, Operation::Read);
        let writer = Grant::new(None, Operation::Write);
        let other = Grant::new(Some(vec!["git".to_owned()]), Operation::Destructive);
        let none = Grant::new(Some(Vec::new()), Operation::Destructive);
        let ceiling = || Some("deny:token:ceiling".to_owned());
        let servers = || Some("deny:token:servers".to_owned());
        for (grant, expected) in [
            (&all, [None, None, None]),
            (&reader, [None, ceiling(), ceiling()]),
            (&writer, [None, None, ceiling()]),
            (&other, [servers(), servers(), servers()]),
            (&none, [servers(), servers(), servers()]),
        ] {
            let found = [&reads, &silent, &deletes].map(|tool| rule(grant, tool));
            assert_eq!(found, expected, "{grant:?}");
        }
    }

    #[test]
    fn a_read_only_grant_passes_only_reading_methods() {
        let reader = Grant::new(None, Operation::Read);
        let target = |method: &str| Target::Method {
            server: ServerName::new("fs").expect("it is a name"),
            method: method.to_owned(),
            task: None,
        };
        assert!(reader.refuses_target(&target("resources/read")).is_none());
        assert!(reader.refuses_target(&target("x/anything")).is_some());
        assert!(
            Grant::default()
                .refuses_target(&target("x/anything"))
                .is_none()
        );
    }
}
