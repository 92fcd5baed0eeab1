//! Assembles an answer, from deltas of text and of tool calls that are split anywhere or from one body. An answer that is
//! ambiguous or incomplete is an error, never a guess.

use callgate_wire::sse::Decoder;
use serde_json::Value;

use super::{Answer, ToolCall};

/// The largest event. Most carry a few tokens.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;
const DONE: &[u8] = b"[DONE]";

/// An answer during its stream.
#[derive(Debug)]
pub(super) struct Assembly {
    decoder: Decoder,
    answer: Answer,
    calls: Vec<PartialCall>,
    /// Whether the stream ended with `[DONE]`.
    ended: bool,
}

/// A tool call during the stream.
#[derive(Debug, Default)]
struct PartialCall {
    /// The call's index; `None` if the server sends none.
    index: Option<u64>,
    call: ToolCall,
}

impl Assembly {
    pub(super) fn new() -> Self {
        Self {
            decoder: Decoder::new(MAX_EVENT_BYTES),
            answer: Answer::default(),
            calls: Vec::new(),
            ended: false,
        }
    }

    /// Adds bytes of the stream.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.decoder
            .push(bytes)
            .map_err(|error| error.to_string())?;
        while let Some(event) = self.decoder.next_event() {
            if event.data == DONE {
                self.ended = true;
                continue;
            }
            let chunk: Value = serde_json::from_slice(&event.data)
                .map_err(|error| format!("an event of the stream is not valid JSON: {error}"))?;
            self.chunk(&chunk)?;
        }
        Ok(())
    }

    /// The complete answer, after the end of the stream.
    pub(super) fn finish(mut self) -> Result<Answer, String> {
        // The last event may lack the empty line that ends it.
        self.push(b"\n\n")?;
        if !self.ended && self.answer.finish_reason.is_none() {
            return Err("the stream broke off before its end".to_owned());
        }
        self.calls
            .sort_by_key(|piece| piece.index.unwrap_or(u64::MAX));
        let calls = std::mem::take(&mut self.calls).into_iter().enumerate();
        for (at, PartialCall { mut call, .. }) in calls {
            if call.name.is_empty() {
                return Err("the stream has a call without a name".to_owned());
            }
            if call.id.is_empty() {
                call.id = format!("call_{at}");
            }
            self.answer.calls.push(call);
        }
        Ok(self.answer)
    }

    fn chunk(&mut self, chunk: &Value) -> Result<(), String> {
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(error_text(error));
        }
        usage(&mut self.answer, chunk);
        let Some(choice) = first_choice(chunk) else {
            return Ok(());
        };
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.answer.finish_reason = Some(reason.to_owned());
        }
        // Some servers send the whole message instead of a delta in a stream of one event.
        let delta = match choice.get("delta") {
            Some(delta) if !delta.is_null() => delta,
            Some(_) | None => &choice["message"],
        };
        content(&mut self.answer, delta);
        let calls = delta["tool_calls"].as_array();
        calls
            .into_iter()
            .flatten()
            .for_each(|call| self.piece(call));
        if let Some(function) = function_call(delta) {
            self.function_piece(function);
        }
        Ok(())
    }

    /// A delta of the deprecated `function_call`, of which an answer has at most one.
    fn function_piece(&mut self, function: &Value) {
        let at = self.calls.iter().position(|piece| piece.call.is_function);
        let at = at.unwrap_or_else(|| {
            self.calls.push(PartialCall::default());
            self.calls.len() - 1
        });
        let call = &mut self.calls[at].call;
        call.is_function = true;
        add(call, function);
    }

    fn piece(&mut self, piece: &Value) {
        let index = piece["index"].as_u64();
        let id = piece["id"].as_str().unwrap_or_default();
        let name = piece.pointer("/function/name").and_then(Value::as_str);
        let name = name.unwrap_or_default();
        let at = self.place(index, id, name);
        let call = &mut self.calls[at].call;
        if call.id.is_empty() {
            call.id = id.to_owned();
        }
        add(call, &piece["function"]);
    }

    /// The call that a delta belongs to: by its index, else by its id, else the last call. A delta with a new id or name
    /// starts another call.
    fn place(&mut self, index: Option<u64>, id: &str, name: &str) -> usize {
        let by_index = |piece: &PartialCall| index.is_some() && piece.index == index;
        let by_id = |piece: &PartialCall| !id.is_empty() && piece.call.id == id;
        let found = self.calls.iter().position(by_index);
        let found = found.or_else(|| match index {
            None => self.calls.iter().position(by_id),
            Some(_) => None,
        });
        let continues = index.is_none() && id.is_empty() && name.is_empty();
        let found = found.or_else(|| continues.then(|| self.calls.len().checked_sub(1)).flatten());
        found.unwrap_or_else(|| {
            self.calls.push(PartialCall {
                index,
                call: ToolCall::default(),
            });
            self.calls.len() - 1
        })
    }
}

/// Parses an answer that was not streamed.
pub(super) fn whole(body: &[u8]) -> Result<Answer, String> {
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| format!("the answer is not valid JSON: {error}"))?;
    if let Some(error) = value.get("error").filter(|error| !error.is_null()) {
        return Err(error_text(error));
    }
    let choice = first_choice(&value).ok_or_else(|| "the answer has no `choices`".to_owned())?;
    let mut answer = Answer {
        finish_reason: choice["finish_reason"].as_str().map(str::to_owned),
        ..Answer::default()
    };
    usage(&mut answer, &value);
    let message = &choice["message"];
    content(&mut answer, message);
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    for (at, call) in calls.enumerate() {
        let id = call["id"].as_str().filter(|id| !id.is_empty());
        let mut read = ToolCall {
            id: id.map_or_else(|| format!("call_{at}"), str::to_owned),
            ..ToolCall::default()
        };
        add(&mut read, &call["function"]);
        answer.calls.push(read);
    }
    if let Some(function) = function_call(message) {
        let mut read = ToolCall {
            id: format!("call_{}", answer.calls.len()),
            is_function: true,
            ..ToolCall::default()
        };
        add(&mut read, function);
        answer.calls.push(read);
    }
    match answer.calls.iter().any(|call| call.name.is_empty()) {
        true => Err("the answer has a call without a name".to_owned()),
        false => Ok(answer),
    }
}

/// The choice that was asked for. A server that sends several numbers them.
fn first_choice(value: &Value) -> Option<&Value> {
    let mut choices = value["choices"].as_array()?.iter();
    choices.find(|choice| choice["index"].as_u64().unwrap_or(0) == 0)
}

fn function_call(message: &Value) -> Option<&Value> {
    message
        .get("function_call")
        .filter(|function| function.is_object())
}

/// Adds the text and the refusal of a message or of a delta.
fn content(answer: &mut Answer, message: &Value) {
    match &message["content"] {
        Value::String(text) => answer.text.push_str(text),
        Value::Array(parts) => parts.iter().for_each(|part| content_part(answer, part)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {}
    }
    if let Some(refusal) = message["refusal"].as_str() {
        answer.refusal.push_str(refusal);
    }
}

/// Adds one part of a message whose content is a list. Other types, such as the model's reasoning, are not its answer.
fn content_part(answer: &mut Answer, part: &Value) {
    match (part, part["type"].as_str()) {
        (Value::String(text), _) => answer.text.push_str(text),
        (_, Some("text" | "output_text") | None) => {
            answer
                .text
                .push_str(part["text"].as_str().unwrap_or_default());
        }
        (_, Some("refusal")) => {
            answer
                .refusal
                .push_str(part["refusal"].as_str().unwrap_or_default());
        }
        (_, Some(_)) => {}
    }
}

/// Adds the name and the arguments of a function or of a piece of one.
fn add(call: &mut ToolCall, function: &Value) {
    let name = function["name"].as_str().unwrap_or_default();
    // Servers send a name once, repeat it in every delta, send what there is of it so far, or split it.
    if name.starts_with(&call.name) {
        name.clone_into(&mut call.name);
    } else {
        call.name.push_str(name);
    }
    match &function["arguments"] {
        Value::String(text) => call.arguments.push_str(text),
        Value::Null => {}
        // Some servers send an object instead of its JSON text.
        whole @ (Value::Object(_) | Value::Array(_) | Value::Bool(_) | Value::Number(_)) => {
            call.arguments = whole.to_string();
        }
    }
}

/// Token usage. Set, not added: some servers repeat the running total in every delta.
fn usage(answer: &mut Answer, value: &Value) {
    let number = |key: &str| value.pointer(key).and_then(Value::as_u64);
    if let Some(input) = number("/usage/prompt_tokens") {
        answer.input_tokens = input;
    }
    if let Some(output) = number("/usage/completion_tokens") {
        answer.output_tokens = output;
    }
}

fn error_text(error: &Value) -> String {
    let text = error["message"].as_str().or_else(|| error.as_str());
    text.map_or_else(|| error.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            is_function: false,
        }
    }

    /// A stream of deltas, ended as it should be.
    fn stream(deltas: &[&str]) -> String {
        let event = |delta: &&str| format!("data: {{\"choices\":[{{\"delta\":{delta}}}]}}\n\n");
        let events: String = deltas.iter().map(event).collect();
        format!(
            "{events}data: {{\"choices\":[{{\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\ndata: [DONE]\n\n"
        )
    }

    fn assembled(text: &str, piece: usize) -> Result<Answer, String> {
        let mut assembly = Assembly::new();
        for bytes in text.as_bytes().chunks(piece) {
            assembly.push(bytes)?;
        }
        assembly.finish()
    }

    /// Put together right however the bytes are cut.
    fn check(text: &str, calls: &[ToolCall]) {
        for piece in [1, 2, 3, 7, text.len()] {
            let answer = assembled(text, piece).unwrap();
            assert_eq!(answer.calls, calls, "{text} in pieces of {piece}");
        }
    }

    #[test]
    fn tool_calls_are_assembled_from_any_chunking() {
        let two = [
            call("a", "Read", r#"{"path":"é🦀"}"#),
            call("b", "Glob", "{}"),
        ];
        check(
            &stream(&[
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"Read","arguments":""}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":"}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"é🦀\"}"}},{"index":1,"id":"b","function":{"name":"Glob","arguments":"{}"}}]}"#,
            ]),
            &two,
        );
        // Interleaved and out of order.
        check(
            &stream(&[
                r#"{"tool_calls":[{"index":1,"id":"b","function":{"name":"Glob","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"index":0,"id":"a","function":{"name":"Read","arguments":"{\"path\":"}}]}"#,
                r#"{"tool_calls":[{"index":1,"function":{"arguments":"}"}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"é🦀\"}"}}]}"#,
            ]),
            &two,
        );
        // Without indexes: by id, and pieces without either belong to the last.
        check(
            &stream(&[
                r#"{"tool_calls":[{"id":"a","function":{"name":"Read","arguments":"{\"path\":"}}]}"#,
                r#"{"tool_calls":[{"function":{"arguments":"\"é🦀\"}"}}]}"#,
                r#"{"tool_calls":[{"id":"b","function":{"name":"Glob","arguments":"{}"}}]}"#,
            ]),
            &two,
        );
        // Without ids: they are made up. A name that is repeated is one name.
        check(
            &stream(&[
                r#"{"tool_calls":[{"index":0,"function":{"name":"Read","arguments":"{"}}]}"#,
                r#"{"tool_calls":[{"index":0,"function":{"name":"Read","arguments":"}"}}]}"#,
                r#"{"tool_calls":[{"index":1,"function":{"name":"Glob","arguments":{}}}]}"#,
            ]),
            &[call("call_0", "Read", "{}"), call("call_1", "Glob", "{}")],
        );
    }

    #[test]
    fn line_endings_and_comments_do_not_change_a_stream() {
        let plain = stream(&[r#"{"content":"a"}"#, r#"{"content":"é"}"#]);
        let text = |text: &str| assembled(text, 1).map(|answer| answer.text);
        assert_eq!(text(&plain).as_deref(), Ok("aé"));
        assert_eq!(text(&plain.replace('\n', "\r\n")).as_deref(), Ok("aé"));
        let commented = plain.replace("data:", ": keep-alive\n\ndata:");
        assert_eq!(text(&commented).as_deref(), Ok("aé"));
        let unended = plain.replace("data: [DONE]\n\n", "");
        assert_eq!(
            text(&unended).as_deref(),
            Ok("aé"),
            "a reason to stop is an end"
        );
    }

    #[test]
    fn incomplete_or_malformed_streams_are_errors() {
        let cases = [
            (
                "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
                "broke off",
            ),
            ("", "broke off"),
            (
                "data: {\"error\":{\"message\":\"overloaded\"}}\n\n",
                "overloaded",
            ),
            ("data: {\"choices\n\n", "not valid JSON"),
            (
                "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{}\"}}]}}]}\n\ndata: [DONE]\n\n",
                "without a name",
            ),
        ];
        for (text, expected) in cases {
            let error = assembled(text, 5).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn unstreamed_answers_are_read_like_streamed_ones() {
        let body = br#"{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"Read","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":4}}"#;
        let answer = whole(body).unwrap();
        assert_eq!(answer.calls, [call("call_0", "Read", "{}")]);
        assert_eq!((answer.input_tokens, answer.output_tokens), (3, 4));
        assert!(whole(b"{}").is_err() && whole(b"nonsense").is_err());
    }
}
