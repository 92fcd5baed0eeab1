//! A link: how messages get to a server and back. One file per transport; what they share, a
//! table of waiting requests and the reading of what servers say, is in [`crate::connection`]
//! and [`crate::inbound`].

pub(crate) mod legacy_sse;
pub(crate) mod stdio;
pub(crate) mod streamable;

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use callgate_call::CallerDriven;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::{outgoing::Message, pending::Ended};

/// Sends messages to one server, in the order they were given.
pub(crate) trait Link: Send + Sync + fmt::Debug {
    /// Takes a message. After `Ok` it may have reached the server. The reply to a request comes
    /// in through [`Inbound`](crate::inbound::Inbound), like everything that the server says.
    fn send(&self, parcel: Parcel) -> BoxFuture<'_, Result<Sent, LinkEnded>>;

    /// Says that nobody waits for the reply to `id` any more, with the message that tells the
    /// server so. Best effort, and at once: a server that does not read cannot be told.
    fn give_up(&self, id: u64, cancelled: Message);

    /// Notes the protocol version that the handshake settled.
    fn agreed(&self, _version: &str) {}

    /// Notes that the handshake is over, and waits until the server can say something of its own.
    fn introduced(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Ends the link: the server sees that nothing more comes.
    fn close(&self);
}

/// A message and what it is.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) message: Message,
    /// Our id, when it is a request that waits for a reply.
    pub(crate) awaits: Option<u64>,
}

/// A message that was taken.
#[derive(Debug)]
pub(crate) enum Sent {
    /// The link sees to everything else.
    OnItsWay,
    /// It waits to be written, and can be taken back until then.
    Queued(Ticket),
    /// Whoever waits for the reply sends the message and reads what comes back.
    ByWhoWaits(CallerDriven<()>),
}

/// A message in a queue: it is written or taken back, whichever comes first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ticket(Arc<AtomicBool>);

impl Ticket {
    /// Decides what becomes of the message. `true` for the first to ask, whose choice counts.
    pub(crate) fn take(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

impl Sent {
    /// Takes the message back. `false` where it may have reached the server.
    pub(crate) fn withdraw(&self) -> bool {
        match self {
            Self::Queued(ticket) => ticket.take(),
            Self::OnItsWay | Self::ByWhoWaits(_) => false,
        }
    }

    /// Waits for the reply to it, and does what there is to do for that.
    pub(crate) async fn reply(&mut self, mut reply: oneshot::Receiver<Ended>) -> Ended {
        let replied = poll_fn(|context| {
            match self {
                Self::OnItsWay | Self::Queued(_) => {}
                Self::ByWhoWaits(work) => {
                    // The reply that this work brings must not wake the task that does it.
                    let mut nobody = Context::from_waker(Waker::noop());
                    if let Poll::Ready(replied) = Pin::new(&mut reply).poll(&mut nobody) {
                        return Poll::Ready(replied);
                    }
                    // The reply is looked at next, whether this is done or not.
                    let _ = Pin::new(work).poll(context);
                }
            }
            Pin::new(&mut reply).poll(context)
        });
        replied.await.unwrap_or(Ended::Gone)
    }
}

/// The link ended before the message could be sent.
#[derive(Debug, thiserror::Error)]
#[error("the connection has ended")]
pub(crate) struct LinkEnded;

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::atomic::AtomicUsize, task::Wake};

    use tokio_util::task::TaskTracker;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How often the waiting task was woken when its reply comes: out of its own work, or from elsewhere.
    fn woken(by_its_work: bool) -> usize {
        let woken = Arc::new(Woken::default());
        let waker = woken.clone().into();
        let mut context = Context::from_waker(&waker);
        let (tell, reply) = oneshot::channel();
        let (mut own, mut elsewhere) = match by_its_work {
            true => (Some(tell), None),
            false => (None, Some(tell)),
        };
        let mut turns = 0;
        let work = poll_fn(move |_| {
            turns += 1;
            if let Some(tell) = own.take_if(|_| turns == 2) {
                tell.send(Ended::Gone).expect("the reply is waited for");
            }
            Poll::Pending
        });
        let mut sent = Sent::ByWhoWaits(CallerDriven::new(work, TaskTracker::new()));
        let mut replying = pin!(sent.reply(reply));
        assert!(replying.as_mut().poll(&mut context).is_pending());
        if let Some(tell) = elsewhere.take() {
            tell.send(Ended::Gone).expect("the reply is waited for");
        }
        let replied = replying.as_mut().poll(&mut context);
        assert!(matches!(replied, Poll::Ready(Ended::Gone)));
        woken.0.load(Ordering::SeqCst)
    }

    #[test]
    fn a_reply_wakes_its_task_unless_that_task_brought_it() {
        assert_eq!(woken(true), 0);
        assert_eq!(woken(false), 1);
    }
}
