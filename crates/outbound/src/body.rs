//! Reading a body whole, within a limit.

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::Body;

use crate::{Answered, HttpFailed};

/// Reads a whole body; `None` when it is over the limit.
pub async fn read_body<D>(mut body: Answered<D>, limit: usize) -> Result<Option<Bytes>, HttpFailed>
where
    D: Buf + Send + 'static,
{
    let mut pieces: Vec<Bytes> = Vec::new();
    let mut length = 0;
    // A body that says how long it is needs no further turn of its connection to end.
    while !body.is_end_stream()
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(|error| HttpFailed::Broke(error.to_string()))?;
        let Ok(data) = frame.into_data() else {
            continue;
        };
        length += data.len();
        if length > limit {
            return Ok(None);
        }
        pieces.push(data);
    }
    Ok(Some(match pieces.len() {
        0 | 1 => pieces.pop().unwrap_or_default(),
        _ => pieces.concat().into(),
    }))
}
