//! Reads request bodies within a size limit, a deadline and the memory budget.
//!
//! A client that is still writing when it is refused usually sees a broken connection instead of the refusal. So an
//! oversized body is read and discarded for a while before the refusal is sent.

use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::body::HttpBody;
use bytes::{Bytes, BytesMut};
use callgate_wire::{Ends, Rejected};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout, timeout_at};

use super::listen::without_waking;
use crate::inflight::{Budget, Reservation};

/// How much of an oversized body is discarded. A client that sends more may see a broken connection.
const DISCARD_BYTES: usize = 64 * 1024 * 1024;
/// How long discarding may take.
const DISCARD_DEADLINE: Duration = Duration::from_secs(5);
/// The step by which the reservation grows for a body that is slow or has no `Content-Length`.
const STEP_BYTES: usize = 64 * 1024;

/// The deadlines of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyDeadlines {
    /// For the whole body.
    pub(super) whole: Duration,
    /// For room in the memory budget; then the client gets 503 and may retry.
    pub(super) room: Duration,
    /// How long a body keeps the reservation for its announced length. After that it only holds what arrived and one step
    /// more, so that slow senders cannot lock out fast ones.
    pub(super) kept_free: Duration,
}

impl Default for BodyDeadlines {
    fn default() -> Self {
        Self {
            whole: Duration::from_secs(30),
            room: Duration::from_secs(2),
            kept_free: Duration::from_secs(2),
        }
    }
}

/// The limits of a body.
#[derive(Debug, Clone)]
pub(super) struct BodyLimits {
    /// The size limit, in bytes.
    pub(super) limit: usize,
    /// The budget that it is reserved from.
    pub(super) budget: Budget,
    pub(super) pace: BodyDeadlines,
}

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    #[error("the body is over the limit (`limits.http_mib`)")]
    TooLarge,
    /// The connection ended in the middle of it.
    #[error("the request body ended early")]
    Broken,
    #[error("the request body did not arrive within 30 s")]
    Slow,
    /// The memory budget is exhausted (`limits.inflight_mib`).
    #[error("busy")]
    Busy,
}

/// A body that was not read.
#[derive(Debug)]
pub(super) struct Unread {
    pub(super) error: BodyError,
    /// What is known of the message in it.
    pub(super) rejected: Rejected,
}

impl BodyError {
    pub(super) fn status(self) -> u16 {
        match self {
            BodyError::TooLarge => 413,
            BodyError::Broken => 400,
            BodyError::Slow => 408,
            BodyError::Busy => 503,
        }
    }
}

/// Reads a whole body. Its reservation is released with its last copy.
pub(super) async fn read<B>(body: B, limits: &BodyLimits) -> Result<Bytes, Unread>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let mut rejected = Rejected::default();
    let read = read_or_reject(body, limits, &mut rejected).await;
    read.map_err(|error| Unread { error, rejected })
}

/// Reads a whole body; `rejected` is what is known of one that is over the limit.
async fn read_or_reject<B>(
    body: B,
    limits: &BodyLimits,
    rejected: &mut Rejected,
) -> Result<Bytes, BodyError>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut reader = BodyReader {
        body,
        limits,
        announced,
        at_hand: None,
        first: Bytes::new(),
        rest: BytesMut::new(),
        rejected,
    };
    if announced > limits.limit {
        return reader.refuse().await;
    }
    let BodyLimits { budget, pace, .. } = limits;
    // Reserved before reading: the announced length is what the client may make the gateway allocate.
    let room = budget.take_within(announced, pace.room).await;
    let room = room.ok_or(BodyError::Busy)?;
    let at_hand = reader.at_hand().await.transpose()?.flatten();
    match at_hand {
        // Complete and within its reservation. A body without a length announces 0 and takes the slow path.
        Some(whole) if reader.body.is_end_stream() && whole.len() <= announced => {
            return Ok(room.hold(whole));
        }
        beginning => reader.at_hand = beginning,
    }
    timeout(pace.whole, reader.collect(room))
        .await
        .unwrap_or(Err(BodyError::Slow))
}

/// The state of a body that is being read.
struct BodyReader<'a, B> {
    body: B,
    limits: &'a BodyLimits,
    announced: usize,
    /// The piece that arrived with the head and is not yet counted.
    at_hand: Option<Bytes>,
    /// The first piece. Most bodies have only one, which is returned without a copy.
    first: Bytes,
    rest: BytesMut,
    rejected: &'a mut Rejected,
}

impl<B: HttpBody<Data = Bytes> + Unpin> BodyReader<'_, B> {
    /// The piece that arrived with the head; `None` if there is none. Most bodies are then complete, and setting a deadline for
    /// them would cost more than reading them.
    async fn at_hand(&mut self) -> Option<Result<Option<Bytes>, BodyError>> {
        let mut was_asked = false;
        poll_fn(|context| {
            // Taking a piece makes hyper wake this task, so that it reads the next piece. After the last one there is none, and
            // polling the whole connection again would find nothing.
            let mut no_waker = Context::from_waker(Waker::noop());
            let next = without_waking(|| pin!(self.next()).poll(&mut no_waker));
            if !(next.is_ready() && self.body.is_end_stream()) {
                context.waker().wake_by_ref();
            }
            match next {
                Poll::Ready(next) => Poll::Ready(Some(next)),
                Poll::Pending if was_asked => Poll::Ready(None),
                Poll::Pending => {
                    was_asked = true;
                    Poll::Pending
                }
            }
        })
        .await
    }

    async fn collect(&mut self, mut room: Reservation) -> Result<Bytes, BodyError> {
        let pace = self.limits.pace;
        let kept_free_until = Instant::now() + pace.kept_free;
        let mut is_slow = false;
        loop {
            let next = if is_slow {
                Ok(self.next().await)
            } else {
                timeout_at(kept_free_until, self.next()).await
            };
            let Ok(next) = next else {
                // From now on without the timer: the whole body still has its deadline in `read`.
                is_slow = true;
                room.shrink_to(self.len() + STEP_BYTES);
                continue;
            };
            let Some(chunk) = next? else {
                return Ok(room.hold(self.whole()));
            };
            if self.len() + chunk.len() > self.limits.limit {
                // Released before discarding, which may take seconds and needs no memory.
                drop(room);
                self.add(chunk);
                return self.refuse().await;
            }
            self.add(chunk);
            if let Some(missing) = room.missing(self.len(), STEP_BYTES) {
                let more = self.limits.budget.take_exactly(missing);
                let more = timeout(pace.room, more).await;
                room.join(more.map_err(|_| BodyError::Busy)?);
            }
        }
    }

    fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    /// Appends a piece to one buffer. A list of pieces could take many times their size if they are tiny.
    fn add(&mut self, chunk: Bytes) {
        if self.len() == 0 {
            self.first = chunk;
            return;
        }
        if self.rest.is_empty() {
            let first = std::mem::take(&mut self.first);
            self.rest
                .reserve(self.announced.max(first.len() + chunk.len()));
            self.rest.extend_from_slice(&first);
        }
        self.rest.extend_from_slice(&chunk);
    }

    fn whole(&mut self) -> Bytes {
        if self.rest.is_empty() {
            return std::mem::take(&mut self.first);
        }
        std::mem::take(&mut self.rest).freeze()
    }

    /// Discards the rest, as far as the limits allow, and refuses.
    async fn refuse(&mut self) -> Result<Bytes, BodyError> {
        let mut ends = Ends::default();
        ends.extend(&self.whole());
        // The refusal follows whether or not everything was discarded in time.
        let _ = timeout(DISCARD_DEADLINE, self.discard(&mut ends)).await;
        *self.rejected = ends.rejected();
        Err(BodyError::TooLarge)
    }

    async fn discard(&mut self, ends: &mut Ends) {
        let mut bytes = 0;
        while let Ok(Some(chunk)) = self.next().await {
            ends.extend(&chunk);
            bytes += chunk.len();
            if bytes > DISCARD_BYTES {
                return;
            }
        }
    }

    /// The next piece of data; trailers are skipped.
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        if let Some(at_hand) = self.at_hand.take() {
            return Ok(Some(at_hand));
        }
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(|_| BodyError::Broken)?;
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        pin::Pin,
        task::{Context, Poll},
    };

    use axum::body::Body;
    use futures_util::{StreamExt, stream};
    use hyper::body::{Frame, SizeHint};

    use super::*;

    const ROOM: usize = 1024 * 1024;

    async fn read<B>(body: B, limits: &BodyLimits) -> Result<Bytes, BodyError>
    where
        B: HttpBody<Data = Bytes> + Unpin,
    {
        super::read(body, limits)
            .await
            .map_err(|unread| unread.error)
    }

    fn limits(limit: usize) -> BodyLimits {
        BodyLimits {
            limit,
            budget: Budget::new(ROOM),
            pace: BodyDeadlines {
                whole: Duration::from_millis(300),
                room: Duration::from_millis(30),
                kept_free: Duration::from_millis(30),
            },
        }
    }

    fn body(pieces: &'static [&'static str]) -> Body {
        let pieces = pieces.iter().map(|piece| Ok::<_, Infallible>(*piece));
        Body::from_stream(stream::iter(pieces))
    }

    async fn read_up_to(pieces: &'static [&'static str], limit: usize) -> Result<Bytes, BodyError> {
        read(body(pieces), &limits(limit)).await
    }

    #[tokio::test]
    async fn a_body_is_read_up_to_the_limit() {
        assert_eq!(read_up_to(&[], 0).await, Ok(Bytes::new()));
        let abc = Ok(Bytes::from_static(b"abc"));
        assert_eq!(read_up_to(&["abc"], 3).await, abc);
        assert_eq!(read_up_to(&["ab", "", "c"], 3).await, abc);
        assert_eq!(read_up_to(&["", "a", "b", "c"], 3).await, abc);
        let too_large = Err(BodyError::TooLarge);
        assert_eq!(read_up_to(&["ab", "cd"], 3).await, too_large);
        assert_eq!(read_up_to(&["abcd", "e"], 3).await, too_large);
        assert_eq!(read(Body::from("abcd"), &limits(3)).await, too_large);
    }

    #[tokio::test]
    async fn a_body_reserves_memory_until_its_last_copy_is_dropped() {
        let limits = limits(ROOM * 4);
        for length in [0, 10, ROOM / 2, ROOM * 2] {
            let whole = read(Body::from(vec![b'x'; length]), &limits).await;
            let whole = whole.expect("it is alone");
            assert!(limits.budget.held() >= length.min(ROOM));
            drop(whole);
            assert_eq!(limits.budget.held(), 0);
        }
    }

    #[tokio::test]
    async fn the_reservation_grows_with_a_body_of_unknown_length() {
        let limits = limits(ROOM * 4);
        let pieces = (0..40).map(|_| Ok::<_, Infallible>(vec![b'x'; ROOM / 20]));
        let whole = read(Body::from_stream(stream::iter(pieces)), &limits).await;
        assert_eq!(whole.expect("it is alone").len(), ROOM / 20 * 40);
        assert_eq!(limits.budget.held(), 0);
    }

    #[tokio::test]
    async fn a_client_without_room_is_told_to_retry() {
        let limits = limits(ROOM);
        let other = limits.budget.try_take(ROOM).expect("there is room");
        let refused = read(Body::from("abc"), &limits).await;
        assert_eq!(refused, Err(BodyError::Busy));
        assert_eq!(BodyError::Busy.status(), 503);
        drop(other);
        let whole = read(Body::from("abc"), &limits).await;
        assert_eq!(whole, Ok(Bytes::from_static(b"abc")));
    }

    #[tokio::test]
    async fn a_slow_body_does_not_block_others_and_is_cut_off() {
        let limits = limits(ROOM);
        let begun = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"x"))]);
        let announced = AnnouncedBody {
            length: ROOM as u64,
            inner: Body::from_stream(begun.chain(stream::pending())),
        };
        let slow = read(Body::new(announced), &limits);
        let quick = async {
            let long_enough = Duration::from_secs(5);
            let room = limits.budget.take_within(ROOM / 2, long_enough).await;
            room.map(|_| limits.budget.held())
        };
        let (slow, quick) = tokio::join!(slow, quick);
        assert_eq!(slow, Err(BodyError::Slow));
        assert!(quick.expect("there was room before the slow one ended") > ROOM / 2);
        assert_eq!(limits.budget.held(), 0);
    }

    /// A body that says how long it is.
    struct AnnouncedBody {
        length: u64,
        inner: Body,
    }

    impl HttpBody for AnnouncedBody {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
            Pin::new(&mut self.inner).poll_frame(context)
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.length)
        }
    }
}
