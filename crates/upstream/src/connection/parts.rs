//! Building a connection, for all transports.

use std::sync::{Arc, Weak};

use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Connection, ConnectionLimits, Inner};
use crate::{
    inbound::{Inbound, Wiring},
    link::Link,
    listening::Listening,
    pending::Pending,
};

/// The parts that a link shares with its connection, before either exists.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) pending: Arc<Pending>,
    pub(super) ended: CancellationToken,
    pub(super) tasks: TaskTracker,
}

impl Parts {
    pub(super) fn inbound(&self, wiring: &Wiring, link: Weak<dyn Link>) -> Inbound {
        Inbound::new(
            wiring.clone(),
            self.pending.clone(),
            link,
            self.tasks.clone(),
        )
    }

    /// Runs the reader of a stream; the connection ends with it.
    pub(super) fn until_read(
        &self,
        reading: impl Future<Output = ()> + Send + 'static,
        inbound: Inbound,
    ) {
        let (ended, pending) = (self.ended.clone(), self.pending.clone());
        self.tasks.spawn(async move {
            reading.await;
            // Before `ended`: the supervisor reacts to it, and by then every call must have its outcome.
            pending.close();
            inbound.close();
            ended.cancel();
        });
    }

    pub(super) fn connect(
        self,
        link: Arc<dyn Link>,
        limits: ConnectionLimits,
        wiring: Wiring,
    ) -> Connection {
        let Self {
            pending,
            ended,
            tasks,
        } = self;
        let slots = Semaphore::new(limits.concurrency);
        Connection {
            inner: Arc::new(Inner {
                server: wiring.server,
                profile: wiring.profile,
                claimed: wiring.claimed,
                levels: wiring.levels,
                listening: Listening::default(),
                pending,
                link,
                slots,
                ended,
                tasks,
            }),
        }
    }
}
