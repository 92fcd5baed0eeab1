//! Signals: the first stops the gateway gracefully, the second at once.

use std::future::Future;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::Failed;

/// The effect of SIGHUP on this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangup {
    /// It stops the process: the terminal was closed, and the host with it.
    Stops,
    /// Another part of the gateway listens for it.
    Ignored,
}

/// The stop signals of this process.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    /// Fires on SIGTERM, SIGINT and, with [`Hangup::Stops`], on SIGHUP.
    pub(crate) stop: CancellationToken,
    /// Fires on a second SIGTERM or SIGINT.
    at_once: CancellationToken,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen(hangup_means: Hangup) -> Result<Self, Failed> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failed::system(format!("cannot handle signals: {error}")))
        };
        let mut terminate = listen(SignalKind::terminate())?;
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut hangup = listen(SignalKind::hangup())?;
        let signals = Self {
            stop: CancellationToken::new(),
            at_once: CancellationToken::new(),
        };
        let told = signals.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = either(&mut terminate, &mut interrupt) => {}
                _ = hangup.recv(), if hangup_means == Hangup::Stops => {}
            }
            told.stop.cancel();
            either(&mut terminate, &mut interrupt).await;
            told.at_once.cancel();
        });
        Ok(signals)
    }

    /// Runs the graceful shutdown unless a second signal arrives first. Skipping the rest is safe: wardens kill
    /// the servers, and the next writer of the record closes the calls left open in it.
    pub(crate) async fn wind_down(&self, winding_down: impl Future<Output = ()>) {
        tokio::select! {
            () = winding_down => {}
            () = self.at_once.cancelled() => eprintln!("stopping at once"),
        }
    }
}

async fn either(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
