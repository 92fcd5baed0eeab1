//! Accepting clients, up to a limit.

use std::{io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream, UnixListener, UnixStream},
    sync::Semaphore,
    time::timeout,
};
use tokio_util::either::Either;

use crate::{Refusal, answers, client::Proxy};

/// How many refused clients get an answer at the same time; others are disconnected without one.
const TURNED_AWAY_AT_ONCE: usize = 32;
/// How long a refused client has to read its answer.
const TURNED_AWAY_WITHIN: Duration = Duration::from_secs(1);
/// The pause after the system refused to accept a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Where clients connect.
#[derive(Debug)]
pub(crate) enum Entrance {
    /// The socket in the private folder.
    Private(UnixListener),
    /// A loopback port, which every program of this machine reaches, and its password.
    Loopback(TcpListener, Arc<str>),
}

impl Entrance {
    async fn accept(&self) -> io::Result<Either<UnixStream, TcpStream>> {
        Ok(match self {
            Self::Private(listener) => Either::Left(listener.accept().await?.0),
            Self::Loopback(listener, _) => {
                let stream = listener.accept().await?.0;
                let _ = stream.set_nodelay(true);
                Either::Right(stream)
            }
        })
    }

    fn password(&self) -> Option<Arc<str>> {
        match self {
            Self::Private(_) => None,
            Self::Loopback(_, password) => Some(password.clone()),
        }
    }
}

/// Serves the clients of an entrance until the proxy closes.
pub(crate) async fn accept(entrance: Entrance, proxy: Proxy) {
    // Each entrance has its own, so that programs without the password do not take the places of the sandbox.
    let places = Arc::new(Semaphore::new(proxy.limits.connections));
    let turning_away = Arc::new(Semaphore::new(TURNED_AWAY_AT_ONCE));
    loop {
        let accepted = tokio::select! {
            accepted = entrance.accept() => accepted,
            () = proxy.close.cancelled() => break,
        };
        let stream = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                crate::log::connections_not_accepted(&error);
                // Usually out of file descriptors. Without a pause this loop would spin.
                let _ = timeout(ACCEPT_PAUSE, proxy.close.cancelled()).await;
                continue;
            }
        };
        let client = proxy.clone();
        if let Ok(place) = places.clone().try_acquire_owned() {
            let password = entrance.password();
            proxy.tasks.spawn(async move {
                client.serve(stream, password).await;
                drop(place);
            });
            continue;
        }
        proxy.report_refused(Refusal::TooManyConnections);
        if let Ok(turn) = turning_away.clone().try_acquire_owned() {
            proxy.tasks.spawn(async move {
                tokio::select! {
                    _ = timeout(TURNED_AWAY_WITHIN, turn_away(stream)) => {}
                    () = client.close.cancelled() => {}
                }
                drop(turn);
            });
        }
    }
}

/// Answers that there are too many connections, and lets the client read it: closing a socket with unread input can discard
/// the answer.
async fn turn_away(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<()> {
    stream.write_all(answers::TOO_MANY).await?;
    stream.shutdown().await?;
    let mut unread = [0; 1024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}
