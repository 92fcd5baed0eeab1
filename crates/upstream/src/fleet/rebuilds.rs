//! Rebuilding the catalog after servers changed. Changes that arrive during one rebuild share the next, so that hundreds
//! of servers which connect together do not each compare the definitions of all.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::BoxFuture;
use tokio::{sync::watch, time::Instant};

use super::Fleet;

/// Reports that a server changed; completes once the catalog has the change.
pub(crate) type OnChange = Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>;

/// The pause after a rebuild, as a multiple of the time that it took: rebuilding takes at most a quarter of one processor.
const PAUSE: u32 = 3;
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// How many rebuilds were asked for, and how many of these are done.
#[derive(Debug)]
pub(super) struct Rebuilds {
    asked: watch::Sender<u64>,
    done: watch::Receiver<u64>,
}

/// The other end, for the task that rebuilds.
pub(super) struct Rebuilder {
    asked: watch::Receiver<u64>,
    done: watch::Sender<u64>,
}

impl Rebuilds {
    pub(super) fn new() -> (Self, Rebuilder) {
        let (asked, to_do) = watch::channel(0);
        let (finished, done) = watch::channel(0);
        let rebuilder = Rebuilder {
            asked: to_do,
            done: finished,
        };
        (Self { asked, done }, rebuilder)
    }

    /// Asks for a rebuild; completes once one has run that began later, or none will run any more.
    pub(super) fn ask(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut own = 0;
        self.asked.send_modify(|asked| {
            *asked += 1;
            own = *asked;
        });
        let mut done = self.done.clone();
        async move {
            // An error means that the fleet is shutting down.
            let _ = done.wait_for(|done| *done >= own).await;
        }
    }
}

/// The way of a server to report a change.
pub(super) fn on_change(fleet: Weak<Fleet>) -> OnChange {
    Arc::new(move || {
        let rebuilt = fleet.upgrade().map(|fleet| fleet.rebuilds.ask());
        Box::pin(async move {
            if let Some(rebuilt) = rebuilt {
                rebuilt.await;
            }
        })
    })
}

impl Rebuilder {
    /// Starts the task, which ends with the fleet.
    pub(super) fn start(self, fleet: &Fleet) {
        let (running, stop) = (self.run(fleet.me.clone()), fleet.shutdown.clone());
        let task = async move { stop.run_until_cancelled(running).await };
        fleet.tasks.spawn(task);
    }

    /// Rebuilds the catalog when asked, until the fleet is gone.
    async fn run(mut self, fleet: Weak<Fleet>) {
        while self.asked.changed().await.is_ok() {
            let asked = *self.asked.borrow_and_update();
            let started = Instant::now();
            // A variable of its own, so that the fleet is not kept alive during the pause.
            let rebuilt = fleet.upgrade().map(|fleet| fleet.rebuild());
            if rebuilt.is_none() {
                return;
            }
            self.done.send_replace(asked);
            tokio::time::sleep((started.elapsed() * PAUSE).min(MAX_PAUSE)).await;
        }
    }
}
