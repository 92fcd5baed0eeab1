//! How a configured server is reached: a command with its environment, or a URL with headers.

use std::{collections::BTreeMap, path::Path, time::Duration};

use callgate_gate::{Endpoint, Launch, Protocol, ServerName, ServerSpec};
use callgate_process::{
    command_line,
    environment::{self, Inherit, MissingVariable},
};

use crate::Failed;
use crate::model::Server;

/// Why a server's configuration cannot be used.
enum Unusable {
    /// The configuration of the server is invalid, so the file is, too.
    Wrong(String),
    /// A variable is not set, which switches off only this server.
    Missing(MissingVariable),
}

impl From<MissingVariable> for Unusable {
    fn from(missing: MissingVariable) -> Self {
        Self::Missing(missing)
    }
}

/// How a configured server is reached; `Err` says what is invalid.
pub(crate) fn launch(server: &Server, base: &Path) -> Result<Launch, String> {
    let launch = match (&server.command, &server.url) {
        (Some(_), Some(_)) => return Err("it has both `command` and `url`".to_owned()),
        (None, None) => return Err("it needs `command` or `url`".to_owned()),
        (Some(_), None) | (None, Some(_)) if !server.enabled => return Ok(Launch::SwitchedOff),
        (Some(command), None) => stdio(server, command, base),
        (None, Some(url)) => http(server, url),
    };
    match launch {
        Ok(launch) => Ok(launch),
        Err(Unusable::Missing(missing)) => Ok(Launch::Off {
            reason: missing.to_string(),
        }),
        Err(Unusable::Wrong(why)) => Err(why),
    }
}

/// A server given as `--server NAME:COMMAND` or `NAME:URL`.
pub(crate) fn from_flag(text: &str, timeout: Duration) -> Result<ServerSpec, Failed> {
    let wrong = |why: String| Failed::user(format!("--server `{text}`: {why}"));
    let split = text.split_once(':');
    let (name, rest) = split.ok_or_else(|| wrong("write it like `name:command`".to_owned()))?;
    let name = ServerName::new(name).map_err(|error| wrong(error.to_string()))?;
    let launch = if rest.starts_with("http://") || rest.starts_with("https://") {
        Launch::Http(Endpoint::new(rest, &[], false).map_err(|error| wrong(error.to_string()))?)
    } else {
        let words = command_line::split(rest).map_err(|error| wrong(error.to_string()))?;
        plain(words).ok_or_else(|| wrong("the command is empty".to_owned()))?
    };
    Ok(ServerSpec {
        name,
        launch,
        timeout,
        protocol: Protocol::Auto,
        sandbox: None,
    })
}

/// The bundled demo server, started from our own binary.
pub(crate) fn demo(timeout: Duration) -> Result<ServerSpec, Failed> {
    let name = ServerName::new("demo").expect("`demo` is a legal server name");
    // By its path: the warden, which may be another program, starts it.
    let program = std::env::current_exe();
    let program = program
        .map_err(|error| Failed::system(format!("cannot find callgate's own program: {error}")))?;
    let words = vec![
        program.to_string_lossy().into_owned(),
        "demo-server".to_owned(),
    ];
    let launch = plain(words).expect("there are two words");
    Ok(ServerSpec {
        name,
        launch,
        timeout,
        protocol: Protocol::Auto,
        sandbox: None,
    })
}

/// A command with a minimal environment and nothing else.
fn plain(mut words: Vec<String>) -> Option<Launch> {
    if words.is_empty() {
        return None;
    }
    let env = environment::minimal(Inherit::Minimal, &[], std::env::vars());
    let command = words.remove(0);
    Some(Launch::Stdio {
        command,
        args: words,
        env,
        cwd: None,
    })
}

fn stdio(server: &Server, command: &str, base: &Path) -> Result<Launch, Unusable> {
    if !server.headers.is_empty() || server.insecure_http {
        return Err(Unusable::Wrong(
            "`headers` and `insecure_http` need `url`, not `command`".to_owned(),
        ));
    }
    let mut words = match &server.args {
        Some(args) => std::iter::once(command.to_owned())
            .chain(args.iter().cloned())
            .collect(),
        None => command_line::split(command).map_err(|error| Unusable::Wrong(error.to_string()))?,
    };
    let own = expanded(&server.env)?;
    for word in &mut words {
        *word = environment::expand(word, variable)?;
    }
    if words.first().is_none_or(|command| command.is_empty()) {
        return Err(Unusable::Wrong("`command` is empty".to_owned()));
    }
    let inherit = if server.inherit_env {
        Inherit::All
    } else {
        Inherit::Minimal
    };
    let env = environment::minimal(inherit, &own, std::env::vars());
    let command = words.remove(0);
    let cwd = server.cwd.as_ref().map(|cwd| base.join(cwd));
    Ok(Launch::Stdio {
        command,
        args: words,
        env,
        cwd,
    })
}

fn http(server: &Server, url: &str) -> Result<Launch, Unusable> {
    let of_commands = server.args.is_some()
        || !server.env.is_empty()
        || server.cwd.is_some()
        || server.inherit_env
        || server.sandbox.is_some();
    if of_commands {
        let why = "`args`, `env`, `inherit_env`, `cwd` and `box` need `command`, not `url`";
        return Err(Unusable::Wrong(why.to_owned()));
    }
    let url = environment::expand(url, variable)?;
    let endpoint = Endpoint::new(&url, &expanded(&server.headers)?, server.insecure_http);
    endpoint
        .map(Launch::Http)
        .map_err(|error| Unusable::Wrong(error.to_string()))
}

fn expanded(written: &BTreeMap<String, String>) -> Result<Vec<(String, String)>, MissingVariable> {
    let one =
        |(key, value): (&String, &String)| Ok((key.clone(), environment::expand(value, variable)?));
    written.iter().map(one).collect()
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
