//! OpenCode's providers of models: what a step passes on of each, and where its endpoint is.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::{
    Options, StepFailed,
    access::{Access, Variables},
    events::text,
    login,
};

use super::{LOGINS, PROGRAM};

/// The variable that replaces the endpoint of OpenAI, and of every provider that is not in the table.
const BASE_URL: &str = "OPENAI_BASE_URL";
/// The key for such an endpoint.
const KEY: &str = "OPENAI_API_KEY";
/// The package for such an endpoint. OpenCode contains it, so that nothing is installed.
const PACKAGE: &str = "@ai-sdk/openai-compatible";

/// A provider with an address of its own.
const fn provider(variables: &'static [&'static str], hosts: &'static [&'static str]) -> Access {
    Access {
        variables,
        base_url: None,
        hosts,
    }
}

const PROVIDERS: [(&str, Access); 14] = [
    (
        "anthropic",
        provider(&["ANTHROPIC_API_KEY"], &["api.anthropic.com"]),
    ),
    (
        "openai",
        Access {
            variables: &[KEY],
            base_url: Some(BASE_URL),
            hosts: &["api.openai.com", "chatgpt.com"],
        },
    ),
    (
        "google",
        provider(
            &["GOOGLE_GENERATIVE_AI_API_KEY", "GEMINI_API_KEY"],
            &["generativelanguage.googleapis.com"],
        ),
    ),
    (
        "openrouter",
        provider(&["OPENROUTER_API_KEY"], &["openrouter.ai"]),
    ),
    ("groq", provider(&["GROQ_API_KEY"], &["api.groq.com"])),
    (
        "mistral",
        provider(&["MISTRAL_API_KEY"], &["api.mistral.ai"]),
    ),
    (
        "deepseek",
        provider(&["DEEPSEEK_API_KEY"], &["api.deepseek.com"]),
    ),
    ("xai", provider(&["XAI_API_KEY"], &["api.x.ai"])),
    (
        "cerebras",
        provider(&["CEREBRAS_API_KEY"], &["api.cerebras.ai"]),
    ),
    (
        "moonshotai",
        provider(&["MOONSHOT_API_KEY"], &["api.moonshot.ai"]),
    ),
    ("zai", provider(&["ZHIPU_API_KEY"], &["api.z.ai"])),
    (
        "togetherai",
        provider(&["TOGETHER_API_KEY"], &["api.together.xyz"]),
    ),
    (
        "opencode",
        provider(&["OPENCODE_API_KEY"], &["opencode.ai"]),
    ),
    ("github-copilot", provider(&[], &["api.githubcopilot.com"])),
];
/// A provider that is not in the table, at an address that the step names.
const OTHER: Access = Access {
    variables: &[KEY],
    base_url: Some(BASE_URL),
    hosts: &[],
};

/// The provider that the step's model names; without a model, each that the user has a key or a login for.
pub(super) fn accesses(users: Variables<'_>, options: &Options) -> Vec<&'static Access> {
    let Some(name) = chosen(options) else {
        let logins = stored(users);
        let is_used = |name: &str, access: &Access| {
            let mut variables = access.variables.iter();
            variables.any(|variable| users.get(variable).is_some()) || logins.contains_key(name)
        };
        let used = PROVIDERS
            .iter()
            .filter(|(name, access)| is_used(name, access));
        return used.map(|(_, access)| access).collect();
    };
    let found = PROVIDERS.iter().find(|(known, _)| *known == name);
    vec![found.map_or(&OTHER, |(_, access)| access)]
}

/// The provider of the step's model.
fn chosen(options: &Options) -> Option<&str> {
    let (provider, _) = options.model.as_deref()?.split_once('/')?;
    Some(provider)
}

/// The setting for a provider at an address that the step names, with its name.
pub(super) fn custom_provider(users: Variables<'_>, options: &Options) -> Option<(String, Value)> {
    let (name, model) = options.model.as_deref()?.split_once('/')?;
    let is_known = PROVIDERS.iter().any(|(known, _)| *known == name);
    let variable = users
        .get(BASE_URL)
        .filter(|_| !is_known || name == "openai");
    let url = options.base_url.as_deref().or(variable)?;
    let mut settings = json!({"options": {"baseURL": url}});
    let key = options.api_key.as_deref();
    if let Some(key) = key.or_else(|| users.get(KEY).filter(|_| !is_known)) {
        settings["options"]["apiKey"] = json!(key);
    }
    if !is_known {
        settings["npm"] = json!(PACKAGE);
        settings["name"] = json!(name);
        settings["models"] = json!({model: {"name": model, "tool_call": true}});
    }
    Some((name.to_owned(), settings))
}

/// The user's stored logins that the step's model needs, without their refresh tokens.
pub(super) fn stored_logins(
    users: Variables<'_>,
    options: &Options,
) -> Result<Option<Value>, StepFailed> {
    let chosen = chosen(options);
    let mut passed = Map::new();
    for (name, login) in stored(users) {
        if chosen.is_some_and(|chosen| chosen != name) {
            continue;
        }
        match access_alone(login) {
            Some(login) => {
                passed.insert(name, login);
            }
            None if chosen.is_some() => return Err(login::expired(PROGRAM)),
            None => {}
        }
    }
    Ok((!passed.is_empty()).then_some(Value::Object(passed)))
}

/// A login that the agent cannot renew. `None` if it has expired, or if its kind is unknown.
fn access_alone(login: Value) -> Option<Value> {
    match login["type"].as_str()? {
        "api" => Some(login),
        "oauth" => {
            text(&login, "/access")?;
            if login::has_passed(login.get("expires")) {
                return None;
            }
            let mut login = login;
            login["refresh"] = json!("");
            Some(login)
        }
        _ => None,
    }
}

/// The user's logins, by provider.
fn stored(users: Variables<'_>) -> Map<String, Value> {
    let given = users.get(LOGINS);
    let stored = match given {
        Some(text) => serde_json::from_str(text).unwrap_or_default(),
        None => folder(users).map_or(Value::Null, |folder| {
            login::read(&folder.join("opencode/auth.json"))
        }),
    };
    match stored {
        Value::Object(logins) => logins,
        _ => Map::new(),
    }
}

fn folder(users: Variables<'_>) -> Option<PathBuf> {
    match users.get("XDG_DATA_HOME") {
        Some(folder) => Some(PathBuf::from(folder)),
        None => Some(Path::new(users.get("HOME")?).join(".local/share")),
    }
}
