//! Detects changes that may loosen policy. A change counts as loosening unless it is certainly as strict.

use std::collections::BTreeSet;

use callgate_gate::{Operation, pins::Lock};
use serde_json::Value;

use crate::{
    Settings,
    model::{PinChoice, ToolLists},
    policies::Chosen,
};

/// Keys of rules that restrict.
const RESTRICTING: [&str; 3] = ["deny", "require_approval", "confirm"];
/// Keys that do not affect what is allowed.
const WORDS: [&str; 3] = ["name", "description", "message"];

/// Every way in which `now` may be looser than `before`, in words.
pub fn loosened(before: &Settings, now: &Settings) -> Vec<String> {
    let mut found = layers(&before.policies.chosen, &now.policies.chosen);
    for (tenant, chosen) in &now.policies.tenants {
        let known = before.policies.tenants.get(tenant);
        let known = known.map_or(&[] as &[Chosen], std::slice::from_ref);
        let of_tenant = layers(known, std::slice::from_ref(chosen)).into_iter();
        found.extend(of_tenant.map(|what| format!("tenant `{tenant}`: {what}")));
    }
    if now.policies.mode < before.policies.mode {
        found.push("`policy_mode` became `fast`".to_owned());
    }
    let pins = |settings: &Settings| PinChoice::effective(settings.config.pins);
    if pins(now) < pins(before) {
        found.push("`pins` became less strict".to_owned());
    }
    if before.guard.is_some() && now.guard != before.guard {
        found.push("`guard` was changed or removed".to_owned());
    }
    let intent = |settings: &Settings| {
        let declared = &settings.config.intent_declaration;
        (declared.required, declared.strict_server_validation)
    };
    let (was, is) = (intent(before), intent(now));
    if (was.0 && !is.0) || (was.1 && !is.1) {
        found.push("`intent_declaration` became less strict".to_owned());
    }
    for server in &now.config.servers.0 {
        let mut known = before.config.servers.0.iter();
        let known = known.find(|known| known.name == server.name);
        if known.is_some_and(|known| shows_more(&known.server.tools, &server.server.tools)) {
            found.push(format!("server `{}` offers more tools", server.name));
        }
    }
    found.extend(lowered(&before.pins.lock, &now.pins.lock));
    found
}

/// The tools whose class the operator has lowered.
pub fn lowered(before: &Lock, now: &Lock) -> Vec<String> {
    let lower = |(server, tool, pin): (&str, &str, &callgate_gate::pins::Pin)| {
        let known = before.pin(server, tool)?;
        let (was, is) = (known.operator, pin.operator);
        let is_lower = match (was, is) {
            (was, is) if was == is => false,
            (_, Some(Operation::Destructive)) => false,
            (None | Some(_), _) => true,
        };
        is_lower.then(|| format!("the override of `{server}:{tool}` in the lock changed"))
    };
    now.pins().filter_map(lower).collect()
}

/// Every layer applies, so each previous layer must still exist or be replaced by one that is as strict.
fn layers(before: &[Chosen], now: &[Chosen]) -> Vec<String> {
    let mut found = Vec::new();
    for was in before {
        let differences: Vec<Vec<String>> = now.iter().map(|is| differences(was, is)).collect();
        if differences.iter().any(Vec::is_empty) {
            continue;
        }
        let fewest = differences.into_iter().min_by_key(Vec::len);
        found.extend(fewest.unwrap_or_else(|| vec!["a policy was removed".to_owned()]));
    }
    found
}

/// Every way in which `is` may be looser than `was`.
fn differences(was: &Chosen, is: &Chosen) -> Vec<String> {
    match (was, is) {
        // `cautious` holds every call that `default` holds, so moving to it never loosens.
        (Chosen::AllowAll, _)
        | (Chosen::Default, Chosen::Default | Chosen::Cautious)
        | (Chosen::Cautious, Chosen::Cautious) => Vec::new(),
        (Chosen::File(was), Chosen::File(is)) => rules(&was.text, &is.text),
        (Chosen::Cautious, Chosen::Default) => {
            vec!["the policy became `default`".to_owned()]
        }
        (Chosen::Default | Chosen::Cautious | Chosen::File(_), Chosen::AllowAll) => {
            vec!["the policy became `allow-all`".to_owned()]
        }
        (Chosen::Default | Chosen::Cautious, Chosen::File(_))
        | (Chosen::File(_), Chosen::Default | Chosen::Cautious) => {
            vec!["the policy was replaced by one that may allow more".to_owned()]
        }
    }
}

/// The rules and settings of a policy file, by their effect.
#[derive(Default)]
struct PolicyParts {
    restricting: BTreeSet<String>,
    allowing: BTreeSet<String>,
    other: BTreeSet<String>,
}

fn rules(was: &str, is: &str) -> Vec<String> {
    if was == is {
        return Vec::new();
    }
    let (was, is) = (PolicyParts::of(was), PolicyParts::of(is));
    let removed = was.restricting.difference(&is.restricting);
    let added = is.allowing.difference(&was.allowing);
    let removed = removed.map(|rule| format!("a rule was removed or changed: {rule}"));
    let mut found: Vec<String> = removed
        .chain(added.map(|rule| format!("a rule was added: {rule}")))
        .collect();
    if was.other != is.other {
        found.push("settings of the policy outside its rules changed".to_owned());
    }
    found
}

impl PolicyParts {
    fn of(text: &str) -> Self {
        let mut parts = Self::default();
        let value: Value = serde_saphyr::from_str(text).unwrap_or_default();
        parts.take(&value, "");
        parts
    }

    fn take(&mut self, value: &Value, at: &str) {
        match value {
            Value::Object(members) => {
                let scope = members.get("scope").and_then(Value::as_str);
                let at = scope.map_or_else(|| at.to_owned(), |scope| format!("{at} {scope}"));
                for (key, value) in members {
                    let rules = value.as_array().map_or(&[] as &[Value], Vec::as_slice);
                    let shown = |rule: &Value| format!("`{key}`{at} {}", unworded(rule));
                    if RESTRICTING.contains(&key.as_str()) {
                        self.restricting.extend(rules.iter().map(shown));
                    } else if key == "allow" {
                        self.allowing.extend(rules.iter().map(shown));
                    } else if !WORDS.contains(&key.as_str()) {
                        self.take(value, &format!("{at} {key}"));
                    }
                }
            }
            Value::Array(elements) => {
                for element in elements {
                    self.take(element, at);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.other.insert(format!("{at} {value}"));
            }
        }
    }
}

/// A rule without its name, description and message: changing those loosens nothing.
fn unworded(rule: &Value) -> Value {
    let mut rule = rule.clone();
    if let Some(members) = rule.as_object_mut() {
        members.retain(|key, _| !WORDS.contains(&key.as_str()));
    }
    rule
}

fn shows_more(was: &ToolLists, is: &ToolLists) -> bool {
    let denies_less = was.deny.iter().any(|pattern| !is.deny.contains(pattern));
    let allows_more = match (&was.allow, &is.allow) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(was), Some(is)) => is.iter().any(|pattern| !was.contains(pattern)),
    };
    denies_less || allows_more
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "version: '1'\nrules: [{scope: a, deny: [{pattern: x, message: m}], allow: [{pattern: y}]}]\n";

    #[test]
    fn only_policy_changes_that_surely_tighten_go_unreported() {
        for (is, expected) in [
            (POLICY.replace("message: m", "message: n"), 0),
            (POLICY.replace("deny: [", "deny: [{pattern: z}, "), 0),
            (POLICY.replace("allow: [{pattern: y}]", "allow: []"), 0),
            (POLICY.replace("pattern: x", "pattern: z"), 1),
            (POLICY.replace("pattern: y", "pattern: '*'"), 1),
            (POLICY.replace("scope: a", "scope: b"), 2 + 1),
            (POLICY.replace("deny: [", "limits: {a: 1}, deny: ["), 1),
            (POLICY.replace("deny:", "confirm:"), 1),
        ] {
            let found = rules(POLICY, &is);
            assert_eq!(found.len(), expected, "{is}: {found:?}");
        }
    }

    #[test]
    fn tool_list_changes_are_reported_only_when_tools_are_added() {
        let lists = |allow: Option<&[&str]>, deny: &[&str]| ToolLists {
            allow: allow.map(|all| all.iter().map(ToString::to_string).collect()),
            deny: deny.iter().map(ToString::to_string).collect(),
        };
        let was = lists(Some(&["a", "b"]), &["c"]);
        assert!(!shows_more(&was, &lists(Some(&["a"]), &["c", "d"])));
        assert!(shows_more(&was, &lists(Some(&["a", "e"]), &["c"])));
        assert!(shows_more(&was, &lists(None, &["c"])));
        assert!(shows_more(&was, &lists(Some(&["a"]), &[])));
    }
}
