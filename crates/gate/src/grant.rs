//! Grants: what a token permits. A principal does not see what it may not use.

use std::sync::Arc;

use callgate_wire::methods;

use crate::{Check, Digest, Kind, Operation, Target, Tool};

/// The scope of checks that come from a token's limits.
const SCOPE: &str = "token";

/// A token's limits; by default there are none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Grant {
    limits: Option<Arc<GrantLimits>>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct GrantLimits {
    servers: Option<Vec<String>>,
    ceiling: Operation,
}

impl Grant {
    /// Only these servers (all, when `None`), and nothing that does more than `ceiling`.
    pub fn new(servers: Option<Vec<String>>, ceiling: Operation) -> Self {
        // No limits compare equal to the default grant, so viewers that see the same share one list.
        let is_limit = servers.is_some() || ceiling < Operation::Destructive;
        Self {
            limits: is_limit.then(|| Arc::new(GrantLimits { servers, ceiling })),
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

    /// Why the holder may not make a call, if it may not.
    pub(crate) fn refuses_target(&self, target: &Target) -> Option<Check> {
        match target {
            Target::Tool(tool) => self.refuses(tool),
            // Reading is the lowest operation, so only the list of servers can refuse it.
            Target::Prompt(of) | Target::Resource(of) | Target::Completion(of) => {
                self.refuses_reading(of.server.as_str())
            }
            Target::Method { server, method, .. } => self.refuses_method(server.as_str(), method),
        }
    }

    fn refuses_as(
        &self,
        limits: &GrantLimits,
        server: &str,
        operation: impl FnOnce() -> Operation,
    ) -> Option<Check> {
        if !self.includes(server) {
            return Some(denied("servers", "the token does not cover this server"));
        }
        (operation() > limits.ceiling)
            .then(|| denied("ceiling", "the call exceeds the token's ceiling"))
    }
}

/// A tool's operation: its hints, or destructive when the hints are silent and its name has a destructive verb.
fn operation(tool: &Tool) -> Operation {
    if tool.looks_destructive() {
        Operation::Destructive
    } else {
        tool.hints.operation()
    }
}

/// A method's operation: destructive, unless it is known to only read.
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
        // Questions from a server to its host change nothing at the server.
        methods::ELICITATION,
        methods::SAMPLING,
        methods::ROOTS_LIST,
    ];
    // An allow-list: servers may define methods that this build has never heard of.
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
