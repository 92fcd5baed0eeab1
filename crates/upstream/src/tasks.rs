//! Tasks of 2025-11-25, and those of the extension of 2026-07-28. Two servers may use the same id, so hosts see each task under an id that names its
//! server. In messages only these ids are changed.
//!
//! A task belongs to the token whose call made it ([`TaskOwners`]). To all others it does not exist.

mod owners;

use callgate_call::Reply;
use callgate_gate::{Call, ServerName, Target, shown_task};
use callgate_wire::{
    Edit, Era, Frame, Strictness, methods, quote,
    stateless::{RESULT_TYPE, TASK},
};

pub(crate) use owners::{TaskMaker, TaskOwners};

use crate::outgoing::with_member;

/// The `_meta` key under which a message names its task.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Where the reply to a call carries a task's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskIdLocation {
    /// In the task that the call created.
    Created,
    /// In the result itself, if that is a task: the server decides whether to make one.
    Decided,
    /// In the requested task.
    Task,
    /// In the reply's `_meta`.
    Related,
    /// In each task of a list.
    Listed,
}

impl TaskIdLocation {
    /// `None` for calls that have nothing to do with tasks.
    pub(crate) fn by_reply_to(call: &Call) -> Option<Self> {
        match &call.target {
            Target::Tool(_) => match call.attempt.host.era {
                Era::Handshake => call.attempt.frame.param("task").map(|_| Self::Created),
                Era::Stateless => Some(Self::Decided),
            },
            Target::Method { method, .. } => match method.as_str() {
                methods::TASKS_RESULT => Some(Self::Related),
                methods::TASKS_LIST => Some(Self::Listed),
                other => other.starts_with("tasks/").then_some(Self::Task),
            },
            Target::Prompt(_) | Target::Resource(_) | Target::Completion(_) => None,
        }
    }

    /// The reply with the ids that hosts see.
    pub(crate) fn shown(self, reply: Reply, server: &ServerName) -> Reply {
        if self == Self::Decided && !is_task(&reply.frame) {
            return reply;
        }
        let Reply { frame, era } = reply;
        let edit = related(frame.edit(), &frame, server);
        let edit = match self {
            Self::Created => {
                let task = frame.result_member("task");
                let id = task.and_then(|task| task.get("taskId")?.as_str());
                let shown = task
                    .zip(id)
                    .and_then(|(task, id)| with_member(task, "taskId", &shown_task(server, &id)));
                match shown {
                    Some(task) => edit.set_result_member("task", &task),
                    None => edit,
                }
            }
            Self::Task | Self::Decided => {
                match frame.result_member("taskId").and_then(|id| id.as_str()) {
                    Some(id) => edit.set_result_member("taskId", &quote(&shown_task(server, &id))),
                    None => edit,
                }
            }
            // The door merges the lists of several servers, and translates their ids there.
            Self::Related | Self::Listed => edit,
        };
        let frame = parsed(edit, &frame);
        Reply { frame, era }
    }

    /// The reply of a single server, whose ids stay as they are; a list is reduced to the caller's own tasks.
    pub(crate) fn own(self, reply: Reply, maker: &TaskMaker) -> Reply {
        match self {
            Self::Created | Self::Decided | Self::Task | Self::Related => reply,
            Self::Listed => {
                let Reply { frame, era } = reply;
                let Some(tasks) = frame.result_member("tasks") else {
                    return Reply { frame, era };
                };
                let is_own = |id: &str| maker.owns(id);
                // One process may serve several tokens, and a list would show them each other's tasks.
                let own = tasks.elements().filter(|task| {
                    let id = task.get("taskId").and_then(|id| id.as_str());
                    id.is_some_and(|id| is_own(&id))
                });
                let own: Vec<&str> = own.map(|task| task.as_text()).collect();
                let listed = format!("[{}]", own.join(","));
                let frame = parsed(frame.edit().set_result_member("tasks", &listed), &frame);
                Reply { frame, era }
            }
        }
    }
}

/// Whether a result is a task in place of what was requested.
fn is_task(reply: &Frame) -> bool {
    let kind = reply.result_member(RESULT_TYPE);
    kind.is_some_and(|kind| kind.as_str().as_deref() == Some(TASK))
}

/// A server's message about a task with the ids that hosts see: a status notification, or any message
/// related to a task.
pub(crate) fn shown(frame: Frame, server: &ServerName) -> Frame {
    let is_status = frame.method() == Some(methods::TASK_STATUS);
    if !is_status && frame.meta(RELATED).is_none() {
        return frame;
    }
    let mut edit = related(frame.edit(), &frame, server);
    let id = frame.param("taskId").and_then(|id| id.as_str());
    if let Some(id) = id.filter(|_| is_status) {
        edit = edit.param("taskId", &quote(&shown_task(server, &id)));
    }
    parsed(edit, &frame)
}

/// A host's answer related to a task, with the server's own id.
pub(crate) fn own(frame: Frame, server: &ServerName) -> Frame {
    let own = frame.meta(RELATED).and_then(|task| {
        let shown = task.get("taskId")?.as_str()?;
        let own = shown.strip_prefix(&shown_task(server, ""))?;
        with_member(task, "taskId", own)
    });
    match own {
        Some(task) => parsed(frame.edit().meta(RELATED, &task), &frame),
        None => frame,
    }
}

fn related<'f>(edit: Edit<'f>, frame: &Frame, server: &ServerName) -> Edit<'f> {
    let shown = frame.meta(RELATED).and_then(|task| {
        let id = task.get("taskId")?.as_str()?;
        with_member(task, "taskId", &shown_task(server, &id))
    });
    match shown {
        Some(task) => edit.meta(RELATED, &task),
        None => edit,
    }
}

fn parsed(edit: Edit<'_>, frame: &Frame) -> Frame {
    // Edits keep a frame valid, so the fallback is never taken.
    Frame::parse(edit.finish(), Strictness::Envelope).unwrap_or_else(|_| frame.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(text: &str) -> Frame {
        Frame::parse(text.to_owned().into(), Strictness::Full).unwrap()
    }

    #[test]
    fn only_task_ids_are_rewritten() {
        let server = ServerName::new("s").unwrap();
        let cases = [
            (
                TaskIdLocation::Created,
                r#"{"jsonrpc":"2.0","id":1,"result":{"task":{ "taskId" : "t" , "n":1.0},"x":-0}}"#,
                r#"{"jsonrpc":"2.0","id":1,"result":{"task":{ "taskId" : "s:t" , "n":1.0},"x":-0}}"#,
            ),
            (
                TaskIdLocation::Task,
                r#"{"jsonrpc":"2.0","id":1,"result":{"taskId":"\u0074","status":"working"}}"#,
                r#"{"jsonrpc":"2.0","id":1,"result":{"taskId":"s:t","status":"working"}}"#,
            ),
            (
                TaskIdLocation::Decided,
                r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"t","ttlMs":1.0}}"#,
                r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"s:t","ttlMs":1.0}}"#,
            ),
            (
                TaskIdLocation::Decided,
                r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","taskId":"t"}}"#,
                r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","taskId":"t"}}"#,
            ),
            (
                TaskIdLocation::Related,
                r#"{"jsonrpc":"2.0","id":1,"result":{"taskId":"t","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}}"#,
                r#"{"jsonrpc":"2.0","id":1,"result":{"taskId":"t","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"s:t"}}}}"#,
            ),
            (
                TaskIdLocation::Created,
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#,
                r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#,
            ),
        ];
        for (carried, said, heard) in cases {
            let said = Reply {
                frame: frame(said),
                era: Era::Handshake,
            };
            assert_eq!(carried.shown(said, &server).frame.bytes(), heard);
        }
        let asked = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}}"#;
        let shown_to_host = shown(frame(asked), &server);
        assert!(shown_to_host.bytes().ends_with(br#"{"taskId":"s:t"}}}}"#));
        let answered = r#"{"jsonrpc":"2.0","id":1,"result":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"s:t"}}}}"#;
        assert!(
            own(frame(answered), &server)
                .bytes()
                .ends_with(br#"{"taskId":"t"}}}}"#)
        );
    }
}
