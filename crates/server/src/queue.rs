//! Messages that wait to be written to a host, limited by what they take in memory.
//!
//! A count would not do: a server may log a thousand short lines in one breath, and sixteen long
//! ones may be too many. What waits here also counts towards what is in flight as a whole.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::inflight::Budget;

/// What the waiting messages of one host may take together. When it is full, answers and
/// questions wait for room, and notifications are dropped.
const ROOM_BYTES: u32 = 8 * 1024 * 1024;

/// What a message takes besides its own bytes.
const OVERHEAD_BYTES: usize = 128;

/// The writing end.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    messages: mpsc::UnboundedSender<Waiting>,
    room: Arc<Semaphore>,
    budget: Budget,
}

/// The reading end.
#[derive(Debug)]
pub(crate) struct Receiver {
    messages: mpsc::UnboundedReceiver<Waiting>,
}

/// The message was not taken: there is no room for it, or nobody reads any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the host does not read")]
pub(crate) struct NotTaken;

#[derive(Debug)]
struct Waiting {
    message: Bytes,
    _room: OwnedSemaphorePermit,
}

/// A queue to one host.
pub(crate) fn queue(budget: Budget) -> (Sender, Receiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let room = Arc::new(Semaphore::new(ROOM_BYTES as usize));
    (
        Sender {
            messages: sender,
            room,
            budget,
        },
        Receiver { messages: receiver },
    )
}

impl Sender {
    /// Queues a message, waiting for room. It is counted from now on.
    pub(crate) async fn send(&self, message: Bytes) -> Result<(), NotTaken> {
        let message = self.budget.hold(message);
        let room = self.room.clone().acquire_many_owned(cost(&message));
        tokio::select! {
            room = room => self.put(message, room.map_err(|_| NotTaken)?),
            () = self.messages.closed() => Err(NotTaken),
        }
    }

    /// Queues a message if there is room now.
    pub(crate) fn try_send(&self, message: Bytes) -> Result<(), NotTaken> {
        let room = self.room.clone().try_acquire_many_owned(cost(&message));
        let room = room.map_err(|_| NotTaken)?;
        let counted = self.budget.try_take(message.len()).ok_or(NotTaken)?;
        self.put(counted.hold(message), room)
    }

    /// Waits until nobody reads any more.
    pub(crate) async fn closed(&self) {
        self.messages.closed().await;
    }

    fn put(&self, message: Bytes, room: OwnedSemaphorePermit) -> Result<(), NotTaken> {
        let waiting = Waiting {
            message,
            _room: room,
        };
        self.messages.send(waiting).map_err(|_| NotTaken)
    }
}

impl Receiver {
    /// The next message; `None` when there will be none.
    pub(crate) async fn recv(&mut self) -> Option<Bytes> {
        self.messages.recv().await.map(|waiting| waiting.message)
    }

    /// The next message, if one waits.
    pub(crate) fn try_recv(&mut self) -> Option<Bytes> {
        self.messages.try_recv().ok().map(|waiting| waiting.message)
    }
}

/// A message that is larger than all the room there is takes all of it.
fn cost(message: &[u8]) -> u32 {
    let bytes = u32::try_from(message.len() + OVERHEAD_BYTES).unwrap_or(ROOM_BYTES);
    bytes.min(ROOM_BYTES)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_full_queue_drops_notifications_and_keeps_answers_waiting() {
        let (sender, mut receiver) = queue(Budget::new(ROOM_BYTES as usize * 4));
        let half = Bytes::from(vec![b'x'; ROOM_BYTES as usize / 2]);
        assert_eq!(sender.try_send(half.clone()), Ok(()));
        assert_eq!(sender.try_send(half.clone()), Err(NotTaken));
        let mut answer = Box::pin(sender.send(half.clone()));
        assert_eq!((&mut answer).now_or_never(), None);
        assert_eq!(receiver.try_recv(), Some(half.clone()));
        assert_eq!(answer.now_or_never(), Some(Ok(())));
        assert_eq!(receiver.try_recv(), Some(half));
        assert_eq!(receiver.try_recv(), None);
    }

    #[test]
    fn a_message_larger_than_the_room_still_passes_alone() {
        let (sender, mut receiver) = queue(Budget::new(ROOM_BYTES as usize * 4));
        let huge = Bytes::from(vec![b'x'; ROOM_BYTES as usize * 2]);
        assert_eq!(sender.send(huge.clone()).now_or_never(), Some(Ok(())));
        assert_eq!(receiver.try_recv(), Some(huge));
    }

    #[test]
    fn a_notification_that_would_overdraw_the_budget_is_dropped_and_an_answer_is_not() {
        let budget = Budget::new(1000);
        let (sender, mut receiver) = queue(budget.clone());
        let message = Bytes::from(vec![b'x'; 600]);
        assert_eq!(sender.try_send(message.clone()), Ok(()));
        assert_eq!(sender.try_send(message.clone()), Err(NotTaken));
        let answered = sender.send(message.clone()).now_or_never();
        assert_eq!(answered, Some(Ok(())));
        assert!(budget.held() > 1000);
        assert_eq!(receiver.try_recv(), Some(message.clone()));
        assert_eq!(receiver.try_recv(), Some(message));
        assert_eq!(budget.held(), 0, "it is over with the message");
    }

    #[test]
    fn nothing_is_taken_when_nobody_reads() {
        let (sender, receiver) = queue(Budget::new(ROOM_BYTES as usize * 4));
        drop(receiver);
        let message = Bytes::from_static(b"x");
        assert_eq!(sender.try_send(message.clone()), Err(NotTaken));
        assert_eq!(sender.send(message).now_or_never(), Some(Err(NotTaken)));
        assert_eq!(sender.closed().now_or_never(), Some(()));
    }
}
