//! What a server says it can do, as far as a gateway has to know.

use callgate_wire::{Json, Strictness};

/// What a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offers {
    /// It has tools.
    pub tools: bool,
    /// It has resources.
    pub resources: bool,
    /// It tells of their changes.
    pub subscribe: bool,
    /// It has prompts.
    pub prompts: bool,
    /// It completes arguments.
    pub completions: bool,
    /// It makes tasks of tool calls.
    pub task_calls: bool,
    /// It lists tasks.
    pub task_list: bool,
    /// Its tasks can be cancelled.
    pub task_cancel: bool,
}

impl Offers {
    /// Reads a raw capabilities object. What cannot be read offers nothing.
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

    /// What either of two servers offers.
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
