//! The body of a request, up to a limit, within a deadline, and only when there is room for it.
//!
//! A client that is still writing when it is refused mostly sees a broken connection and never
//! the refusal. So what comes over the limit is read for a while, and thrown away, before that.

use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::body::HttpBody;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout, timeout_at};

use crate::inflight::{Budget, Reservation};

/// How much over the limit is thrown away; who sends more may see a broken connection.
const THROWN_AWAY_BYTES: usize = 64 * 1024 * 1024;
/// How long throwing away may take.
const THROWN_AWAY_WITHIN: Duration = Duration::from_secs(5);
/// By how much room grows with a body that is slow, or that did not say how long it is.
const STEP_BYTES: usize = 64 * 1024;

/// How long a body is waited for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// For all of it.
    pub(super) whole: Duration,
    /// For room; then the client is told to come again.
    pub(super) room: Duration,
    /// So long a body keeps room for all that it announced. After that it has room for what came
    /// and a little more: slow senders must not lock the quick ones out.
    pub(super) kept_free: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            whole: Duration::from_secs(30),
            room: Duration::from_secs(2),
            kept_free: Duration::from_secs(2),
        }
    }
}

/// What a body may take.
#[derive(Debug, Clone)]
pub(super) struct Allowance {
    /// At most so many bytes.
    pub(super) limit: usize,
    /// Out of this.
    pub(super) budget: Budget,
    /// In this time.
    pub(super) pace: Pace,
}

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    /// It is over the limit.
    #[error("the body is over the limit (`limits.http_mib`)")]
    TooLarge,
    /// The client stopped in the middle of it.
    #[error("the body ended early")]
    Broken,
    /// It did not come in time.
    #[error("the body did not come within 30 s")]
    Slow,
    /// Too much is under way (`limits.inflight_mib`).
    #[error("busy")]
    Busy,
}

impl BodyError {
    /// The HTTP status that says so.
    pub(super) fn status(self) -> u16 {
        match self {
            BodyError::TooLarge => 413,
            BodyError::Broken => 400,
            BodyError::Slow => 408,
            BodyError::Busy => 503,
        }
    }
}

/// Reads a whole body. What it takes of the budget is given back with its last copy.
pub(super) async fn read<B>(body: B, allowance: &Allowance) -> Result<Bytes, BodyError>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    let mut coming = Coming {
        body,
        allowance,
        announced,
        at_hand: None,
        first: Bytes::new(),
        rest: BytesMut::new(),
    };
    if announced > allowance.limit {
        return coming.refuse().await;
    }
    let Allowance { budget, pace, .. } = allowance;
    let room = budget.take_within(announced, pace.room).await;
    let room = room.ok_or(BodyError::Busy)?;
    let at_hand = coming.at_hand().await.transpose()?.flatten();
    match at_hand {
        Some(whole) if coming.body.is_end_stream() && whole.len() <= announced => {
            return Ok(room.hold(whole));
        }
        beginning => coming.at_hand = beginning,
    }
    timeout(pace.whole, coming.collect(room))
        .await
        .unwrap_or(Err(BodyError::Slow))
}

/// A body that is being read.
struct Coming<'a, B> {
    body: B,
    allowance: &'a Allowance,
    announced: usize,
    /// What came with the head and was not looked at yet.
    at_hand: Option<Bytes>,
    /// The usual body comes in one piece and is not copied.
    first: Bytes,
    rest: BytesMut,
}

impl<B: HttpBody<Data = Bytes> + Unpin> Coming<'_, B> {
    /// What has come with the head; `None` if nothing has. hyper hands it over one turn after it was first asked. Most bodies
    /// are complete then, and setting deadlines for those would cost more than reading them. The body itself wakes nobody
    /// here: this asks for the next turn, and there is nothing to do in a third one.
    async fn at_hand(&mut self) -> Option<Result<Option<Bytes>, BodyError>> {
        let mut was_asked = false;
        poll_fn(|context| {
            let mut nobody = Context::from_waker(Waker::noop());
            match pin!(self.next()).poll(&mut nobody) {
                Poll::Ready(next) => Poll::Ready(Some(next)),
                Poll::Pending if was_asked => Poll::Ready(None),
                Poll::Pending => {
                    was_asked = true;
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        })
        .await
    }

    async fn collect(&mut self, mut room: Reservation) -> Result<Bytes, BodyError> {
        let pace = self.allowance.pace;
        let kept_free_until = Instant::now() + pace.kept_free;
        let mut is_slow = false;
        loop {
            let next = if is_slow {
                Ok(self.next().await)
            } else {
                timeout_at(kept_free_until, self.next()).await
            };
            let Ok(next) = next else {
                is_slow = true;
                room.shrink_to(self.len() + STEP_BYTES);
                continue;
            };
            let Some(chunk) = next? else {
                return Ok(room.hold(self.whole()));
            };
            if self.len() + chunk.len() > self.allowance.limit {
                drop(room);
                return self.refuse().await;
            }
            self.add(chunk);
            if let Some(missing) = room.missing(self.len(), STEP_BYTES) {
                let more = self.allowance.budget.take_exactly(missing);
                let more = timeout(pace.room, more).await;
                room.join(more.map_err(|_| BodyError::Busy)?);
            }
        }
    }

    fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    /// Pieces are put together as they come: a list of tiny ones would take many times their size.
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

    /// Whether all of it came or the time was up, the refusal follows.
    async fn refuse(&mut self) -> Result<Bytes, BodyError> {
        drop(self.whole());
        let _ = timeout(THROWN_AWAY_WITHIN, self.throw_away()).await;
        Err(BodyError::TooLarge)
    }

    async fn throw_away(&mut self) {
        let mut bytes = 0;
        while let Ok(Some(chunk)) = self.next().await {
            bytes += chunk.len();
            if bytes > THROWN_AWAY_BYTES {
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

    fn allowance(limit: usize) -> Allowance {
        Allowance {
            limit,
            budget: Budget::new(ROOM),
            pace: Pace {
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
        read(body(pieces), &allowance(limit)).await
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
        assert_eq!(read(Body::from("abcd"), &allowance(3)).await, too_large);
    }

    #[tokio::test]
    async fn a_body_reserves_memory_until_its_last_copy_is_dropped() {
        let allowance = allowance(ROOM * 4);
        for length in [0, 10, ROOM / 2, ROOM * 2] {
            let whole = read(Body::from(vec![b'x'; length]), &allowance).await;
            let whole = whole.expect("it is alone");
            assert!(allowance.budget.held() >= length.min(ROOM));
            drop(whole);
            assert_eq!(allowance.budget.held(), 0);
        }
    }

    #[tokio::test]
    async fn the_reservation_grows_with_a_body_of_unknown_length() {
        let allowance = allowance(ROOM * 4);
        let pieces = (0..40).map(|_| Ok::<_, Infallible>(vec![b'x'; ROOM / 20]));
        let whole = read(Body::from_stream(stream::iter(pieces)), &allowance).await;
        assert_eq!(whole.expect("it is alone").len(), ROOM / 20 * 40);
        assert_eq!(allowance.budget.held(), 0);
    }

    #[tokio::test]
    async fn a_client_without_room_is_told_to_retry() {
        let allowance = allowance(ROOM);
        let other = allowance.budget.try_take(ROOM).expect("there is room");
        let refused = read(Body::from("abc"), &allowance).await;
        assert_eq!(refused, Err(BodyError::Busy));
        assert_eq!(BodyError::Busy.status(), 503);
        drop(other);
        let whole = read(Body::from("abc"), &allowance).await;
        assert_eq!(whole, Ok(Bytes::from_static(b"abc")));
    }

    #[tokio::test]
    async fn a_slow_body_does_not_block_others_and_is_cut_off() {
        let allowance = allowance(ROOM);
        let begun = stream::iter([Ok::<_, Infallible>(Bytes::from_static(b"x"))]);
        let announced = AnnouncedBody {
            length: ROOM as u64,
            inner: Body::from_stream(begun.chain(stream::pending())),
        };
        let slow = read(Body::new(announced), &allowance);
        let quick = async {
            let long_enough = Duration::from_secs(5);
            let room = allowance.budget.take_within(ROOM / 2, long_enough).await;
            room.map(|_| allowance.budget.held())
        };
        let (slow, quick) = tokio::join!(slow, quick);
        assert_eq!(slow, Err(BodyError::Slow));
        assert!(quick.expect("there was room before the slow one ended") > ROOM / 2);
        assert_eq!(allowance.budget.held(), 0);
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
