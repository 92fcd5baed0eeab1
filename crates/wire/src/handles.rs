//! Where a server names resources: the one list of the members in which it says a URI that a host may read later.
//! Text is never searched. A URI is changed by a prefix behind its opening quote, so taking the prefix away again
//! gives the server's bytes.

use bytes::Bytes;

use crate::escape::{key_is, quote};
use crate::frame::{Frame, FrameKind};
use crate::json::{Json, JsonKind};
use crate::message::methods;
use crate::stateless::INPUT_REQUESTS;

/// How deep content blocks and results are searched inside others: a tool's result inside a message, and the
/// result of a task inside its status.
const MAX_NESTING: usize = 4;

/// Members of `_meta` that name the resource of a user interface.
const UI_MEMBERS: [&str; 2] = ["ui/resourceUri", "openai/outputTemplate"];

/// The URIs that a server names in a message, as its string literals.
pub fn uris(frame: &Frame) -> Vec<Json<'_>> {
    let mut found = Found(Vec::new());
    match frame.kind() {
        FrameKind::Result => {
            let result = frame.result();
            // Most results name none, and are not read a second time to find that out.
            if let Some(result) = result.filter(|_| frame.outline().may_name_uris) {
                found.in_result(result, MAX_NESTING);
            }
        }
        FrameKind::Request | FrameKind::Notification => found.in_message(frame),
        FrameKind::Error => {}
    }
    found.0
}

/// The URIs that a tool's descriptor names.
pub fn uris_of_tool(descriptor: Json<'_>) -> Vec<Json<'_>> {
    let mut found = Found(Vec::new());
    for meta in members(descriptor, "_meta") {
        found.in_meta(meta);
    }
    found.0
}

/// `text` with a prefix in front of the content of some of its string literals. A prefix must need no escape.
pub fn prefixed(text: &Bytes, changes: &[(Json<'_>, String)]) -> Bytes {
    let mut changes: Vec<(usize, &str)> = changes
        .iter()
        .map(|(literal, prefix)| {
            let start = literal.bytes().as_ptr() as usize - text.as_ptr() as usize;
            // Behind the quote.
            (start + 1, prefix.as_str())
        })
        .collect();
    changes.sort_unstable_by_key(|(at, _)| *at);
    let added: usize = changes.iter().map(|(_, prefix)| prefix.len()).sum();
    let mut out = Vec::with_capacity(text.len() + added);
    let mut copied = 0;
    for (at, prefix) in changes {
        debug_assert_eq!(quote(prefix).len(), prefix.len() + 2);
        out.extend_from_slice(&text[copied..at]);
        out.extend_from_slice(prefix.as_bytes());
        copied = at;
    }
    out.extend_from_slice(&text[copied..]);
    out.into()
}

/// The literals that were found.
struct Found<'a>(Vec<Json<'a>>);

impl<'a> Found<'a> {
    fn in_message(&mut self, frame: &'a Frame) {
        let Some(params) = frame.params() else { return };
        if frame.method() == Some(methods::SAMPLING) {
            self.in_params(params);
        }
    }

    fn in_result(&mut self, result: Json<'a>, nesting: usize) {
        let Some(nesting) = nesting.checked_sub(1) else {
            return;
        };
        // All members, not the last of equal ones: a host may read another one than this gateway would.
        for (key, value) in result.members() {
            let is = |name| key_is(key.bytes(), name);
            if is("content") {
                self.in_content(value, nesting);
            } else if is("messages") {
                self.in_messages(value, nesting);
            } else if is("contents") {
                for contents in value.elements() {
                    self.uri_of(contents);
                }
            } else if is("result") {
                self.in_result(value, nesting);
            } else if is(INPUT_REQUESTS) {
                for (_, question) in value.members() {
                    for params in members(question, "params") {
                        self.in_params(params);
                    }
                }
            } else if is("_meta") {
                self.in_meta(value);
            }
        }
    }

    fn in_params(&mut self, params: Json<'a>) {
        for messages in members(params, "messages") {
            self.in_messages(messages, MAX_NESTING);
        }
    }

    fn in_messages(&mut self, messages: Json<'a>, nesting: usize) {
        for message in messages.elements() {
            for content in members(message, "content") {
                self.in_content(content, nesting);
            }
        }
    }

    /// One block, or an array of blocks.
    fn in_content(&mut self, content: Json<'a>, nesting: usize) {
        match content.kind() {
            JsonKind::Array => content
                .elements()
                .for_each(|one| self.in_block(one, nesting)),
            JsonKind::Object => self.in_block(content, nesting),
            JsonKind::Null | JsonKind::Bool | JsonKind::Number | JsonKind::String => {}
        }
    }

    fn in_block(&mut self, block: Json<'a>, nesting: usize) {
        let Some(nesting) = nesting.checked_sub(1) else {
            return;
        };
        for kind in members(block, "type") {
            match kind.as_str().as_deref() {
                Some("resource_link") => self.uri_of(block),
                Some("resource") => {
                    members(block, "resource").for_each(|embedded| self.uri_of(embedded));
                }
                Some("tool_result") => {
                    members(block, "content").for_each(|inner| self.in_content(inner, nesting));
                }
                Some(_) | None => {}
            }
        }
    }

    fn in_meta(&mut self, meta: Json<'a>) {
        for (key, value) in meta.members() {
            if key_is(key.bytes(), "ui") {
                members(value, "resourceUri").for_each(|uri| self.add(uri));
            } else if UI_MEMBERS.iter().any(|name| key_is(key.bytes(), name)) {
                self.add(value);
            }
        }
    }

    fn uri_of(&mut self, object: Json<'a>) {
        members(object, "uri").for_each(|uri| self.add(uri));
    }

    fn add(&mut self, literal: Json<'a>) {
        let is_known = |known: &Json<'a>| std::ptr::eq(known.bytes(), literal.bytes());
        // A block with two equal types is visited twice.
        if literal.kind() == JsonKind::String && !self.0.iter().rev().take(4).any(is_known) {
            self.0.push(literal);
        }
    }
}

/// The values of all members with this key.
fn members<'a>(object: Json<'a>, key: &'static str) -> impl Iterator<Item = Json<'a>> {
    let named = object.members();
    named.filter_map(move |(name, value)| key_is(name.bytes(), key).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::Strictness;

    fn frame(text: &str) -> Frame {
        Frame::parse(text.to_owned().into(), Strictness::Envelope).expect("a valid message")
    }

    fn reply(result: &str) -> Frame {
        frame(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#))
    }

    fn told(frame: &Frame) -> Vec<String> {
        let uris = uris(frame).into_iter();
        uris.map(|uri| uri.as_str().expect("a string").into_owned())
            .collect()
    }

    #[test]
    fn only_structured_members_name_resources() {
        let cases: [(&str, &[&str]); 14] = [
            (
                r#"{"content":[{"type":"resource_link","uri":"a:1"},{"type":"text","text":"a:2","uri":"a:3"}]}"#,
                &["a:1"],
            ),
            (
                r#"{"content":[{"type":"resource","resource":{"uri":"a:1","text":"uri"}}]}"#,
                &["a:1"],
            ),
            (
                r#"{"contents":[{"uri":"a:1"},{"uri":"a:2"},{"uri":7}]}"#,
                &["a:1", "a:2"],
            ),
            (
                r#"{"messages":[{"content":{"type":"resource_link","uri":"a:1"}},{"content":[{"type":"resource_link","uri":"a:2"}]}]}"#,
                &["a:1", "a:2"],
            ),
            (r#"{"_meta":{"ui":{"resourceUri":"ui://1"}}}"#, &["ui://1"]),
            (r#"{"_meta":{"ui/resourceUri":"ui://1"}}"#, &["ui://1"]),
            (r#"{"structuredContent":{"uri":"a:1"},"uri":"a:2"}"#, &[]),
            (r#"{"result":{"contents":[{"uri":"a:1"}]}}"#, &["a:1"]),
            (
                r#"{"resultType":"input_required","inputRequests":{"q":{"method":"sampling/createMessage","params":{"messages":[{"content":{"type":"resource_link","uri":"a:1"}}]}}}}"#,
                &["a:1"],
            ),
            (
                r#"{"content":[{"type":"tool_result","content":[{"type":"resource_link","uri":"a:1"}]}]}"#,
                &["a:1"],
            ),
            // Escapes hide nothing, nor do repeated members.
            (
                r#"{"content":[{"type":"resource\u005flink","\u0075ri":"a:1"}]}"#,
                &["a:1"],
            ),
            (
                r#"{"content":[{"type":"text","type":"resource_link","type":"resource_link","uri":"a:1","uri":"a:2"}]}"#,
                &["a:1", "a:2"],
            ),
            (
                r#"{"content":[{"type":"resource_link","uri":"a:1"}],"content":[]}"#,
                &["a:1"],
            ),
            (r#"{"content":[]}"#, &[]),
        ];
        for (result, expected) in cases {
            assert_eq!(told(&reply(result)), expected, "{result}");
        }
        let sampling = r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[{"content":{"type":"resource_link","uri":"a:1"}}]}}"#;
        assert_eq!(told(&frame(sampling)), ["a:1"]);
        let other = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"messages":[{"content":{"type":"resource_link","uri":"a:1"}}]}}"#;
        assert_eq!(told(&frame(other)), [""; 0]);
    }

    #[test]
    fn a_prefix_leaves_every_other_byte() {
        let said = reply(
            r#"{ "content" :[{"type":"resource_link","uri":"a:\/\/1","n":1.0},{"type":"resource_link","uri":"b:2"}] }"#,
        );
        let uris = uris(&said);
        let changes: Vec<_> = uris
            .iter()
            .rev()
            .map(|uri| (*uri, "x/".to_owned()))
            .collect();
        assert_eq!(
            prefixed(said.bytes(), &changes),
            r#"{"jsonrpc":"2.0","id":1,"result":{ "content" :[{"type":"resource_link","uri":"x/a:\/\/1","n":1.0},{"type":"resource_link","uri":"x/b:2"}] }}"#
        );
        assert_eq!(prefixed(said.bytes(), &[]), said.bytes());
    }

    #[test]
    fn a_tool_names_the_resource_of_its_user_interface() {
        let tool = r#"{"name":"t","_meta":{"ui":{"resourceUri":"ui://1"},"openai/outputTemplate":"ui://2","uri":"ui://3"}}"#;
        let json = Json::validate(tool.as_bytes(), Strictness::Full).expect("valid");
        let named: Vec<_> = uris_of_tool(json).iter().map(|uri| uri.as_text()).collect();
        assert_eq!(named, [r#""ui://1""#, r#""ui://2""#]);
    }
}
