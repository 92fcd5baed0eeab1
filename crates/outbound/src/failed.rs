//! Why a request has no response.

use std::error::Error;

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The request itself is malformed: nothing was sent.
    #[error("could not send the request: {0}")]
    BadRequest(String),
    /// No connection: nothing was sent.
    #[error("could not connect: {0}")]
    NotConnected(String),
    /// The connection broke; the server may or may not have seen the request.
    #[error("the connection broke: {0}")]
    Broke(String),
    /// The response is not HTTP.
    #[error("the response is not valid HTTP: {0}")]
    NotHttp(String),
    /// The system's trusted certificates could not be loaded.
    #[error("could not load the system's certificates: {0}")]
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
