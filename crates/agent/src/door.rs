//! The private door of a step: a Unix socket in the step's folder, which accepts a single connection with the step's
//! one-time token. A process that learns the token later, such as a command of the agent, cannot use it again.

use std::{
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use callgate_server::{StdioDoor, StepDoor};
use subtle::ConstantTimeEq;
use tokio::{
    io::{AsyncReadExt, BufReader},
    net::{UnixListener, UnixStream},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{folder::Folder, step::StepContext};

/// The time limit for a relay to send its token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);
/// The length of a token before hex encoding.
const TOKEN_BYTES: usize = 32;

/// The door of a step.
#[derive(Debug)]
pub(crate) struct Door {
    pub(crate) socket: PathBuf,
    pub(crate) token: String,
    listener: UnixListener,
}

impl Door {
    /// Listens in the step's folder.
    pub(crate) fn open(folder: &Folder) -> io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        let socket = folder.path().join("gate.sock");
        let listener = UnixListener::bind(&socket)?;
        Ok(Self {
            socket,
            token: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            listener,
        })
    }

    /// Serves the relay until `stop` fires.
    pub(crate) async fn serve(
        self,
        context: Arc<StepContext>,
        step: StepDoor,
        stop: CancellationToken,
    ) {
        let tasks = TaskTracker::new();
        let pass = Arc::new(OneTimeToken {
            token: self.token,
            is_used: AtomicBool::new(false),
        });
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            let Ok((stream, _)) = accepted else {
                // Most likely out of file descriptors. Waiting avoids a busy loop; the connection stays in the backlog.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            if !is_same_user(&stream) {
                crate::log::another_user_at_the_door();
                continue;
            }
            let (context, step, stop) = (context.clone(), step.clone(), stop.clone());
            let pass = pass.clone();
            tasks.spawn(async move {
                let serving = serve_relay(stream, &pass, &context, step, &stop);
                if let Err(why) = serving.await {
                    crate::log::relay_turned_away(why);
                }
            });
        }
        tasks.close();
        tasks.wait().await;
    }
}

struct OneTimeToken {
    token: String,
    is_used: AtomicBool,
}

fn is_same_user(stream: &UnixStream) -> bool {
    let own = rustix::process::getuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own)
}

async fn serve_relay(
    stream: UnixStream,
    pass: &OneTimeToken,
    context: &StepContext,
    step: StepDoor,
    stop: &CancellationToken,
) -> Result<(), &'static str> {
    let (reader, writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let token = pass.token.as_bytes();
    let mut shown = vec![0; token.len() + 1];
    let reading = tokio::time::timeout(TOKEN_TIMEOUT, reader.read_exact(&mut shown));
    match reading.await {
        Ok(Ok(_)) => {}
        Ok(Err(_)) | Err(_) => return Err("it did not send its token in time"),
    }
    // Constant time: the duration must not reveal how much of a guessed token is right.
    let is_right: bool = shown[..token.len()].ct_eq(token).into();
    if !is_right || shown.last() != Some(&b'\n') {
        return Err("it sent a wrong token");
    }
    // One atomic step: of two concurrent connections with the right token only one gets in.
    if pass.is_used.swap(true, Ordering::AcqRel) {
        return Err("its token was already used");
    }
    let session = step.session.clone();
    let door = StdioDoor::new(
        context.gateway.clone(),
        context.frame_bytes,
        &context.principal,
        session,
    );
    door.for_step(step)
        .serve(reader, writer, stop.clone())
        .await;
    Ok(())
}
