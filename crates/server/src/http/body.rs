//! The body of a request, up to a limit.
//!
//! A client that is still writing when it is refused mostly sees a broken connection and never
//! the refusal. So what comes over the limit is read for a while, and thrown away, before that.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::BodyExt;

/// How much over the limit is thrown away; who sends more may see a broken connection.
const THROWN_AWAY_BYTES: usize = 64 * 1024 * 1024;
/// How long throwing away may take.
const THROWN_AWAY_WITHIN: Duration = Duration::from_secs(5);

/// Why there is no body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BodyError {
    /// It is over the limit.
    #[error("the body is over the limit (`limits.http_mib`)")]
    TooLarge,
    /// The client stopped in the middle of it.
    #[error("the body ended early")]
    Broken,
}

impl BodyError {
    /// The HTTP status that says so.
    pub(super) fn status(self) -> u16 {
        match self {
            BodyError::TooLarge => 413,
            BodyError::Broken => 400,
        }
    }
}

/// Reads a whole body of at most `limit` bytes.
pub(super) async fn read(mut body: Body, limit: usize) -> Result<Bytes, BodyError> {
    let mut chunks: Vec<Bytes> = Vec::new();
    let mut bytes = 0;
    while let Some(chunk) = next(&mut body).await? {
        bytes += chunk.len();
        if bytes > limit {
            let thrown_away = throw_away(&mut body);
            // Whether all of it came or the time was up, the refusal follows.
            let _ = tokio::time::timeout(THROWN_AWAY_WITHIN, thrown_away).await;
            return Err(BodyError::TooLarge);
        }
        chunks.push(chunk);
    }
    Ok(match chunks.len() {
        // The usual body comes in one piece and is not copied.
        0 | 1 => chunks.pop().unwrap_or_default(),
        _ => chunks.concat().into(),
    })
}

async fn throw_away(body: &mut Body) {
    let mut bytes = 0;
    while let Ok(Some(chunk)) = next(body).await {
        bytes += chunk.len();
        if bytes > THROWN_AWAY_BYTES {
            return;
        }
    }
}

/// The next piece of data; trailers are skipped.
async fn next(body: &mut Body) -> Result<Option<Bytes>, BodyError> {
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BodyError::Broken)?;
        if let Ok(data) = frame.into_data() {
            return Ok(Some(data));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::{FutureExt, stream};

    use super::*;

    fn read_now(pieces: &'static [&'static str], limit: usize) -> Result<Bytes, BodyError> {
        let pieces = pieces.iter().map(|piece| Ok::<_, Infallible>(*piece));
        let body = Body::from_stream(stream::iter(pieces));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        runtime
            .block_on(async { read(body, limit).now_or_never() })
            .expect("all of it is there")
    }

    #[test]
    fn a_body_is_put_together_up_to_the_limit() {
        assert_eq!(read_now(&[], 0), Ok(Bytes::new()));
        assert_eq!(read_now(&["abc"], 3), Ok(Bytes::from_static(b"abc")));
        assert_eq!(
            read_now(&["ab", "", "c"], 3),
            Ok(Bytes::from_static(b"abc"))
        );
        assert_eq!(read_now(&["ab", "cd"], 3), Err(BodyError::TooLarge));
        assert_eq!(read_now(&["abcd", "e"], 3), Err(BodyError::TooLarge));
    }
}
