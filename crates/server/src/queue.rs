//! Messages that wait to be written to a host, limited by bytes.
//!
//! A limit on their number would fit nothing: a server may log a thousand short lines at once, and sixteen long
//! messages may be too much. Queued messages also count towards the budget for data in flight.

use std::{
    collections::VecDeque,
    future::poll_fn,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use tokio::sync::{Notify, Semaphore};

use crate::inflight::Budget;

/// The limit for one host's queued messages. When it is reached, answers and questions wait, and notifications are
/// dropped.
const ROOM_BYTES: u32 = 8 * 1024 * 1024;

/// Bookkeeping overhead counted per message, so that empty messages also have a limit.
const OVERHEAD_BYTES: usize = 128;

#[derive(Debug)]
pub(crate) struct Sender {
    queue: Arc<Queue>,
    budget: Budget,
}

#[derive(Debug)]
pub(crate) struct Receiver {
    queue: Arc<Queue>,
}

/// The message was not queued: the queue is full, or the receiver is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the host is not reading")]
pub(crate) struct NotQueued;

/// The state that both ends share. Every HTTP request has a queue, and it is nearly always empty, so an empty one must be
/// cheap: tokio's channel allocates room for many messages up front (2.3 KB per request).
#[derive(Debug)]
struct Queue {
    waiting: Mutex<Backlog>,
    /// How many senders are left.
    senders: AtomicUsize,
    reader: AtomicWaker,
    /// Closed when the receiver is dropped.
    room: Semaphore,
    left: Notify,
}

#[derive(Debug, Default)]
struct Backlog {
    messages: VecDeque<Bytes>,
    is_over: bool,
}

pub(crate) fn queue(budget: Budget) -> (Sender, Receiver) {
    let queue = Arc::new(Queue {
        waiting: Mutex::default(),
        senders: AtomicUsize::new(1),
        reader: AtomicWaker::new(),
        room: Semaphore::new(ROOM_BYTES as usize),
        left: Notify::new(),
    });
    let receiver = Receiver {
        queue: Arc::clone(&queue),
    };
    (Sender { queue, budget }, receiver)
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Backlog> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, message: Bytes) -> Result<(), NotQueued> {
        let mut waiting = self.waiting();
        if waiting.is_over {
            return Err(NotQueued);
        }
        waiting.messages.push_back(message);
        drop(waiting);
        // The lock is released first: the reader may run at once on another thread and take the same lock.
        self.reader.wake();
        Ok(())
    }

    fn take(&self) -> Option<Bytes> {
        let message = self.waiting().messages.pop_front()?;
        self.room.add_permits(cost(&message) as usize);
        Some(message)
    }
}

impl Sender {
    /// Queues a message, waiting for room. It counts towards the budget at once, also while it waits.
    pub(crate) async fn send(&self, message: Bytes) -> Result<(), NotQueued> {
        // Held, not taken: the message exists already. Waiting for budget here could deadlock with the request
        // whose memory this answer is about to free.
        let message = self.budget.hold(message);
        let room = self.queue.room.acquire_many(cost(&message)).await;
        room.map_err(|_| NotQueued)?.forget();
        self.queue.put(message)
    }

    /// Queues a message if there is room now. For notifications, which may be dropped.
    pub(crate) fn try_send(&self, message: Bytes) -> Result<(), NotQueued> {
        let room = self.queue.room.try_acquire_many(cost(&message));
        let room = room.map_err(|_| NotQueued)?;
        // The permit is forgotten only after the budget agreed; on an early return it goes back by itself.
        let counted = self.budget.try_take(message.len()).ok_or(NotQueued)?;
        room.forget();
        self.queue.put(counted.hold(message))
    }

    /// Waits until the receiver is dropped.
    pub(crate) async fn closed(&self) {
        // Registered before the check, so that a receiver dropped in between is not missed.
        let left = self.queue.left.notified();
        if !self.queue.room.is_closed() {
            left.await;
        }
    }
}

impl Clone for Sender {
    fn clone(&self) -> Self {
        self.queue.senders.fetch_add(1, Ordering::Relaxed);
        Self {
            queue: Arc::clone(&self.queue),
            budget: self.budget.clone(),
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Released, so that a reader that sees the count at zero also sees this sender's last message.
        if self.queue.senders.fetch_sub(1, Ordering::Release) == 1 {
            self.queue.reader.wake();
        }
    }
}

impl Receiver {
    /// The next message; `None` when there will be none.
    pub(crate) async fn recv(&mut self) -> Option<Bytes> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// Stops waking the reader until it polls again. For a reader that itself runs the work that queues messages and checks
    /// the queue afterwards; a wake would only poll everything once more.
    pub(crate) fn stop_waking(&self) {
        drop(self.queue.reader.take());
    }

    /// The next message, if one is queued.
    pub(crate) fn try_recv(&mut self) -> Option<Bytes> {
        self.queue.take()
    }

    /// Like [`Receiver::recv`], for use inside a `poll` function.
    pub(crate) fn poll_recv(&mut self, context: &Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(message) = self.queue.take() {
            return Poll::Ready(Some(message));
        }
        self.queue.reader.register(context.waker());
        // A message queued before the waker was registered woke nothing, so the queue is checked again. The sender
        // count is read first: the last sender may queue a message and drop in between.
        let is_last = self.queue.senders.load(Ordering::Acquire) == 0;
        match self.queue.take() {
            Some(message) => Poll::Ready(Some(message)),
            None if is_last => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // Closed first: a sender that waits for room fails now instead of queueing for a receiver that is gone.
        self.queue.room.close();
        let mut waiting = self.queue.waiting();
        waiting.is_over = true;
        // Unread messages are freed now, not with the last sender: a call may hold its sender for minutes.
        let unread = std::mem::take(&mut waiting.messages);
        drop(waiting);
        drop(unread);
        self.queue.left.notify_waiters();
    }
}

/// What a message counts as. One larger than the limit counts as the whole limit; otherwise it could never be sent.
fn cost(message: &[u8]) -> u32 {
    let bytes = u32::try_from(message.len() + OVERHEAD_BYTES).unwrap_or(ROOM_BYTES);
    bytes.min(ROOM_BYTES)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_full_queue_drops_notifications_and_delays_answers() {
        let (sender, mut receiver) = queue(Budget::new(ROOM_BYTES as usize * 4));
        let half = Bytes::from(vec![b'x'; ROOM_BYTES as usize / 2]);
        assert_eq!(sender.try_send(half.clone()), Ok(()));
        assert_eq!(sender.try_send(half.clone()), Err(NotQueued));
        let mut answer = Box::pin(sender.send(half.clone()));
        assert_eq!((&mut answer).now_or_never(), None);
        assert_eq!(receiver.try_recv(), Some(half.clone()));
        assert_eq!(answer.now_or_never(), Some(Ok(())));
        assert_eq!(receiver.try_recv(), Some(half));
        assert_eq!(receiver.try_recv(), None);
    }

    #[test]
    fn a_message_larger_than_the_queue_passes_alone() {
        let (sender, mut receiver) = queue(Budget::new(ROOM_BYTES as usize * 4));
        let huge = Bytes::from(vec![b'x'; ROOM_BYTES as usize * 2]);
        assert_eq!(sender.send(huge.clone()).now_or_never(), Some(Ok(())));
        assert_eq!(receiver.try_recv(), Some(huge));
    }

    #[test]
    fn notifications_over_the_budget_are_dropped_and_answers_are_not() {
        let budget = Budget::new(1000);
        let (sender, mut receiver) = queue(budget.clone());
        let message = Bytes::from(vec![b'x'; 600]);
        assert_eq!(sender.try_send(message.clone()), Ok(()));
        assert_eq!(sender.try_send(message.clone()), Err(NotQueued));
        let answered = sender.send(message.clone()).now_or_never();
        assert_eq!(answered, Some(Ok(())));
        assert!(budget.held() > 1000);
        assert_eq!(receiver.try_recv(), Some(message.clone()));
        assert_eq!(receiver.try_recv(), Some(message));
        assert_eq!(budget.held(), 0, "it is over with the message");
    }

    #[test]
    fn a_queue_without_a_reader_takes_nothing() {
        let (sender, receiver) = queue(Budget::new(ROOM_BYTES as usize * 4));
        drop(receiver);
        let message = Bytes::from_static(b"x");
        assert_eq!(sender.try_send(message.clone()), Err(NotQueued));
        assert_eq!(sender.send(message).now_or_never(), Some(Err(NotQueued)));
        assert_eq!(sender.closed().now_or_never(), Some(()));
    }

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_reader_that_is_at_work_is_not_woken_and_finds_what_came() {
        let (sender, mut receiver) = queue(Budget::new(ROOM_BYTES as usize));
        let woken = Arc::new(Woken::default());
        let waker = woken.clone().into();
        let context = Context::from_waker(&waker);
        assert!(receiver.poll_recv(&context).is_pending());
        receiver.stop_waking();
        let message = Bytes::from_static(b"x");
        sender.try_send(message.clone()).unwrap();
        assert_eq!(woken.0.load(Ordering::SeqCst), 0);
        let read = receiver.poll_recv(&context);
        assert_eq!(read, Poll::Ready(Some(message.clone())));
        assert!(receiver.poll_recv(&context).is_pending());
        sender.try_send(message).unwrap();
        assert_eq!(woken.0.load(Ordering::SeqCst), 1, "it waits again");
    }

    #[tokio::test]
    async fn the_last_message_is_read_before_the_end() {
        let (sender, mut receiver) = queue(Budget::new(ROOM_BYTES as usize));
        let other = sender.clone();
        let reading = tokio::spawn(async move {
            let mut heard = Vec::new();
            while let Some(message) = receiver.recv().await {
                heard.push(message);
            }
            heard
        });
        tokio::task::yield_now().await;
        sender.send(Bytes::from_static(b"first")).await.unwrap();
        drop(sender);
        other.send(Bytes::from_static(b"last")).await.unwrap();
        drop(other);
        assert_eq!(reading.await.unwrap(), ["first", "last"]);
    }

    #[tokio::test]
    async fn waiting_senders_learn_that_the_reader_is_gone() {
        let (sender, receiver) = queue(Budget::new(ROOM_BYTES as usize * 4));
        let all = Bytes::from(vec![b'x'; ROOM_BYTES as usize]);
        sender.send(all.clone()).await.unwrap();
        let (mut waiting, mut closed) = (Box::pin(sender.send(all)), Box::pin(sender.closed()));
        assert_eq!((&mut waiting).now_or_never(), None);
        assert_eq!((&mut closed).now_or_never(), None);
        drop(receiver);
        assert_eq!(waiting.await, Err(NotQueued));
        closed.await;
        assert_eq!(sender.budget.held(), 0, "what was not read is gone");
    }
}
