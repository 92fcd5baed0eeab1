//! The recorder: turns the call path's facts into entries, and a stored entry into the proof that it is stored.

mod checks;
mod holds;
mod native;
mod scripts;
mod watching;

use std::sync::Arc;

use callgate_gate::{Attempt, Call, CallId, DeclaredIntent, Denied, Fault, Permit, Ruling, Target};
use callgate_wire::{Json, methods};
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::{
    CallEntry, Decision, Effect, Entry, Event, Failed, Finished, Intent, Origin, Position, RawJson,
    RecordType, Redactor, Status, Store, StoreError,
};
use watching::Watched;
pub use watching::Watching;

/// Longer names and ids from hosts are cut to this length.
const MAX_NAME_CHARS: usize = 256;
/// A longer `clientInfo` is left out of the record.
const MAX_CLIENT_BYTES: usize = 2048;

/// What happens to a call whose entry cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// No record, no call.
    #[default]
    Refuse,
    /// The call goes on; its entry is written later.
    Allow,
}

/// Something that is on record. Only the recorder makes one, and it is not `Clone`.
#[derive(Debug)]
pub struct Recorded<P> {
    // Private, so that no other room can build the proof; `call/tests/compile_fail/recorded_by_literal.rs` checks it.
    permit: P,
}

impl Recorded<Permit> {
    /// The call that may be forwarded.
    pub fn call(&self) -> &Call {
        self.permit.call()
    }

    /// The rule that permits it.
    pub fn ruling(&self) -> &Ruling {
        self.permit.ruling()
    }

    /// Trades the proof for the call in it. A call cannot become a permit again, so it is forwarded once.
    pub fn into_call(self) -> Call {
        self.permit.into_call()
    }
}

/// A forwarded call whose end must still be recorded.
#[derive(Debug)]
#[must_use]
pub struct Open {
    id: CallId,
}

/// Why a call could not be recorded. Its permit is gone.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct NotRecorded(#[from] StoreError);

#[derive(Debug)]
pub struct Outcome<'a> {
    pub status: Status,
    /// Whether the call took effect, as far as the gateway can tell.
    pub effect: Effect,
    /// From receiving the request to having the answer.
    pub duration_us: u64,
    /// The raw JSON of the answer's result.
    pub response: Option<Json<'a>>,
    pub error: Option<Failed>,
}

/// Writes the record of every call.
#[derive(Debug, Clone)]
pub struct Recorder {
    store: Arc<dyn Store>,
    redactor: Arc<Redactor>,
    on_failure: OnFailure,
    watched: Arc<Watched>,
}

impl Recorder {
    pub fn new(store: Arc<dyn Store>, redactor: Redactor, on_failure: OnFailure) -> Self {
        Self {
            store,
            redactor: Arc::new(redactor),
            on_failure,
            watched: Arc::default(),
        }
    }

    /// Puts "about to forward" on record. The permit comes back only inside the proof.
    ///
    /// This entry also uses up an approval, so an approved call never runs without it.
    pub async fn forwarding(
        &self,
        permit: Permit,
    ) -> Result<(Recorded<Permit>, Open), NotRecorded> {
        let id = permit.call().attempt.id;
        let (entry, on_failure) = self.about_to_forward(&permit);
        match (self.store.place(&entry).await, on_failure) {
            (Ok(position), on_failure) => {
                self.keep_or_withdraw(id, position, on_failure).await?;
                self.watched.show(&entry);
            }
            (Err(error), OnFailure::Refuse) => {
                self.refused_unwritten(entry, &error);
                return Err(NotRecorded(error));
            }
            (Err(error), OnFailure::Allow) => {
                self.watched.show(&entry);
                // The event is separate from the entry, which looks like any other once it is written: an operator
                // must be able to find the calls that ran before they were on record.
                self.store.append_or_queue(entry);
                self.event(
                    RecordType::System,
                    "record.allowed_without",
                    None,
                    Some(error.reason),
                );
            }
        }
        Ok((Recorded { permit }, Open { id }))
    }

    /// Records a call that is refused because its "about to forward" could not be written. The refusal waits until there
    /// is room.
    fn refused_unwritten(&self, entry: Entry, error: &StoreError) {
        let Entry::Forwarding(mut entry) = entry else {
            return;
        };
        // Nothing was sent, so its approval is not used.
        entry.approval_id = None;
        entry.status = Some(Status::Rejected);
        entry.error = Some(Failed {
            code: 0,
            message: self.redactor.text(&error.to_string()),
        });
        self.refuse(entry);
    }

    /// Records a call that policy refused. A refusal stands whether it can be written or not, so a failed write is
    /// retried later.
    pub fn denied(&self, denied: &Denied) {
        let mut entry = self.decided(denied.call(), denied.ruling(), Decision::Deny);
        entry.status = Some(Status::Blocked);
        self.refuse(entry);
    }

    /// Records an attempt that ended before a decision.
    pub fn refused(&self, attempt: &Attempt, server: Option<&str>, status: Status, error: Failed) {
        let mut entry = self.attempted(attempt);
        entry.server = server.map(str::to_owned);
        let param = |key| attempt.frame.param(key).and_then(|asked| asked.as_str());
        let asked = match entry.record_type {
            RecordType::ToolCall | RecordType::PromptGet => param("name"),
            // A URI can hold a password, also in an attempt that reached no server.
            RecordType::ResourceRead => param("uri").map(|uri| self.redactor.text(&uri).into()),
            RecordType::Run
            | RecordType::Other
            | RecordType::Check
            | RecordType::Approval
            | RecordType::Server
            | RecordType::System => attempt.frame.method().map(Into::into),
        };
        entry.tool = asked.map(|asked| name(&asked));
        entry.status = Some(status);
        entry.error = Some(self.redacted(error));
        self.refuse(entry);
    }

    /// Records an attempt that was refused for its intent or its arguments. Without a target, the record has the
    /// requested name unchanged.
    pub fn faulted(&self, attempt: &Attempt, target: Option<&Target>, fault: &Fault) {
        let mut entry = self.attempted(attempt);
        match target {
            Some(target) => {
                entry.server = Some(target.server().to_string());
                entry.tool = Some(name(target.name()));
            }
            None => {
                let asked = attempt.frame.param("name").and_then(|asked| asked.as_str());
                let (server, tool) = match asked.as_deref().and_then(|asked| asked.split_once(':'))
                {
                    Some((server, tool)) => (Some(name(server)), Some(name(tool))),
                    None => (None, asked.as_deref().map(name)),
                };
                (entry.server, entry.tool) = (server, tool);
            }
        }
        let text = self.redactor.text(&fault.to_string());
        // A wrong intent is a gate's refusal and has a rule; arguments that do not fit the schema are the caller's error.
        if fault.is_of_intent() {
            entry.decision = Some(Decision::Deny);
            entry.rule = Some(fault.rule());
            entry.reason = Some(text.clone());
            entry.status = Some(Status::Blocked);
        } else {
            entry.status = Some(Status::Error);
        }
        entry.error = Some(Failed {
            code: 0,
            message: text,
        });
        self.refuse(entry);
    }

    /// Records the end of a forwarded call. A failed write is retried, so the end is never lost.
    pub async fn finished(&self, open: Open, outcome: Outcome<'_>) {
        let finished = Finished {
            id: open.id,
            status: outcome.status,
            effect: outcome.effect,
            duration_us: outcome.duration_us,
            response: outcome
                .response
                .map(|response| self.redactor.body(response)),
            error: outcome.error.map(|error| self.redacted(error)),
        };
        let entry = Entry::Finished(Box::new(finished));
        self.watched.show(&entry);
        let placing = self.store.place_or_queue(entry);
        if let Some(position) = placing.await {
            // A failed wait is reported by the store itself; the call has happened all the same.
            let _ = self.store.settled(position).await;
        }
    }

    /// Records an event of the gateway or of a server.
    pub fn event(
        &self,
        record_type: RecordType,
        name: &str,
        server: Option<&str>,
        reason: Option<String>,
    ) {
        self.store.append_or_queue(Entry::Event(Event {
            id: CallId(Ulid::generate()),
            record_type,
            name: name.to_owned(),
            server: server.map(str::to_owned),
            reason: reason.map(|reason| self.redactor.text(&reason)),
            // No caller made this happen; decisions of people are recorded by `holds.rs`.
            principal: None,
            decision: None,
            approval_id: None,
            tenant: None,
        }));
    }

    /// Waits until "about to forward" is durable.
    // When the sync fails the entry is in the log all the same. Without an end the next writer would close the
    // refused call as `unknown`, although nothing was sent.
    async fn keep_or_withdraw(
        &self,
        id: CallId,
        position: Position,
        on_failure: OnFailure,
    ) -> Result<(), NotRecorded> {
        let Err(error) = self.store.settled(position).await else {
            return Ok(());
        };
        match on_failure {
            OnFailure::Refuse => {
                let failed = Failed {
                    code: 0,
                    message: self.redactor.text(&error.to_string()),
                };
                self.store
                    .append_or_queue(Entry::Finished(Box::new(Finished {
                        id,
                        status: Status::Rejected,
                        effect: Effect::None,
                        duration_us: 0,
                        response: None,
                        error: Some(failed),
                    })));
                Err(NotRecorded(error))
            }
            OnFailure::Allow => {
                self.event(
                    RecordType::System,
                    "record.allowed_without",
                    None,
                    Some(error.reason),
                );
                Ok(())
            }
        }
    }

    /// A text without its secrets.
    pub fn redact(&self, text: &str) -> String {
        self.redactor.whole(text)
    }

    /// Records a call that ended before it was sent.
    fn refuse(&self, entry: Box<CallEntry>) {
        let entry = Entry::Refused(entry);
        self.watched.show(&entry);
        self.store.append_or_queue(entry);
    }

    async fn take(&self, entry: &Entry) -> Result<(), StoreError> {
        let position = self.store.place(entry).await?;
        self.store.settled(position).await?;
        self.watched.show(entry);
        Ok(())
    }

    /// The entry of a call that is about to be forwarded, and what happens when it cannot be written.
    // Not inlined into `forwarding`: its temporaries would enlarge the future of every call in flight.
    fn about_to_forward(&self, permit: &Permit) -> (Entry, OnFailure) {
        let mut entry = self.decided(permit.call(), permit.ruling(), Decision::Allow);
        entry.approval_id = permit.approval().cloned();
        // The entry is the use of the approval. A call that ran without it could run a second time.
        let on_failure = match entry.approval_id {
            Some(_) => OnFailure::Refuse,
            None => self.on_failure,
        };
        (Entry::Forwarding(entry), on_failure)
    }

    fn decided(&self, call: &Call, ruling: &Ruling, decision: Decision) -> Box<CallEntry> {
        let mut entry = self.attempted(&call.attempt);
        if let Target::Tool(tool) = &call.target {
            match &call.attempt.declared {
                None => entry.intent = Some(Intent::inferred(tool.hints.operation())),
                Some(declared) => {
                    let warning = declared.against(tool).ok().flatten();
                    entry.warnings.extend(warning);
                }
            }
        }
        entry.server = Some(call.target.server().to_string());
        entry.tool = Some(match &call.target {
            Target::Tool(_) | Target::Prompt(_) | Target::Method { .. } => name(call.target.name()),
            // A URI can hold a password.
            Target::Resource(of) | Target::Completion(of) => name(&self.redactor.text(&of.name)),
        });
        entry.decision = Some(decision);
        entry.rule = Some(ruling.rule.clone());
        entry.reason = Some(ruling.reason.clone());
        entry.checks = self.checks(ruling);
        entry
    }

    fn attempted(&self, attempt: &Attempt) -> Box<CallEntry> {
        let frame = &attempt.frame;
        let identity = &attempt.host.identity;
        let record_type = match frame.method() {
            Some(methods::TOOLS_CALL) => RecordType::ToolCall,
            Some(methods::PROMPTS_GET) => RecordType::PromptGet,
            Some(methods::RESOURCES_READ) => RecordType::ResourceRead,
            Some(_) | None => RecordType::Other,
        };
        let body = match record_type {
            RecordType::ToolCall | RecordType::PromptGet => frame.param("arguments"),
            RecordType::ResourceRead
            | RecordType::Run
            | RecordType::Other
            | RecordType::Check
            | RecordType::Approval
            | RecordType::Server
            | RecordType::System => frame.params(),
        };
        let declared = attempt.declared.as_deref();
        let client = attempt.host.client_info.as_deref();
        // Left out and not cut: the record holds JSON, and half a value is not JSON.
        let client = client.filter(|info| info.len() <= MAX_CLIENT_BYTES);
        Box::new(CallEntry {
            id: attempt.id,
            record_type,
            source: match attempt.via.as_deref() {
                None => Origin::Caller(attempt.door.source),
                Some(pack) => Origin::Pack(name(pack)),
            },
            transport: attempt.door.transport,
            tenant: identity.tenant.clone(),
            principal: identity.principal.clone(),
            agent: name(&identity.agent),
            client: client.map(RawJson::believed),
            session_id: identity.session.clone(),
            // As raw JSON: `1` and `"1"` are two different ids.
            request_id: frame.id().map(|id| name(id.raw())),
            parent_id: attempt.parent,
            // The caller fills in the target: an attempt that ends before `resolve` has none.
            server: None,
            tool: None,
            arguments: body.map(|body| self.redactor.body(body)),
            decision: None,
            rule: None,
            reason: None,
            checks: Vec::new(),
            intent: declared.map(|declared| self.intent(declared)),
            tool_variant: declared.map(|declared| declared.variant.call_tool().to_owned()),
            warnings: Vec::new(),
            approval_id: None,
            status: None,
            error: None,
        })
    }

    /// A declared intent, redacted: its text is as untrusted as the arguments.
    fn intent(&self, declared: &DeclaredIntent) -> Intent {
        let intent = Intent::declared(declared);
        let redacted = |text: Option<String>| text.map(|text| self.redactor.text(&text));
        Intent {
            operation_type: redacted(intent.operation_type),
            data_sensitivity: redacted(intent.data_sensitivity),
            reason: redacted(intent.reason),
            inferred: intent.inferred,
        }
    }

    fn redacted(&self, error: Failed) -> Failed {
        Failed {
            message: self.redactor.text(&error.message),
            ..error
        }
    }
}

fn name(text: &str) -> String {
    // The length in bytes is never below that in characters, so short names need no counting.
    if text.len() <= MAX_NAME_CHARS {
        return text.to_owned();
    }
    text.chars().take(MAX_NAME_CHARS).collect()
}
