//! Reading a body whole, within a limit.

use bytes::{Buf, Bytes};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::{Answered, HttpFailed};

/// Reads a whole body; `None` when it is over the limit.
pub async fn read_body<D>(body: Answered<D>, limit: usize) -> Result<Option<Bytes>, HttpFailed>
where
    D: Buf + Send + 'static,
{
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(Some(collected.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Ok(None),
        Err(error) => Err(HttpFailed::Broke(error.to_string())),
    }
}
