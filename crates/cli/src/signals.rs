//! Signals: the first asks the gateway to stop in good order, the second ends it at once.

use std::future::Future;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::exit::Failed;

/// What SIGHUP means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hangup {
    /// The terminal, and the host with it, is gone.
    Stops,
    /// Somebody else listens for it.
    Ignored,
}

/// What signals have asked for.
#[derive(Debug, Clone)]
pub(crate) struct Signals {
    /// Fires on SIGTERM, SIGINT or, where that means so, SIGHUP.
    pub(crate) stop: CancellationToken,
    /// Fires on a second SIGTERM or SIGINT.
    at_once: CancellationToken,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen(hangup_means: Hangup) -> Result<Self, Failed> {
        let listen =
            |kind| signal(kind).map_err(|error| Failed::system(format!("signals: {error}")));
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

    /// Winds down, unless a second signal comes first. Then nothing is waited for: wardens end
    /// the servers, and whoever writes the record next closes what is open in it.
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
