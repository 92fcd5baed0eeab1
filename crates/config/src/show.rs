//! The configuration in effect, for people: flags applied and secrets hidden.

use std::collections::BTreeMap;

use callgate_gate::{Launch, Place, ServerSpec};
use callgate_record::Redactor;

use crate::Failed;
use crate::{
    Config, Settings,
    model::{NamedServer, PinChoice, Server, TimeSpan, View},
};

/// Replaces a secret.
const HIDDEN: &str = "[hidden]";

/// The configuration in effect. Possible secrets are hidden: every token, header and variable that is not
/// only a reference to a variable, the query of a URL, and what redaction finds elsewhere.
pub fn effective(settings: &Settings, listen: Option<&str>) -> Result<Config, Failed> {
    let activity = &settings.config.activity;
    let redactor = Redactor::new(&activity.redact, activity.body_bytes)
        .map_err(|error| Failed::config(format!("`activity.redact`: {error}")))?;
    let mut config = settings.config.clone();
    config.listen = Some(settings.listen(listen)?.to_string());
    config.data_dir = Some(settings.data_dir.clone());
    config.view = View::of(settings.view);
    config.policy = Some(settings.policies.chosen());
    config.policy_mode = Some(settings.policies.mode);
    config.pins = Some(config.pins.unwrap_or(PinChoice::Tofu));
    config.server_defaults.timeout = TimeSpan(settings.default_timeout);
    config.server_defaults.reconnect_cap = TimeSpan(settings.reconnect_cap);
    let known = config.servers.0.len();
    let from_flags = settings.servers.iter().skip(known).filter_map(of_spec);
    config.servers.0.extend(from_flags);
    for NamedServer { server, .. } in &mut config.servers.0 {
        hide_server_secrets(server, &redactor);
    }
    for webhook in &mut config.approvals.notify {
        hide(&mut webhook.secret);
        webhook.url = redactor.text(&webhook.url);
    }
    for target in &mut config.activity.heads.publish {
        hide(&mut target.secret);
        target.url = target.url.as_deref().map(|url| redactor.text(url));
    }
    config.guard = settings.guard_written.clone();
    hide(&mut config.guard.api_key);
    hide(&mut config.auth.token);
    hide(&mut config.auth.admin_token);
    Ok(config)
}

/// A configuration as it is written in a file.
pub fn text(config: &Config) -> Result<String, Failed> {
    serde_saphyr::to_string(config).map_err(|error| Failed::system(error.to_string()))
}

/// A server that a flag added, as the file would have it.
fn of_spec(spec: &ServerSpec) -> Option<NamedServer> {
    let server = match &spec.launch {
        Launch::Stdio { command, args, .. } => Server {
            enabled: true,
            command: Some(command.clone()),
            args: Some(args.clone()),
            ..Server::default()
        },
        Launch::Http(endpoint) => Server {
            enabled: true,
            url: Some(endpoint.url.to_string()),
            ..Server::default()
        },
        Launch::SwitchedOff | Launch::Off { .. } => return None,
    };
    Some(NamedServer {
        name: spec.name.clone(),
        server,
        place: Place::default(),
    })
}

fn hide_server_secrets(server: &mut Server, redactor: &Redactor) {
    hide_all(&mut server.env);
    hide_all(&mut server.headers);
    if let Some(url) = &mut server.url
        && let Some((address, _)) = url.split_once('?')
    {
        *url = format!("{address}?{HIDDEN}");
    }
    let words = server.args.iter_mut().flatten().chain(&mut server.command);
    for word in words {
        *word = redactor.text(word);
    }
}

fn hide_all(values: &mut BTreeMap<String, String>) {
    for value in values.values_mut() {
        if !is_reference(value) {
            HIDDEN.clone_into(value);
        }
    }
}

fn hide(token: &mut Option<String>) {
    if let Some(written) = token.as_mut().filter(|written| !is_reference(written)) {
        HIDDEN.clone_into(written);
    }
}

/// `${VAR}` and nothing else: no default, which could be the secret.
fn is_reference(value: &str) -> bool {
    let inside = value
        .strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'));
    inside.is_some_and(|name| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_variable_references_are_shown() {
        for shown in ["${A}", "${A_1}"] {
            assert!(is_reference(shown), "{shown}");
        }
        for hidden in ["", "a", "${A}b", "b${A}", "${A:-secret}", "${A} ${B}", "$A"] {
            assert!(!is_reference(hidden), "{hidden}");
        }
    }
}
