//! A server's declared capabilities, as far as the gateway uses them.

use callgate_wire::{Json, Strictness};

/// A server's declared capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offers {
    pub tools: bool,
    pub resources: bool,
    /// Whether it sends updates for subscribed resources.
    pub subscribe: bool,
    pub prompts: bool,
    pub completions: bool,
    /// Whether tool calls can become tasks.
    pub task_calls: bool,
    pub task_list: bool,
    /// Whether its tasks can be cancelled.
    pub task_cancel: bool,
}

impl Offers {
    /// Parses a raw capabilities object; an invalid one offers nothing.
    pub fn of(capabilities: &str) -> Self {
        let Ok(json) = Json::validate(capabilities.as_bytes(), Strictness::Envelope) else {
            return Self::default();
        };
        let has = |key| json.get(key).is_some_and(|value| !value.is_null());
        let resources = json.get("resources");
        let subscribe = resources.and_then(|resources| resources.get("subscribe"));
        let tasks = json.get("tasks");
        let task = |key| tasks.and_then(|tasks| tasks.get(key)).is_some();
        let calls = tasks.and_then(|tasks| tasks.get("requests")?.get("tools")?.get("call"));
        Self {
            task_calls: calls.is_some(),
            task_list: task("list"),
            task_cancel: task("cancel"),
            tools: has("tools"),
            resources: has("resources"),
            subscribe: subscribe.and_then(|value| value.as_bool()) == Some(true),
            prompts: has("prompts"),
            completions: has("completions"),
        }
    }

    /// The union of two servers' capabilities.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            tools: self.tools || other.tools,
            resources: self.resources || other.resources,
            subscribe: self.subscribe || other.subscribe,
            prompts: self.prompts || other.prompts,
            completions: self.completions || other.completions,
            task_calls: self.task_calls || other.task_calls,
            task_list: self.task_list || other.task_list,
            task_cancel: self.task_cancel || other.task_cancel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_capabilities_are_offered() {
        let offers = Offers::of(
            r#"{"resources":{"subscribe":true},"prompts":{},"tasks":{"list":{},"requests":{"tools":{"call":{}}}},"x":1}"#,
        );
        let expected = Offers {
            resources: true,
            subscribe: true,
            prompts: true,
            task_calls: true,
            task_list: true,
            ..Offers::default()
        };
        assert_eq!(offers, expected);
        assert_eq!(Offers::of("{}").or(offers), offers);
        let nothing = r#"{"resources":null,"prompts":null}"#;
        assert_eq!(Offers::of(nothing), Offers::default());
        assert_eq!(Offers::of("["), Offers::default());
    }
}
