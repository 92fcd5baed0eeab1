//! Why a request has no response.

use std::error::Error;

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
pub enum HttpFailed {
    /// The request itself is malformed: nothing was sent.
    #[error("the request cannot be sent: {0}")]
    BadRequest(String),
    /// No connection: nothing was sent.
    #[error("cannot connect: {0}")]
    NotConnected(String),
    /// The connection broke; the server may or may not have seen the request.
    #[error("the connection broke: {0}")]
    Broke(String),
    /// The response is not HTTP.
    #[error("the answer is not HTTP: {0}")]
    NotHttp(String),
    /// The trusted certificates of the system cannot be read.
    #[error("the system's certificates cannot be read: {0}")]
    NoRoots(String),
}

/// An error and its causes, in one line.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
