//! `callgate stdio`: the gateway on standard input and output.

use std::{io::Cursor, process::ExitCode, time::Duration};

use callgate_gate::{CallerIdentity, Host};
use callgate_server::StdioDoor;
use callgate_upstream::Profile;
use callgate_wire::{
    Cut, Era, Frame, Handshake, LineCutter, Strictness, methods, stateless::Claims,
};
use tokio::io::{AsyncRead, AsyncReadExt};
use ulid::Ulid;

use callgate_gateway::{Lifetime, Running};

use callgate_config::{Flags, Settings};

use callgate_gateway::reload::Reloading;

use callgate_gateway::local_user::local_user;

use crate::{
    args::{Gateway, Shared, Stdio},
    attach::{self, RunningServe},
    exit::Failed,
    setup,
    signals::{Hangup, Signals},
};

/// How long calls in flight may take at the end: a host that sends SIGTERM may still read last answers.
const PATIENCE: Duration = Duration::from_secs(1);
/// How much is read at once while waiting for the first line.
const CHUNK: usize = 64 * 1024;

pub(crate) fn run(shared: &Shared, stdio: &Stdio) -> Result<ExitCode, Failed> {
    let flags = &stdio.gateway;
    let settings = setup::settings(shared, flags, false)?;
    if !stdio.no_attach {
        match RunningServe::find(&settings, flags) {
            RunningServe::Attachable { gateway, stream } => {
                let (address, pid) = (&gateway.address, gateway.pid);
                eprintln!("attached to the gateway at http://{address} (process {pid})");
                return attach::relay(&gateway, stream, &settings.data_dir);
            }
            RunningServe::Different { gateway, why } => {
                let address = &gateway.address;
                eprintln!("not attached to the gateway at http://{address}: {why}");
            }
            RunningServe::Absent => {}
        }
    }
    let runtime = setup::runtime()?;
    let code = runtime.block_on(serve(settings, flags));
    // tokio reads stdin on a blocking thread that cannot be cancelled; waiting for it would hang the exit.
    runtime.shutdown_background();
    code
}

async fn serve(settings: Settings, flags: &Gateway) -> Result<ExitCode, Failed> {
    let signals = Signals::listen(Hangup::Stops)?;
    let mut input = tokio::io::stdin();
    if settings.offers_nothing() {
        crate::log::no_servers();
    }
    let first = tokio::select! {
        first = first_line(&mut input, settings.frame_bytes()) => first,
        () = signals.stop.cancelled() => return Ok(ExitCode::SUCCESS),
    };
    let Some(First { read, profile }) = first else {
        return Ok(ExitCode::SUCCESS);
    };
    let running = Running::open(&settings, profile, Lifetime::Serving).await?;
    crate::log::serving_on_stdio(&settings.policies.line());
    let session = Ulid::generate().to_string();
    let door = StdioDoor::new(
        running.gateway.clone(),
        settings.frame_bytes(),
        &local_user(),
        session,
    );
    let reloading = Reloading::start(&running, settings, &Flags::from(flags), None);
    let input = Cursor::new(read).chain(input);
    let serving = async {
        let stop = signals.stop.clone();
        let end = door.serve(input, tokio::io::stdout(), stop).await;
        crate::log::host_gone(end);
        reloading.stop().await;
        running.stop(PATIENCE).await;
    };
    signals.wind_down(serving).await;
    Ok(ExitCode::SUCCESS)
}

/// The bytes read until the first line was complete, and the host that it introduces.
struct First {
    read: Vec<u8>,
    profile: Profile,
}

/// Reads up to the host's introduction, so that servers are started in its name. `None` if
/// the host disconnects before its first line.
async fn first_line<R: AsyncRead + Unpin>(input: &mut R, limit: usize) -> Option<First> {
    let mut read = Vec::new();
    let mut cutter = LineCutter::new(limit);
    loop {
        let mut chunk = vec![0; CHUNK];
        let n = input.read(&mut chunk).await.ok().filter(|n| *n > 0)?;
        read.extend_from_slice(&chunk[..n]);
        cutter.buffer().extend_from_slice(&chunk[..n]);
        if let Some(cut) = cutter.cut() {
            let profile = match cut {
                Cut::Line(line) => profile_of(line),
                Cut::TooLong(_) => Profile::gateway(),
            };
            return Some(First { read, profile });
        }
    }
}

fn profile_of(line: bytes::Bytes) -> Profile {
    let Ok(frame) = Frame::parse(line, Strictness::Full) else {
        return Profile::gateway();
    };
    let era = Era::of(&frame, None);
    let introduced = match era {
        Era::Handshake if frame.method() == Some(methods::INITIALIZE) => Handshake::read(&frame)
            .ok()
            .map(|said| (said.capabilities, said.client_info)),
        Era::Handshake => None,
        Era::Stateless => Claims::read(&frame)
            .ok()
            .map(|said| (said.capabilities, said.client_info)),
    };
    let Some((capabilities, client_info)) = introduced else {
        return Profile::gateway();
    };
    let one_line = |raw: String| raw.replace(['\n', '\r'], " ");
    let identity = CallerIdentity {
        tenant: String::new(),
        principal: local_user(),
        agent: String::new(),
        session: String::new(),
        grant: callgate_gate::Grant::default(),
    };
    let client_info = client_info.map(one_line);
    Profile::of(&Host {
        identity,
        client_info,
        capabilities: one_line(capabilities),
        era,
    })
}
