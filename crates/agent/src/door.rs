//! The private door of a step: a socket in its folder, opened once by a token that was made for this step.
//! Whoever learns the token later, like a command that the agent runs, finds it used up.

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

/// How long a relay may take to show its token.
const TOKEN_PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of a token, of which each is written as two hex digits.
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
        let pass = Arc::new(Pass {
            token: self.token,
            is_used: AtomicBool::new(false),
        });
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                () = stop.cancelled() => break,
            };
            let Ok((stream, _)) = accepted else {
                // Out of descriptors, most likely: the agent tries again.
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
                let attending = attend(stream, &pass, &context, step, &stop);
                if let Err(why) = attending.await {
                    crate::log::relay_turned_away(why);
                }
            });
        }
        tasks.close();
        tasks.wait().await;
    }
}

/// What opens a door, once.
struct Pass {
    token: String,
    is_used: AtomicBool,
}

fn is_same_user(stream: &UnixStream) -> bool {
    let own = rustix::process::getuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own)
}

async fn attend(
    stream: UnixStream,
    pass: &Pass,
    context: &StepContext,
    step: StepDoor,
    stop: &CancellationToken,
) -> Result<(), &'static str> {
    let (reader, writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let token = pass.token.as_bytes();
    let mut shown = vec![0; token.len() + 1];
    let reading = tokio::time::timeout(TOKEN_PATIENCE, reader.read_exact(&mut shown));
    match reading.await {
        Ok(Ok(_)) => {}
        Ok(Err(_)) | Err(_) => return Err("it did not show a token"),
    }
    let is_right: bool = shown[..token.len()].ct_eq(token).into();
    if !is_right || shown.last() != Some(&b'\n') {
        return Err("it showed another token");
    }
    if pass.is_used.swap(true, Ordering::AcqRel) {
        return Err("the token was used before");
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
