//! inspect: reads how a call ended from its reply. It never changes a reply.

use callgate_record::{Failed, Status};
use callgate_wire::{FrameKind, Json, RpcError};

use crate::{Reply, events::calls::CallError};

/// The error of a result with `isError`.
const TOOL_ERROR: &str = "the tool reported an error";

/// What the record and the log need to know about a reply.
#[derive(Debug)]
pub(crate) struct Inspected {
    pub(crate) status: Status,
    pub(crate) error: Option<Failed>,
    /// The error without the server's own words, which may repeat arguments.
    pub(crate) safe_error: Option<CallError>,
    /// Characters of the result's text blocks, for the log line.
    pub(crate) text_length: usize,
}

pub(crate) fn inspect(reply: &Reply) -> Inspected {
    match reply.frame.kind() {
        FrameKind::Error => {
            let error = reply.frame.error().map(failed);
            let code = error.as_ref().map_or(0, |error| error.code);
            Inspected {
                status: Status::Error,
                error,
                safe_error: Some(CallError {
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
                // Not the result's text, which can be long and is stored as the response anyway.
                error: is_error.then(|| Failed {
                    code: 0,
                    message: TOOL_ERROR.to_owned(),
                }),
                safe_error: is_error.then(|| CallError {
                    code: "TOOL_ERROR",
                    message: TOOL_ERROR.to_owned(),
                }),
                text_length: reply.frame.count_result_chars("content", "text"),
            }
        }
    }
}

/// The error of a reply, for the record.
pub(crate) fn failed(error: Json<'_>) -> Failed {
    let RpcError { code, message, .. } = RpcError::read(error);
    Failed { code, message }
}
