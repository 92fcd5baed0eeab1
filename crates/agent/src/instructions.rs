//! Project instructions (`CLAUDE.md`, `AGENTS.md`, `GEMINI.md`): read as a `Read` call of the step, through the gate, and
//! handed to the agent as text. An agent that read them itself would bypass policy, and follow their imports.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use callgate_call::Received;
use callgate_gate::{BuiltinTool, Door, Source, Transport};
use callgate_wire::{Frame, Id, Json, Strictness, message};
use serde_json::json;
use ulid::Ulid;

use crate::{step::Run, unattended::Unattended};

/// Longer instructions are cut. Generous: agents themselves warn at less.
const MAX_BYTES: usize = 64 * 1024;
/// How long the call may take. A call that waits for a person takes longer, and is cancelled.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// The instructions of a work folder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    /// The work folder has no such file.
    None,
    Text {
        name: &'static str,
        text: String,
        is_cut: bool,
    },
    /// The call was denied or held, or failed.
    LeftOut { name: &'static str, why: String },
}

/// Reads the first of these files that exists in the work folder.
pub(crate) async fn read(run: &Run<'_>, names: &[&'static str]) -> Instructions {
    let workdir = &run.step.workdir;
    let exists = |name: &&&'static str| workdir.join(name).symlink_metadata().is_ok();
    let Some(name) = names.iter().find(exists).copied() else {
        return Instructions::None;
    };
    let arguments = json!({"path": name}).to_string();
    let answer = tokio::time::timeout(TIME_LIMIT, call(run, &arguments)).await;
    let answered = match answer {
        Ok(answered) => answered,
        Err(_) => {
            Err("its `Read` call was not answered in time; it may need an approval".to_owned())
        }
    };
    match answered {
        Ok(mut text) => {
            let is_cut = text.len() > MAX_BYTES;
            text.truncate(text.floor_char_boundary(MAX_BYTES));
            Instructions::Text { name, text, is_cut }
        }
        Err(why) => Instructions::LeftOut { name, why },
    }
}

/// Makes the call, in the session of the step.
async fn call(run: &Run<'_>, arguments: &str) -> Result<String, String> {
    let id = Id::string(&Ulid::generate().to_string());
    let request = message::tool_call(&id, BuiltinTool::Read.name(), arguments);
    let frame = Frame::parse(request, Strictness::Full).map_err(|error| error.to_string())?;
    let door = Door {
        source: Source::Agent,
        transport: Transport::Local,
    };
    let received = Received {
        trace: run.span.context(),
        ..Received::plain(frame, run.host(), door)
    };
    let path = run.context.gateway.path();
    let mut pending = path.start(received, Arc::new(Unattended));
    match pending.answer().await {
        Some(answer) => text(&answer.into_bytes()),
        None => Err("its `Read` call was cancelled".to_owned()),
    }
}

/// The text of an answer, or the reason of a refusal.
fn text(answer: &Bytes) -> Result<String, String> {
    let frame = Frame::parse(answer.clone(), Strictness::Envelope)
        .map_err(|_| "the answer is not valid".to_owned())?;
    if let Some(error) = frame.error() {
        let text = error.get("message").and_then(|text| text.as_str());
        return Err(text.map_or_else(
            || "no reason was given".to_owned(),
            |text| text.into_owned(),
        ));
    }
    let result = frame.result();
    let blocks = result.and_then(|result| result.get("content"));
    let blocks = blocks.into_iter().flat_map(|blocks| blocks.elements());
    let texts = blocks.filter_map(|block: Json<'_>| {
        let text = block.get("text")?.as_str()?;
        Some(text.into_owned())
    });
    let text = texts.collect::<Vec<String>>().join("\n");
    let flag = result.and_then(|result| result.get("isError")?.as_bool());
    if flag == Some(true) {
        Err(text)
    } else {
        Ok(text)
    }
}

impl Instructions {
    /// What the user is told; `None` if all is as expected.
    pub(crate) fn warning(&self) -> Option<String> {
        match self {
            Self::None | Self::Text { is_cut: false, .. } => None,
            Self::Text { name, .. } => Some(format!(
                "only the first {} KiB of `{name}` are handed to the agent",
                MAX_BYTES / 1024
            )),
            Self::LeftOut { name, why } => {
                Some(format!("`{name}` is not handed to the agent: {why}"))
            }
        }
    }

    /// What the agent is told before its task.
    pub(crate) fn preface(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::Text { name, text, is_cut } => {
                let cut = if *is_cut { ", cut off at a limit" } else { "" };
                format!("\nThe project's instructions, from its file `{name}`{cut}:\n\n{text}\n")
            }
            Self::LeftOut { name, .. } => format!(
                "\nThe project has instructions in its file `{name}`, which you are not given: reading it was refused.\n"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(json: serde_json::Value) -> Result<String, String> {
        text(&Bytes::from(json.to_string()))
    }

    #[test]
    fn answers_are_text_or_a_reason() {
        let result = |result| json!({"jsonrpc": "2.0", "id": 1, "result": result});
        let text =
            json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]});
        assert_eq!(answer(result(text)), Ok("a\nb".to_owned()));
        let refused = json!({"isError": true, "content": [{"type": "text", "text": "denied"}]});
        assert_eq!(answer(result(refused)), Err("denied".to_owned()));
        let error = json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "no"}});
        assert_eq!(answer(error), Err("no".to_owned()));
    }

    #[test]
    fn instructions_that_are_left_out_are_mentioned_to_agent_and_user() {
        let left_out = Instructions::LeftOut {
            name: "CLAUDE.md",
            why: "denied by policy".to_owned(),
        };
        assert!(left_out.preface().contains("`CLAUDE.md`"));
        assert!(!left_out.preface().contains("denied by policy"));
        let warning = left_out.warning().unwrap();
        assert_eq!(
            warning,
            "`CLAUDE.md` is not handed to the agent: denied by policy"
        );
        assert_eq!(Instructions::None.preface(), "");
        assert_eq!(Instructions::None.warning(), None);
    }
}
