//! What waits in a running gateway while its clock jumps: a call that is parked until its host answers a question, and a
//! stored result.

use std::io;

use anyhow::{Context, Result, bail, ensure};
use callgate_testkit::{HttpHost, StatelessHost};
use serde_json::{Value, json};

const VERSION: &str = "2025-11-25";
/// How long a parked call waits, in seconds.
const PARKED_S: i64 = 600;
const EXPIRED: &str = "`requestState` refused: it has expired";

/// A host of the stateless era, whose calls are parked, and one of the `search` view, which has a stored result.
pub(super) struct Waiting {
    url: String,
    bearer: String,
    searching: HttpHost,
    handle: String,
}

impl Waiting {
    pub(super) fn start(url: &str, bearer: &str) -> Result<Self> {
        let search = format!("{url}/search");
        let mut searching = HttpHost::new(&search)?.header("Authorization", bearer);
        searching.initialize(VERSION)?;
        let large = json!({"name": "n:big", "args": {"bytes": 5000}, "operation_type": "read"});
        let text = called(&mut searching, "call_tool_read", &large)?;
        let at = text.find("result_").with_context(|| text.clone())?;
        let is_of_name = |c: &char| c.is_alphanumeric() || *c == '_';
        let handle = text[at..].chars().take_while(is_of_name).collect();
        Ok(Self {
            url: url.to_owned(),
            bearer: bearer.to_owned(),
            searching,
            handle,
        })
    }

    /// Parks a call, lets the clock jump, and answers. What is over after the jump stays so when the clock is set back.
    pub(super) fn survive(
        &mut self,
        (before, now): (&str, &str),
        jump: &dyn Fn(&str) -> io::Result<()>,
    ) -> Result<()> {
        let asked = self.round(None)?;
        let state = asked["result"]["requestState"].clone();
        ensure!(state.is_string(), "the call is parked: {asked}");
        jump(now)?;
        let answer = self.round(Some(&state))?;
        if seconds(now)? - seconds(before)? > PARKED_S {
            ensure!(answer["error"]["message"] == EXPIRED, "{answer}");
            jump(before)?;
            let revived = self.round(Some(&state))?;
            let message = revived["error"]["message"].as_str().unwrap_or_default();
            let is_refused = message.starts_with("`requestState` refused");
            ensure!(is_refused, "a parked call was revived: {revived}");
            jump(now)?;
        } else {
            let text = answer["result"]["content"][0]["text"].as_str();
            ensure!(text == Some("Hello, Alice!"), "{answer}");
        }
        let page = json!({"handle": self.handle, "offset": 0, "limit": 1});
        let page = called(&mut self.searching, "read_result", &page)?;
        ensure!(page.contains("bbbb"), "a stored result is lost: {page}");
        Ok(())
    }

    /// A call of a tool that asks its user something, in its first round or in the next one.
    fn round(&self, state: Option<&Value>) -> Result<Value> {
        let mut params = json!({
            "name": "c__test_input_required_result_elicitation",
            "arguments": {},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
                "io.modelcontextprotocol/clientInfo": {"name": "clocks", "version": "1"},
            },
        });
        if let Some(state) = state {
            let alice = json!({"action": "accept", "content": {"name": "Alice"}});
            params["requestState"] = state.clone();
            params["inputResponses"] = json!({"user_name": alice});
        }
        let line = json!({"jsonrpc": "2.0", "id": "m", "method": "tools/call", "params": params});
        let line = line.to_string();
        let host = HttpHost::new(&self.url)?.header("Authorization", &self.bearer);
        let reply = StatelessHost::new(host).headed(&line)?.post(&line)?;
        let frames = reply.frames()?;
        let last = frames.last().context("a message")?;
        Ok(serde_json::from_str(last)?)
    }
}

/// The text that a tool of a view answers.
fn called(host: &mut HttpHost, tool: &str, arguments: &Value) -> Result<String> {
    let params = json!({"name": tool, "arguments": arguments});
    let line = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    host.post(&line.to_string())?.text()
}

/// The seconds of an offset like `-8d`.
fn seconds(offset: &str) -> Result<i64> {
    let (number, unit) = offset.split_at(offset.len() - 1);
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "y" => 365 * 86_400,
        other => bail!("unknown unit `{other}`"),
    };
    Ok(number.parse::<i64>()? * unit)
}
