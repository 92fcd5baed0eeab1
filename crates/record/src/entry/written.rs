//! Entries as JSON. The entries of a call are assembled by hand: a serializer took as long as the whole decision.

use callgate_gate::CallId;
use callgate_wire::quote_into;
use serde::Serialize;
use ulid::ULID_LEN;

use super::{Body, CallEntry, Check, Entry, Finished, Intent};

impl Entry {
    /// Appends the entry to `out` as a JSON object whose first member is its kind.
    pub fn write_json(&self, out: &mut String) -> Result<(), serde_json::Error> {
        match self {
            Self::Refused(call) => write_call(out, "refused", call),
            Self::Held(call) => write_call(out, "held", call),
            Self::Checked(call) => write_call(out, "checked", call),
            Self::Forwarding(call) => write_call(out, "forwarding", call),
            Self::Finished(finished) => write_finished(out, finished),
            Self::Opened(opened) => write_other(out, "opened", opened),
            Self::Closed {} => {
                out.push_str(r#"{"kind":"closed"}"#);
                Ok(())
            }
            Self::Unknown(unknown) => write_other(out, "unknown", unknown),
            Self::Head(head) => write_other(out, "head", head),
            Self::Checkpoint(checkpoint) => write_other(out, "checkpoint", checkpoint),
            Self::Event(event) => write_other(out, "event", event),
        }
    }
}

fn write_call(out: &mut String, kind: &str, call: &CallEntry) -> Result<(), serde_json::Error> {
    let mut object = Object::begin(out, kind);
    object.id(&call.id);
    object.word("type", call.record_type.as_str());
    object.text("source", &call.source.written());
    object.word("transport", call.transport.as_str());
    object.text("tenant", &call.tenant);
    object.text("principal", &call.principal);
    object.text("agent", &call.agent);
    if let Some(client) = &call.client {
        // The scanner checked this JSON on receipt, so it is copied without parsing.
        object.raw("client", client.get());
    }
    object.text("session_id", &call.session_id);
    object.text_if("request_id", call.request_id.as_deref());
    object.other_if("parent_id", call.parent_id.as_ref())?;
    object.text_if("server", call.server.as_deref());
    object.text_if("tool", call.tool.as_deref());
    object.body("arguments", call.arguments.as_ref());
    if let Some(decision) = call.decision {
        object.word("decision", decision.written());
    }
    object.text_if("rule", call.rule.as_deref());
    object.text_if("reason", call.reason.as_deref());
    object.checks(&call.checks);
    object.intent(call.intent.as_ref());
    object.text_if("tool_variant", call.tool_variant.as_deref());
    object.other_if("warnings", some(&call.warnings))?;
    object.other_if("approval_id", call.approval_id.as_ref())?;
    object.other_if("status", call.status.as_ref())?;
    object.other_if("error", call.error.as_ref())?;
    object.end();
    Ok(())
}

fn write_finished(out: &mut String, finished: &Finished) -> Result<(), serde_json::Error> {
    let mut object = Object::begin(out, "finished");
    object.id(&finished.id);
    object.word("status", finished.status.as_str());
    object.word("effect", finished.effect.as_str());
    object.raw("duration_us", &finished.duration_us.to_string());
    object.body("response", finished.response.as_ref());
    object.other_if("error", finished.error.as_ref())?;
    object.end();
    Ok(())
}

/// Entries that are rare.
fn write_other<T: Serialize>(
    out: &mut String,
    kind: &str,
    entry: &T,
) -> Result<(), serde_json::Error> {
    let members = serde_json::to_string(entry)?;
    Object::begin(out, kind);
    out.push(',');
    out.push_str(&members[1..]);
    Ok(())
}

fn some<T>(list: &Vec<T>) -> Option<&Vec<T>> {
    (!list.is_empty()).then_some(list)
}

/// An object that is being written.
struct Object<'o> {
    out: &'o mut String,
}

impl<'o> Object<'o> {
    fn begin(out: &'o mut String, kind: &str) -> Self {
        out.push_str(r#"{"kind":""#);
        out.push_str(kind);
        out.push('"');
        Self { out }
    }

    fn end(self) {
        self.out.push('}');
    }

    fn key(&mut self, key: &str) {
        self.out.push_str(",\"");
        self.out.push_str(key);
        self.out.push_str("\":");
    }

    fn id(&mut self, id: &CallId) {
        // A ULID has no character that needs escaping.
        self.plain("id", id.0.array_to_str(&mut [0; ULID_LEN]));
    }

    /// A fixed word, never text from outside: it is not escaped.
    fn word(&mut self, key: &str, word: &'static str) {
        self.plain(key, word);
    }

    /// Text in which there is nothing to escape.
    fn plain(&mut self, key: &str, text: &str) {
        self.key(key);
        self.out.push('"');
        self.out.push_str(text);
        self.out.push('"');
    }

    fn text(&mut self, key: &str, text: &str) {
        self.key(key);
        quote_into(text, self.out);
    }

    fn text_if(&mut self, key: &str, text: Option<&str>) {
        if let Some(text) = text {
            self.text(key, text);
        }
    }

    fn raw(&mut self, key: &str, json: &str) {
        self.key(key);
        self.out.push_str(json);
    }

    fn other<T: Serialize>(&mut self, key: &str, value: &T) -> Result<(), serde_json::Error> {
        self.key(key);
        self.out.push_str(&serde_json::to_string(value)?);
        Ok(())
    }

    fn other_if<T: Serialize>(
        &mut self,
        key: &str,
        value: Option<&T>,
    ) -> Result<(), serde_json::Error> {
        value.map_or(Ok(()), |value| self.other(key, value))
    }

    fn checks(&mut self, checks: &[Check]) {
        let [first, rest @ ..] = checks else { return };
        self.key("checks");
        self.out.push('[');
        self.check(first);
        for check in rest {
            self.out.push(',');
            self.check(check);
        }
        self.out.push(']');
    }

    fn check(&mut self, check: &Check) {
        self.out.push_str(r#"{"scope":"#);
        quote_into(&check.scope, self.out);
        self.word("decision", check.decision.written());
        self.text("rule", &check.rule);
        self.text_if("action", check.action.as_deref());
        self.text_if("command", check.command.as_deref());
        if let [first, rest @ ..] = check.paths.as_slice() {
            self.key("paths");
            self.out.push('[');
            quote_into(first, self.out);
            for path in rest {
                self.out.push(',');
                quote_into(path, self.out);
            }
            self.out.push(']');
        }
        self.text_if("domain", check.domain.as_deref());
        self.out.push('}');
    }

    fn intent(&mut self, intent: Option<&Intent>) {
        let Some(intent) = intent else { return };
        self.key("intent");
        self.out.push('{');
        let first = self.out.len();
        self.text_if("operation_type", intent.operation_type.as_deref());
        self.text_if("data_sensitivity", intent.data_sensitivity.as_deref());
        self.text_if("reason", intent.reason.as_deref());
        if intent.inferred {
            self.raw("inferred", "true");
        }
        if self.out.len() > first {
            // The comma before the first member.
            self.out.remove(first);
        }
        self.out.push('}');
    }

    fn body(&mut self, key: &str, body: Option<&Body>) {
        let Some(body) = body else { return };
        self.key(key);
        self.out.push_str(r#"{"bytes":"#);
        self.out.push_str(&body.bytes.to_string());
        self.text("blake3", &body.blake3);
        if let Some(value) = &body.value {
            self.raw("value", value.get());
        }
        self.text_if("text", body.text.as_deref());
        if body.redacted {
            self.raw("redacted", "true");
        }
        self.out.push('}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every member of an entry is written, and reads back as it was.
    #[test]
    fn written_entries_read_back() {
        let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let body = r#"{"bytes":7,"blake3":"ab","value":{"a": 1},"redacted":true}"#;
        let cut = r#"{"bytes":7,"blake3":"ab","text":"{\"a\""}"#;
        let error = r#"{"code":-1,"message":"no \"way\"\n"}"#;
        let least = format!(
            r#""id":"{id}","type":"tool_call","source":"mcp","transport":"http","tenant":"t","principal":"p\u0001","agent":"é\\","session_id":"s""#
        );
        let most = format!(
            r#"{least},"client":{{"name":"x"}},"request_id":"\"1\"","parent_id":"{id}","server":"s","tool":"t","arguments":{body},"decision":"ALLOW","rule":"r","reason":"why","checks":[{{"scope":"a","decision":"DENY","rule":"b"}},{{"scope":"c","decision":"ALLOW","rule":"d","action":"read","command":"e","paths":["/f","g"],"domain":"h"}}],"intent":{{"operation_type":"read","inferred":true}},"tool_variant":"call_tool_read","warnings":["w"],"approval_id":"ap_0123456789abcdef0123456789abcdef","status":"blocked","error":{error}"#
        );
        let finished = format!(r#""id":"{id}","status":"error","effect":"done","duration_us":5"#);
        let entries = [
            format!(r#"{{"kind":"forwarding",{least}}}"#),
            format!(r#"{{"kind":"refused",{most}}}"#),
            format!(r#"{{"kind":"held",{most}}}"#),
            format!(r#"{{"kind":"finished",{finished}}}"#),
            format!(r#"{{"kind":"finished",{finished},"response":{cut},"error":{error}}}"#),
            format!(r#"{{"kind":"unknown","id":"{id}","of":"{id}"}}"#),
            r#"{"kind":"closed"}"#.to_owned(),
        ];
        for text in entries {
            let entry = Entry::from_json(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let mut written = String::new();
            entry.write_json(&mut written).unwrap();
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(value(&written), value(&text), "{written}");
        }
    }
}
