//! One record per call: what the entries about it add up to.
//!
//! Folding is pure: no clock, no files. The caller passes in whether a writer is still running.

use callgate_gate::{ApprovalId, CallId, Transport};
use callgate_wire::quote;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Body, CallEntry, Check, Decision, Effect, Entry, Event, Failed, Finished, Intent, Origin,
    RawJson, RecordType, Status, WriterId,
};

/// Everything that is known about one call, or about one thing that happened to the gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Activity {
    pub id: CallId,
    /// The writer whose chain the call began in.
    pub writer: WriterId,
    /// The number of the first entry in that chain.
    pub seq: u64,
    /// The kind of request, or the subject of an event.
    #[serde(rename = "type")]
    pub record_type: RecordType,
    /// Which kind of caller, or which local pack of a script; absent for an event.
    pub source: Option<Origin>,
    /// Absent for an event.
    pub transport: Option<Transport>,
    /// Absent for an event that concerns all tenants.
    pub tenant: Option<String>,
    /// The authenticated caller, or the approver of a decision; absent for other events.
    pub principal: Option<String>,
    /// The name that the caller gives itself; absent for an event.
    pub agent: Option<String>,
    /// `clientInfo` of the host.
    pub client: Option<RawJson>,
    /// The session; absent for an event.
    pub session_id: Option<String>,
    /// The host's own id of the request, as JSON text.
    pub request_id: Option<String>,
    /// The call that made this one.
    pub parent_id: Option<CallId>,
    /// The server it was aimed at, or that an event is about.
    pub server: Option<String>,
    /// The tool, the method of another request, or the name of an event.
    pub tool: Option<String>,
    /// The arguments, redacted: the value when it was kept whole, else the beginning as a string.
    pub arguments: Option<RawJson>,
    /// BLAKE3 of the whole arguments as they came.
    pub arguments_blake3: Option<String>,
    pub decision: Option<Decision>,
    pub rule: Option<String>,
    pub reason: Option<String>,
    /// Every check that was made.
    pub checks: Vec<Check>,
    /// The answer, redacted: the value when it was kept whole, else the beginning as a string.
    pub response: Option<RawJson>,
    /// Absent while the call is running.
    pub status: Option<Status>,
    pub error: Option<ActivityError>,
    /// From receiving the request to having the answer.
    pub duration_ms: Option<f64>,
    /// When the first entry was written.
    #[serde(with = "instant")]
    pub timestamp: Timestamp,
    pub metadata: Metadata,
}

/// The error of a call, and its known effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivityError {
    /// The JSON-RPC code, or 0 where there was none.
    pub code: i64,
    /// The message, redacted and capped.
    pub message: String,
    /// What is known about the call's effect; absent where nothing was decided yet.
    pub effect: Option<Effect>,
}

/// The rest of a record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The declared or inferred intent.
    pub intent: Option<Intent>,
    /// The `call_tool_*` variant that it came through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_variant: Option<String>,
    /// The approval that the call waited for or used up, or that was decided about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_id: Option<ApprovalId>,
    /// Notes for readers, for example that a body was cut.
    pub warnings: Vec<String>,
}

impl Activity {
    /// The record that begins with `entry`; none for entries that begin nothing.
    pub fn begin(writer: WriterId, seq: u64, at: Timestamp, entry: &Entry) -> Option<Self> {
        match entry {
            Entry::Refused(call)
            | Entry::Held(call)
            | Entry::Checked(call)
            | Entry::Forwarding(call) => Some(Self::of_call(writer, seq, at, call)),
            Entry::Event(event) => Some(Self::of_event(writer, seq, at, event)),
            Entry::Opened(_)
            | Entry::Closed {}
            | Entry::Finished(_)
            | Entry::Unknown(_)
            | Entry::Head(_)
            | Entry::Checkpoint(_) => None,
        }
    }

    /// Adds a later entry about the same call. The first end wins.
    pub fn apply(&mut self, entry: &Entry) {
        // A call can have two ends, in two chains: its own writer's, and that of the writer that closed it as unknown.
        if self.has_ended() {
            return;
        }
        match entry {
            Entry::Refused(call) | Entry::Forwarding(call) => self.decide_again(call),
            Entry::Finished(finished) => self.finish(finished),
            Entry::Unknown(_) => self.orphan(),
            Entry::Opened(_)
            | Entry::Closed {}
            | Entry::Held(_)
            | Entry::Checked(_)
            | Entry::Head(_)
            | Entry::Checkpoint(_)
            | Entry::Event(_) => {}
        }
    }

    /// Marks a running call of a dead writer: its outcome will not be seen.
    pub fn orphan(&mut self) {
        // A held call is not running: it was never sent, so its outcome is not in doubt.
        if self.status.is_none() {
            self.status = Some(Status::Unknown);
        }
    }

    fn has_ended(&self) -> bool {
        match self.status {
            None | Some(Status::Pending) => false,
            Some(
                Status::Success
                | Status::Error
                | Status::Blocked
                | Status::Rejected
                | Status::Unknown
                | Status::Cancelled
                | Status::Bypassed,
            ) => true,
        }
    }

    fn of_call(writer: WriterId, seq: u64, at: Timestamp, call: &CallEntry) -> Self {
        let mut metadata = Metadata {
            intent: call.intent.clone(),
            tool_variant: call.tool_variant.clone(),
            warnings: call.warnings.clone(),
            approval_id: call.approval_id.clone(),
        };
        metadata.warnings.extend(
            call.arguments
                .as_ref()
                .and_then(|body| cut("arguments", body)),
        );
        Self {
            id: call.id,
            writer,
            seq,
            record_type: call.record_type,
            source: Some(call.source.clone()),
            transport: Some(call.transport),
            tenant: Some(call.tenant.clone()),
            principal: Some(call.principal.clone()),
            agent: Some(call.agent.clone()),
            client: call.client.clone(),
            session_id: Some(call.session_id.clone()),
            request_id: call.request_id.clone(),
            parent_id: call.parent_id,
            server: call.server.clone(),
            tool: call.tool.clone(),
            arguments: call.arguments.as_ref().and_then(shown),
            arguments_blake3: call.arguments.as_ref().map(|body| body.blake3.clone()),
            decision: call.decision,
            rule: call.rule.clone(),
            reason: call.reason.clone(),
            checks: call.checks.clone(),
            response: None,
            status: call.status,
            error: refused(call),
            duration_ms: None,
            timestamp: at,
            metadata,
        }
    }

    fn of_event(writer: WriterId, seq: u64, at: Timestamp, event: &Event) -> Self {
        Self {
            id: event.id,
            writer,
            seq,
            record_type: event.record_type,
            source: None,
            transport: None,
            tenant: event.tenant.clone(),
            principal: event.principal.clone(),
            agent: None,
            client: None,
            session_id: None,
            request_id: None,
            parent_id: None,
            server: event.server.clone(),
            tool: Some(event.name.clone()),
            arguments: None,
            arguments_blake3: None,
            decision: event.decision,
            rule: None,
            reason: event.reason.clone(),
            checks: Vec::new(),
            response: None,
            // Not none, which would list the event among running calls.
            status: Some(Status::Success),
            error: None,
            duration_ms: None,
            timestamp: at,
            metadata: Metadata {
                approval_id: event.approval_id.clone(),
                ..Metadata::default()
            },
        }
    }

    /// Takes over the last decision about a held call that was released or refused.
    fn decide_again(&mut self, call: &CallEntry) {
        self.decision = call.decision;
        self.rule.clone_from(&call.rule);
        self.reason.clone_from(&call.reason);
        self.checks.clone_from(&call.checks);
        self.status = call.status;
        self.error = refused(call);
        if call.approval_id.is_some() {
            self.metadata.approval_id.clone_from(&call.approval_id);
        }
    }

    fn finish(&mut self, finished: &Finished) {
        self.status = Some(finished.status);
        self.duration_ms = Some(finished.duration_us as f64 / 1000.0);
        self.error = finished
            .error
            .as_ref()
            .map(|error| failed(error, Some(finished.effect)));
        if let Some(body) = &finished.response {
            self.response = shown(body);
            self.metadata.warnings.extend(cut("response", body));
        }
    }
}

/// The error of a call that was not sent. Only a cancelled call states that it had no effect: the status of a refused
/// call implies it.
fn refused(call: &CallEntry) -> Option<ActivityError> {
    let effect = (call.status == Some(Status::Cancelled)).then_some(Effect::None);
    call.error.as_ref().map(|error| failed(error, effect))
}

fn failed(error: &Failed, effect: Option<Effect>) -> ActivityError {
    ActivityError {
        code: error.code,
        message: error.message.clone(),
        effect,
    }
}

fn shown(body: &Body) -> Option<RawJson> {
    match (&body.value, &body.text) {
        (Some(value), _) => Some(value.clone()),
        // A cut body is not JSON any more, so it is shown as a string.
        (None, Some(text)) => Some(RawJson::believed(quote(text))),
        (None, None) => None,
    }
}

fn cut(what: &str, body: &Body) -> Option<String> {
    let text = body.text.as_ref()?;
    Some(format!(
        "{what}: truncated to the first {} of {} bytes, stored as text",
        text.len(),
        body.bytes
    ))
}

/// Instants as RFC 3339 in UTC with microseconds, as in the log.
mod instant {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(
        at: &Timestamp,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        // Always six digits, so that sorting as text sorts by time.
        serializer.collect_str(&format_args!("{at:.6}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    const ID: &str = "01J00000000000000000000001";

    fn entry(value: serde_json::Value) -> Entry {
        Entry::from_json(&value.to_string()).unwrap()
    }

    fn call(kind: &str, status: Option<&str>) -> Entry {
        entry(json!({
            "kind": kind, "id": ID, "type": "tool_call", "source": "mcp", "transport": "stdio",
            "tenant": "local", "principal": "user", "agent": "claude", "client": {"name": "claude"},
            "session_id": "s1", "request_id": "7", "server": "github", "tool": "get", "decision": "ALLOW",
            "arguments": {"bytes": 7, "blake3": "aa", "value": {"a": 1}}, "rule": "allow:default",
            "checks": [{"scope": "mcp_tool", "decision": "ALLOW", "rule": "allow:default"}],
            "intent": {"operation_type": "read", "inferred": true}, "status": status,
        }))
    }

    fn finished(status: &str) -> Entry {
        entry(json!({
            "kind": "finished", "id": ID, "status": status, "effect": "done", "duration_us": 1500,
            "response": {"bytes": 9000, "blake3": "bb", "text": "{\"conte"},
        }))
    }

    fn begin(entry: &Entry) -> Activity {
        let writer = WriterId(ID.parse().unwrap());
        Activity::begin(
            writer,
            3,
            "2026-01-02T03:04:05.000006Z".parse().unwrap(),
            entry,
        )
        .unwrap()
    }

    #[test]
    fn a_record_has_the_promised_fields() {
        let mut activity = begin(&call("forwarding", None));
        assert_eq!(activity.status, None);
        activity.apply(&finished("success"));
        expect![[r#"{"id":"01J00000000000000000000001","writer":"01J00000000000000000000001","seq":3,"type":"tool_call","source":"mcp","transport":"stdio","tenant":"local","principal":"user","agent":"claude","client":{"name":"claude"},"session_id":"s1","request_id":"7","parent_id":null,"server":"github","tool":"get","arguments":{"a":1},"arguments_blake3":"aa","decision":"ALLOW","rule":"allow:default","reason":null,"checks":[{"scope":"mcp_tool","decision":"ALLOW","rule":"allow:default"}],"response":"{\"conte","status":"success","error":null,"duration_ms":1.5,"timestamp":"2026-01-02T03:04:05.000006Z","metadata":{"intent":{"operation_type":"read","inferred":true},"warnings":["response: truncated to the first 7 of 9000 bytes, stored as text"]}}"#]]
        .assert_eq(&serde_json::to_string(&activity).unwrap());
        let text = serde_json::to_string(&activity).unwrap();
        let back: Activity = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }

    #[test]
    fn entries_fold_into_a_status() {
        let unknown = entry(json!({"kind": "unknown", "id": ID, "of": ID}));
        let held = call("held", Some("pending"));
        let refused = call("refused", Some("rejected"));
        let forwarding = call("forwarding", None);
        let cases: [(&[&Entry], Option<Status>); 8] = [
            (&[&forwarding], None),
            (&[&forwarding, &finished("error")], Some(Status::Error)),
            (&[&forwarding, &unknown], Some(Status::Unknown)),
            (
                &[&forwarding, &finished("success"), &unknown],
                Some(Status::Success),
            ),
            (
                &[&forwarding, &unknown, &finished("success")],
                Some(Status::Unknown),
            ),
            (&[&held], Some(Status::Pending)),
            (&[&held, &refused], Some(Status::Rejected)),
            (
                &[&held, &forwarding, &finished("success")],
                Some(Status::Success),
            ),
        ];
        for (entries, expected) in cases {
            let mut activity = begin(entries[0]);
            entries[1..].iter().for_each(|entry| activity.apply(entry));
            assert_eq!(activity.status, expected, "{entries:?}");
        }
    }

    #[test]
    fn a_dead_writer_leaves_only_running_calls_unknown() {
        let mut running = begin(&call("forwarding", None));
        running.orphan();
        assert_eq!(running.status, Some(Status::Unknown));
        let mut held = begin(&call("held", Some("pending")));
        held.orphan();
        assert_eq!(held.status, Some(Status::Pending));
    }
}
