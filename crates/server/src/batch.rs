//! Batches. Only 2025-03-26 has them; a batch is answered with a batch.

use bytes::Bytes;
use callgate_wire::{Batch, BatchedMessage, Frame, FrameError, message};
use futures_util::future::join_all;

use crate::session::Session;

/// The messages of a batch. An invalid message fails alone.
pub(crate) struct Messages(Vec<BatchedMessage>);

/// Parses a batch; an error when the session's protocol version has none.
pub(crate) fn parse(session: &Session, batch: Bytes) -> Result<Messages, FrameError> {
    let version = session.version();
    if !version.is_some_and(|version| version.supports_batch()) {
        return Err(FrameError::Batch);
    }
    Batch::parse(batch).map(Messages)
}

impl Messages {
    /// Answers all messages concurrently and returns one batch; `None` when no message has an answer.
    pub(crate) async fn answered_by<A>(self, answer: impl Fn(Frame) -> A) -> Option<Bytes>
    where
        A: Future<Output = Option<Bytes>>,
    {
        let one = async |message: BatchedMessage| match message {
            Ok(frame) => answer(frame).await,
            Err((error, rejected)) => Some(message::error(rejected.answered_id(), &error.to_rpc())),
        };
        let answers = join_all(self.0.into_iter().map(one)).await;
        let answers: Vec<Bytes> = answers.into_iter().flatten().collect();
        // JSON-RPC has no empty batch: a batch of notifications is answered with nothing.
        if answers.is_empty() {
            return None;
        }
        let joined = [b"[".as_slice(), &answers.join(b",".as_slice()), b"]"].concat();
        Some(joined.into())
    }
}
