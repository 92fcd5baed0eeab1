//! A link: the transport to a server. One file per transport; the table of pending requests and the
//! handling of incoming messages are shared, in [`crate::connection`] and [`crate::inbound`].

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

/// Sends messages to one server, in order.
pub(crate) trait Link: Send + Sync + fmt::Debug {
    /// Accepts a message. After `Ok` it may have reached the server. The reply to a request arrives through
    /// [`Inbound`](crate::inbound::Inbound), like every message of the server.
    fn send(&self, parcel: Parcel) -> BoxFuture<'_, Result<Sent, LinkEnded>>;

    /// Abandons request `id` and sends the server its cancellation. Best effort and without waiting: a server
    /// that does not read would block it.
    fn give_up(&self, id: u64, cancelled: Message);

    /// Notes the negotiated protocol version.
    fn agreed(&self, _version: &str) {}

    /// Notes that the handshake is over, and waits until the server can send messages of its own.
    fn introduced(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Closes the link, which the server notices.
    fn close(&self);
}

#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) message: Message,
    /// Our id if it is a request, whose reply is awaited.
    pub(crate) awaits: Option<u64>,
}

/// What became of a message.
#[derive(Debug)]
pub(crate) enum Sent {
    /// The link does the rest.
    OnItsWay,
    /// It is queued, and can be withdrawn until it is written.
    Queued(Ticket),
    /// The task that waits for the reply also does the sending and reading.
    CallerDriven(CallerDriven<()>),
}

/// Decides a queued message's fate once: written or withdrawn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ticket(Arc<AtomicBool>);

impl Ticket {
    /// `true` for the first caller only, who decides.
    pub(crate) fn take(&self) -> bool {
        // One swap settles the race between the writer and a withdrawal.
        !self.0.swap(true, Ordering::AcqRel)
    }
}

impl Sent {
    /// Withdraws the message. `false` if it may have reached the server.
    pub(crate) fn withdraw(&self) -> bool {
        match self {
            Self::Queued(ticket) => ticket.take(),
            Self::OnItsWay | Self::CallerDriven(_) => false,
        }
    }

    /// Waits for the reply, and drives the exchange if that is the caller's task.
    pub(crate) async fn reply(&mut self, mut reply: oneshot::Receiver<Ended>) -> Ended {
        let replied = poll_fn(|context| {
            match self {
                Self::OnItsWay | Self::Queued(_) => {}
                Self::CallerDriven(work) => {
                    // Without a waker: the reply that this work brings must not wake the task that is running it.
                    let mut no_waker = Context::from_waker(Waker::noop());
                    if let Poll::Ready(replied) = Pin::new(&mut reply).poll(&mut no_waker) {
                        return Poll::Ready(replied);
                    }
                    // Pending or done, the reply is polled next: the work delivers it to the table.
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
        let mut sent = Sent::CallerDriven(CallerDriven::new(work, TaskTracker::new()));
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
