//! inspect: what is looked at in a reply before it goes to the host. Replies are never changed
//! here; they are only read for how the call ended.

use callgate_record::{Failed, Status};
use callgate_wire::{FrameKind, Json, RpcError};

use crate::{Reply, events::calls::CallError};

/// What is said about a result with `isError`.
const TOOL_ERROR: &str = "the tool reported an error";

/// How a reply reads: what the record and the log say about it.
#[derive(Debug)]
pub(crate) struct Inspected {
    pub(crate) status: Status,
    pub(crate) error: Option<Failed>,
    /// The same without the server's own words, which may repeat arguments.
    pub(crate) told: Option<CallError>,
    /// Characters of the result's text blocks, for the log line.
    pub(crate) text_length: usize,
}

/// Reads a reply.
pub(crate) fn inspect(reply: &Reply) -> Inspected {
    match reply.frame.kind() {
        FrameKind::Error => {
            let error = reply.frame.error().map(failed);
            let code = error.as_ref().map_or(0, |error| error.code);
            Inspected {
                status: Status::Error,
                error,
                told: Some(CallError {
                    code: "RPC_ERROR",
                    message: format!("the server answered with error {code}"),
                }),
                text_length: 0,
            }
        }
        FrameKind::Result | FrameKind::Request | FrameKind::Notification => {
            let flag = reply.frame.result_member("isError");
            let is_error = flag.and_then(|flag| flag.as_bool()) == Some(true);
            Inspected {
                status: if is_error {
                    Status::Error
                } else {
                    Status::Success
                },
                error: is_error.then(|| Failed {
                    code: 0,
                    message: TOOL_ERROR.to_owned(),
                }),
                told: is_error.then(|| CallError {
                    code: "TOOL_ERROR",
                    message: TOOL_ERROR.to_owned(),
                }),
                text_length: reply
                    .frame
                    .result_member("content")
                    .map_or(0, |content| content.chars_under("text")),
            }
        }
    }
}

/// The error of a reply as the record has it.
pub(crate) fn failed(error: Json<'_>) -> Failed {
    let RpcError { code, message, .. } = RpcError::read(error);
    Failed { code, message }
}
