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
        Self {
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_declared_is_offered() {
        let offers = Offers::of(r#"{"resources":{"subscribe":true},"prompts":{},"x":1}"#);
        let expected = Offers {
            tools: false,
            resources: true,
            subscribe: true,
            prompts: true,
            completions: false,
        };
        assert_eq!(offers, expected);
        assert_eq!(Offers::of("{}").or(offers), offers);
        let nothing = r#"{"resources":null,"prompts":null}"#;
        assert_eq!(Offers::of(nothing), Offers::default());
        assert_eq!(Offers::of("["), Offers::default());
    }
}
