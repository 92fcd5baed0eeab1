//! The private door of a step: a Unix socket in the step's folder, which accepts a single connection with the step's
//! one-time token. A process that learns the token later, such as a command of the agent, cannot use it again. An agent
//! whose sandbox refuses Unix sockets has two named pipes instead.

mod pipes;

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
    io::{AsyncRead, AsyncReadExt, AsyncWrite, BufReader},
    net::{UnixListener, UnixStream},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use pipes::Pipes;

use crate::{folder::Folder, relay::RelayFile, step::StepContext};

/// The time limit for a relay to send its token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);
/// The length of a token before hex encoding.
const TOKEN_BYTES: usize = 32;

/// The door of a step.
#[derive(Debug)]
pub(crate) struct Door {
    token: String,
    entrance: Entrance,
}

#[derive(Debug)]
enum Entrance {
    Socket {
        path: PathBuf,
        listener: UnixListener,
    },
    Pipes(Pipes),
}

impl Door {
    /// Opens a socket in the step's folder, or pipes.
    pub(crate) fn open(folder: &Folder, has_sockets: bool) -> io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        let entrance = if has_sockets {
            let path = folder.path().join("gate.sock");
            let listener = UnixListener::bind(&path)?;
            Entrance::Socket { path, listener }
        } else {
            Entrance::Pipes(Pipes::make(folder)?)
        };
        Ok(Self {
            token: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            entrance,
        })
    }

    /// What the relay needs to come in.
    pub(crate) fn relay_file(&self) -> RelayFile {
        let (socket, pipes) = match &self.entrance {
            Entrance::Socket { path, .. } => (Some(path.clone()), None),
            Entrance::Pipes(pipes) => (None, Some(pipes.paths().clone())),
        };
        RelayFile {
            socket,
            pipes,
            token: Some(self.token.clone()),
            traceparent: None,
            intercept_builtins: true,
            plugin_tools: Vec::new(),
            root_dir: None,
        }
    }

    /// The socket or the pipes.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        match &self.entrance {
            Entrance::Socket { path, .. } => vec![path.clone()],
            Entrance::Pipes(pipes) => {
                let paths = pipes.paths();
                vec![paths.to_step.clone(), paths.from_step.clone()]
            }
        }
    }

    /// Serves the relay until `stop` fires.
    pub(crate) async fn serve(
        self,
        context: Arc<StepContext>,
        step: StepDoor,
        stop: CancellationToken,
    ) {
        let inside = Inside {
            pass: OneTimeToken {
                token: self.token,
                is_used: AtomicBool::new(false),
            },
            context,
            step,
            stop,
        };
        match self.entrance {
            Entrance::Socket { listener, .. } => inside.serve_socket(&listener).await,
            Entrance::Pipes(pipes) => inside.serve_pipes(pipes).await,
        }
    }
}

/// What a relay that comes in needs.
struct Inside {
    pass: OneTimeToken,
    context: Arc<StepContext>,
    step: StepDoor,
    stop: CancellationToken,
}

struct OneTimeToken {
    token: String,
    is_used: AtomicBool,
}

impl Inside {
    async fn serve_socket(self, listener: &UnixListener) {
        let tasks = TaskTracker::new();
        let inside = Arc::new(self);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = inside.stop.cancelled() => break,
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
            let inside = inside.clone();
            tasks.spawn(async move {
                let (reader, writer) = stream.into_split();
                inside.serve_relay(reader, writer).await;
            });
        }
        tasks.close();
        tasks.wait().await;
    }

    async fn serve_pipes(self, pipes: Pipes) {
        let accepted = tokio::select! {
            accepted = pipes.accept() => accepted,
            () = self.stop.cancelled() => return,
        };
        match accepted {
            Ok((reader, writer)) => self.serve_relay(reader, writer).await,
            Err(_) => crate::log::relay_turned_away("its pipes could not be opened"),
        }
    }

    async fn serve_relay<R, W>(&self, reader: R, writer: W)
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let mut reader = BufReader::new(reader);
        if let Err(why) = self.pass.check(&mut reader).await {
            return crate::log::relay_turned_away(why);
        }
        let Self { context, step, .. } = self;
        let session = step.session.clone();
        let door = StdioDoor::new(
            context.gateway.clone(),
            context.frame_bytes,
            &context.principal,
            session,
        );
        door.for_step(step.clone())
            .serve(reader, writer, self.stop.clone())
            .await;
    }
}

fn is_same_user(stream: &UnixStream) -> bool {
    let own = rustix::process::getuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| peer.uid() == own)
}

impl OneTimeToken {
    /// Reads a token, and accepts the right one once.
    async fn check<R: AsyncRead + Unpin>(&self, reader: &mut R) -> Result<(), &'static str> {
        let token = self.token.as_bytes();
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
        if self.is_used.swap(true, Ordering::AcqRel) {
            return Err("its token was already used");
        }
        Ok(())
    }
}
