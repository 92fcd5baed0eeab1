//! Weird but legal: the literal replies of `weird-upstream`, a script of requests that draws out all
//! of them, and the comparison of what a host saw directly with what it saw through a gateway.

mod compare;
pub mod replies;
mod script;

use std::path::Path;

use anyhow::Result;

use crate::frame::Frame;
use crate::{Host, frame};

pub use compare::{Difference, Place, compare};
pub use script::{
    NOTIFICATIONS, OF_THE_HOST, common_requests, requests, requests_with_prefix,
    stateless_requests, with_host,
};

/// One request of the script and everything the host saw until its response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exchange {
    /// The name of the script's step.
    pub name: String,
    /// The raw request line.
    pub sent: String,
    /// The raw frames in order, the response last.
    pub received: Vec<String>,
}

/// Which way a logged frame went, seen from the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the host.
    Received,
    /// To the host.
    Sent,
}

/// Runs the script against a host whose handshake is done. `prefix` goes before every tool's name.
pub fn run(host: &mut dyn Host, prefix: &str) -> Result<Vec<Exchange>> {
    run_all(host, requests_with_prefix(prefix))
}

/// Makes these requests, each with its name, one after the other.
pub fn run_all(host: &mut dyn Host, requests: Vec<(&str, String)>) -> Result<Vec<Exchange>> {
    let mut exchanges = Vec::new();
    for (name, line) in requests {
        let received = host.exchange(&line, &mut answer)?;
        exchanges.push(Exchange {
            name: name.to_owned(),
            sent: line,
            received,
        });
    }
    Ok(exchanges)
}

/// The host's literal answer to a question, with unknown members and unusual numbers.
pub fn answer(question: &Frame) -> Option<String> {
    let id = question.id.as_deref()?;
    let result = match question.method.as_deref()? {
        "sampling/createMessage" => replies::SAMPLING_ANSWER,
        "elicitation/create" => replies::ELICITATION_ANSWER,
        "roots/list" => replies::ROOTS_ANSWER,
        _ => {
            return Some(format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"not here","data":{{"\u0078":1e400}}}}}}"#
            ));
        }
    };
    Some(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
    ))
}

/// The frames that `weird-upstream` wrote to its log, raw and in order.
pub fn read_log(path: &Path) -> Result<Vec<(Direction, String)>> {
    let text = std::fs::read_to_string(path)?;
    let entry = |line: &str| match line.split_at_checked(2)? {
        ("< ", raw) => Some((Direction::Received, raw.to_owned())),
        ("> ", raw) => Some((Direction::Sent, raw.to_owned())),
        _ => None,
    };
    Ok(text.split('\n').filter_map(entry).collect())
}

/// The raw `params` that `echo_raw` saw, taken from its response line.
pub fn echoed(response: &str) -> Option<String> {
    let result = Frame::parse(response)?.result?;
    let content = frame::items(frame::member(&result, "content")?)?;
    serde_json::from_str(frame::member(content.first()?, "text")?).ok()
}
