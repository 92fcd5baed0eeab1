//! The caller of calls that are made for a step without its agent's program.

use bytes::Bytes;
use callgate_call::{AskFailed, Caller};
use callgate_wire::Frame;
use futures_util::future::BoxFuture;

/// Ignores progress and cannot answer a server's questions.
#[derive(Debug)]
pub(crate) struct Unattended;

impl Caller for Unattended {
    fn notify(&self, _notification: Bytes) {}

    fn ask(&self, _request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async { Err(AskFailed::NoWay) })
    }
}
