//! `callgate token …`: creates, lists and revokes tokens.

use std::process::ExitCode;

use callgate_gate::{Operation, Role, ServerName, View};
use callgate_record::{RecordType, Token as StoredToken, Tokens, TokensError};
use jiff::{SignedDuration, Timestamp};

use callgate_config::Settings;

use callgate_gateway::local_user::local_user;

use crate::{
    age,
    args::{Ceiling, Gateway, NewToken, Shared, Token, TokenCommand, TokenRole},
    exit::Failed,
    print::{outln, table},
    setup,
};

pub(crate) fn run(shared: &Shared, token: &Token) -> Result<ExitCode, Failed> {
    let settings = setup::settings(shared, &Gateway::default(), true)?;
    let tokens = &*callgate_gateway::shared_stores(&settings.data_dir)?.tokens;
    match &token.command {
        TokenCommand::Create(new) => create(&settings, tokens, new, shared.json),
        TokenCommand::List => list(tokens, shared.json),
        TokenCommand::Revoke { name } => revoke(&settings, tokens, name),
    }
}

fn create(
    settings: &Settings,
    tokens: &dyn Tokens,
    new: &NewToken,
    as_json: bool,
) -> Result<ExitCode, Failed> {
    let now = Timestamp::now();
    let expires_at = new
        .expires
        .as_deref()
        .map(|text| end(text, now))
        .transpose()?;
    if let Some(view) = &new.view {
        let known: Result<View, _> = view.parse();
        known.map_err(|error| Failed::user(error.to_string()))?;
    }
    check_servers(settings, new.servers.as_deref().unwrap_or_default())?;
    let wanted = callgate_record::NewToken {
        name: new.name.clone(),
        role: match new.role {
            TokenRole::Agent => Role::Agent,
            TokenRole::Approver => Role::Approver,
            TokenRole::Admin => Role::Admin,
        },
        servers: new.servers.clone(),
        view: new.view.clone(),
        ceiling: match new.ceiling {
            Ceiling::Read => Operation::Read,
            Ceiling::Write => Operation::Write,
            Ceiling::Destructive => Operation::Destructive,
        },
        tenant: new.tenant.clone(),
        expires_at,
    };
    let (token, secret) = tokens.create(wanted, now).map_err(failed)?;
    let what = format!(
        "`{}` of tenant `{}`: {}",
        token.name,
        token.tenant,
        limits(&token)
    );
    put_on_record(settings, "token.created", &what)?;
    if as_json {
        let mut shown = shown(&token, now);
        shown["token"] = secret.into();
        outln!("{shown}");
    } else {
        outln!("{secret}");
        eprintln!(
            "token `{}`: {}; store it now, it cannot be shown again",
            token.name,
            limits(&token)
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses names that no server has: such a token would cover a server that gets the name later, or nothing.
fn check_servers(settings: &Settings, named: &[String]) -> Result<(), Failed> {
    let known = server_names(settings);
    let Some(unknown) = named.iter().find(|name| !known.contains(name)) else {
        return Ok(());
    };
    let help = match known.as_slice() {
        [] => "no servers are configured".to_owned(),
        known => format!("known servers: {}", known.join(", ")),
    };
    Err(Failed::user(format!("there is no server `{unknown}`")).help(&help))
}

/// The names of everything that has tools: servers, plugins and the built-in tools.
fn server_names(settings: &Settings) -> Vec<String> {
    let servers = settings.servers.iter();
    let servers = servers.map(|spec| spec.name.as_str().to_owned());
    let plugins = settings.plugins().map(|(name, _)| name.to_owned());
    let builtin = ServerName::builtin().as_str().to_owned();
    let builtin = settings.config.builtins.enabled.then_some(builtin);
    servers.chain(plugins).chain(builtin).collect()
}

fn list(tokens: &dyn Tokens, as_json: bool) -> Result<ExitCode, Failed> {
    let now = Timestamp::now();
    let all = tokens.all().map_err(failed)?;
    if as_json {
        let all: Vec<_> = all.iter().map(|token| shown(token, now)).collect();
        outln!("{}", serde_json::Value::from(all));
        return Ok(ExitCode::SUCCESS);
    }
    let row = |token: &StoredToken| {
        vec![
            token.name.clone(),
            state(token, now).to_owned(),
            token.tenant.clone(),
            limits(token),
        ]
    };
    let rows: Vec<_> = all.iter().map(|token| row(token)).collect();
    table(&["NAME", "STATE", "TENANT", "SCOPE"], &rows);
    Ok(ExitCode::SUCCESS)
}

fn revoke(settings: &Settings, tokens: &dyn Tokens, name: &str) -> Result<ExitCode, Failed> {
    tokens.revoke(name, Timestamp::now()).map_err(failed)?;
    put_on_record(settings, "token.revoked", &format!("`{name}`"))?;
    eprintln!("revoked token `{name}`");
    Ok(ExitCode::SUCCESS)
}

/// Records the change of a token, and the user who made it.
fn put_on_record(settings: &Settings, event: &str, what: &str) -> Result<(), Failed> {
    let (stores, recorder) = callgate_gateway::command_record(settings)?;
    let reason = format!("{what}, by {}", local_user());
    recorder.event(RecordType::System, event, None, Some(reason));
    callgate_gateway::close_record(&*stores.log);
    Ok(())
}

/// The end of a token that is valid for this length of time.
fn end(text: &str, now: Timestamp) -> Result<Timestamp, Failed> {
    let wrong = || {
        Failed::user(format!("`{text}` is not a length of time")).help("write it like 30d or 12h")
    };
    let length = age::parse(text).filter(SignedDuration::is_positive);
    now.checked_add(length.ok_or_else(wrong)?)
        .map_err(|_| wrong())
}

fn shown(token: &StoredToken, now: Timestamp) -> serde_json::Value {
    serde_json::json!({
        "name": token.name,
        "role": token.role,
        "state": state(token, now),
        "servers": token.servers,
        "view": token.view,
        "ceiling": token.ceiling,
        "tenant": token.tenant,
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "revoked_at": token.revoked_at,
    })
}

fn state(token: &StoredToken, now: Timestamp) -> &'static str {
    match (token.revoked_at, token.is_valid(now)) {
        (Some(_), _) => "revoked",
        (None, true) => "valid",
        (None, false) => "expired",
    }
}

/// The role and limits of a token, in words.
fn limits(token: &StoredToken) -> String {
    let mut words = vec![token.role.as_str().to_owned()];
    if let Some(servers) = &token.servers {
        words.push(format!("servers {}", servers.join(", ")));
    }
    match token.ceiling {
        Operation::Read => words.push("read only".to_owned()),
        Operation::Write => words.push("no destructive calls".to_owned()),
        Operation::Destructive => {}
    }
    words.extend(token.view.as_ref().map(|view| format!("view {view}")));
    words.extend(token.expires_at.map(|end| format!("until {end:.0}")));
    words.join("; ")
}

fn failed(error: TokensError) -> Failed {
    match error {
        TokensError::BadName(_)
        | TokensError::Taken(_)
        | TokensError::Unknown(_)
        | TokensError::TooMany => Failed::user(error.to_string()),
        TokensError::Unavailable { .. } | TokensError::NoRandom => {
            Failed::system(error.to_string())
        }
    }
}
