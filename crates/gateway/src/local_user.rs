//! The local user as a host.

use callgate_gate::{CallerIdentity, Host};
use callgate_wire::Era;
use ulid::Ulid;

/// The local user as a host without capabilities.
pub fn local_host() -> Host {
    let identity = CallerIdentity {
        tenant: "local".to_owned(),
        principal: local_user(),
        agent: "callgate-cli".to_owned(),
        session: Ulid::generate().to_string(),
        grant: callgate_gate::Grant::default(),
    };
    let version = env!("CARGO_PKG_VERSION");
    let client_info = Some(format!(
        r#"{{"name":"callgate-cli","version":"{version}"}}"#
    ));
    Host {
        identity,
        client_info,
        capabilities: "{}".to_owned(),
        era: Era::Handshake,
    }
}

/// The principal of calls that no token authenticates.
pub fn local_user() -> String {
    let name = std::env::var("USER").or_else(|_| std::env::var("LOGNAME"));
    let uid = rustix::process::getuid().as_raw();
    name.map_or_else(|_| format!("uid:{uid}"), |name| format!("local:{name}"))
}
