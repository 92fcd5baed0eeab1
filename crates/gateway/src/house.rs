//! The local user as a host, and what agents' steps share with their process.

use callgate_agent::{House, Verdicts};
use callgate_config::{Failed, Settings};
use callgate_gate::{Host, Who};
use callgate_process::environment::{self, Inherit};
use callgate_server::Gateway as Gate;
use callgate_wire::Era;
use ulid::Ulid;

/// What a step shares with its process, behind this gate.
pub fn house(settings: &Settings, gateway: &Gate) -> Result<House, Failed> {
    let program = std::env::current_exe();
    Ok(House {
        gateway: gateway.clone(),
        frame_bytes: settings.frame_bytes(),
        principal: local_user(),
        program: program.map_err(|error| Failed::system(format!("our own program: {error}")))?,
        warden_program: settings.warden_program.clone(),
        env: environment::minimal(Inherit::All, &[], std::env::vars()),
        verdicts: Verdicts::of(&settings.data_dir),
    })
}

/// The local user as a host without capabilities.
pub fn local_host() -> Host {
    let who = Who {
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
        who,
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
