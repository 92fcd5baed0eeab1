//! Tasks of 2025-11-25. With several servers two may use one id, so hosts know each task by an id that
//! names its server. Where a message carries a task's id, that is all that is changed in it.
//!
//! A task belongs to the token whose call made it ([`TaskOwners`]). To all others it does not exist.

mod owners;

use callgate_call::Reply;
use callgate_gate::{Call, ServerName, Target, shown_task};
use callgate_wire::{Edit, Frame, Strictness, methods, quote};

pub(crate) use owners::{TaskMaker, TaskOwners};

use crate::outgoing::with_member;

/// The key of `_meta` under which a message names the task that it belongs to.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// Where the reply to a call carries a task's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    /// In the task that was made of the call.
    Created,
    /// In the task that was asked about.
    Task,
    /// In its `_meta`.
    Related,
    /// In each task of a list.
    Listed,
}

impl Carried {
    /// `None` for calls that have nothing to do with tasks.
    pub(crate) fn by_reply_to(call: &Call) -> Option<Self> {
        match &call.target {
            Target::Tool(_) => call.attempt.frame.param("task").map(|_| Self::Created),
            Target::Method { method, .. } => match method.as_str() {
                methods::TASKS_RESULT => Some(Self::Related),
                methods::TASKS_LIST => Some(Self::Listed),
                other => other.starts_with("tasks/").then_some(Self::Task),
            },
            Target::Prompt(_) | Target::Resource(_) | Target::Completion(_) => None,
        }
    }

    /// The reply as the host gets it.
    pub(crate) fn shown(self, reply: Reply, server: &ServerName) -> Reply {
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
            Self::Task => match frame.result_member("taskId").and_then(|id| id.as_str()) {
                Some(id) => edit.set_result_member("taskId", &quote(&shown_task(server, &id))),
                None => edit,
            },
            // Lists of several servers are put together elsewhere.
            Self::Related | Self::Listed => edit,
        };
        let frame = parsed(edit, &frame);
        Reply { frame, era }
    }

    /// The reply of a server whose ids hosts know as they are: a list has the caller's own tasks.
    pub(crate) fn own(self, reply: Reply, maker: &TaskMaker) -> Reply {
        match self {
            Self::Created | Self::Task | Self::Related => reply,
            Self::Listed => {
                let Reply { frame, era } = reply;
                let Some(tasks) = frame.result_member("tasks") else {
                    return Reply { frame, era };
                };
                let is_own = |id: &str| maker.owns(id);
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

/// What a server says of a task, as hosts get it: a notification of its state, or anything that belongs
/// to one.
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

/// A host's answer that belongs to a task, as its server gets it.
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
    // An edit of a frame is a frame.
    Frame::parse(edit.finish(), Strictness::Envelope).unwrap_or_else(|_| frame.clone())
}

#[cfg(test)]
mod tests {
    use callgate_wire::Era;

    use super::*;

    fn frame(text: &str) -> Frame {
        Frame::parse(text.to_owned().into(), Strictness::Full).unwrap()
    }

    #[test]
    fn only_task_ids_are_rewritten() {
        let server = ServerName::new("s").unwrap();
        let cases = [
            (
                Carried::Created,
                r#"{"jsonrpc":"2.0","id":1,"result":{"task":{ "taskId" : "t" , "n":1.0},"x":-0}}"#,
                r#"{"jsonrpc":"2.0","id":1,"result":{"task":{ "taskId" : "s:t" , "n":1.0},"x":-0}}"#,
            ),
            (
                Carried::Task,
                r#"{"jsonrpc":"2.0","id":1,"result":{"taskId":"\u0074","status":"working"}}"#,
                r#"{"jsonrpc":"2.0","id":1,"result":{"taskId":"s:t","status":"working"}}"#,
            ),
            (
                Carried::Related,
                r#"{"jsonrpc":"2.0","id":1,"result":{"taskId":"t","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}}}}"#,
                r#"{"jsonrpc":"2.0","id":1,"result":{"taskId":"t","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"s:t"}}}}"#,
            ),
            (
                Carried::Created,
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
