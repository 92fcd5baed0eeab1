//! Reading a body whole, within a limit.

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::Body;

use crate::{HttpError, ResponseBody};

/// Reads a whole body; `None` when it exceeds `limit` bytes.
pub async fn read_body<D>(
    mut body: ResponseBody<D>,
    limit: usize,
) -> Result<Option<Bytes>, HttpError>
where
    D: Buf + Send + 'static,
{
    let mut pieces: Vec<Bytes> = Vec::new();
    let mut length = 0;
    // A body with a `Content-Length` has ended after its last byte. Asking for one more frame would poll the connection again.
    while !body.is_end_stream()
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(|error| HttpError::Broke(error.to_string()))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        length += data.len();
        if length > limit {
            // Dropping the unread body closes its connection, so the rest is not downloaded.
            return Ok(None);
        }
        pieces.push(data);
    }
    Ok(Some(match pieces.len() {
        0 | 1 => pieces.pop().unwrap_or_default(),
        _ => pieces.concat().into(),
    }))
}
