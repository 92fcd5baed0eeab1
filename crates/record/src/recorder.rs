//! The recorder: turns what the call path knows into entries, and an entry that was taken into
//! the proof of it.

mod checks;
mod holds;

use std::sync::Arc;

use callgate_gate::{Attempt, Call, CallId, Declared, Denied, Fault, Permit, Ruling, Target};
use callgate_wire::{Json, methods};
use serde::{Deserialize, Serialize};
use ulid::Ulid;

use crate::{
    CallEntry, Decision, Effect, Entry, Event, Failed, Finished, Intent, Origin, Position, RawJson,
    RecordType, Redactor, Status, Store, StoreError,
};

/// Names and ids that hosts make up are kept up to this length.
const MAX_NAME_CHARS: usize = 256;
/// A host's introduction that is longer than this is left out of the record.
const MAX_CLIENT_BYTES: usize = 2048;

/// What a script is called on record.
const SCRIPT_TOOL: &str = "run";
/// The rule by which a script begins.
const SCRIPT_RULE: &str = "allow:gateway:script";

/// What to do with a call that cannot be put on record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// No record, no call.
    #[default]
    Refuse,
    /// The call goes on; its record is owed.
    Allow,
}

/// Something that is on record. Only the recorder makes one, and it is not `Clone`.
#[derive(Debug)]
pub struct Recorded<P> {
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

    /// Gives the proof up for the call in it. It can be forwarded once; there is no way back to
    /// a permit.
    pub fn into_call(self) -> Call {
        self.permit.into_call()
    }
}

/// A forwarded call whose end is still owed to the record.
#[derive(Debug)]
#[must_use]
pub struct Open {
    id: CallId,
}

/// The permit of a call that could not be recorded is gone; this says why.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct NotRecorded(#[from] StoreError);

/// How a forwarded call ended.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// How it stands.
    pub status: Status,
    /// What is known about its effect.
    pub effect: Effect,
    /// From receiving the request to having the answer.
    pub duration_us: u64,
    /// The raw JSON of the answer's result.
    pub response: Option<Json<'a>>,
    /// What went wrong.
    pub error: Option<Failed>,
}

/// Writes the record of every call.
#[derive(Debug, Clone)]
pub struct Recorder {
    store: Arc<dyn Store>,
    redactor: Arc<Redactor>,
    on_failure: OnFailure,
}

impl Recorder {
    /// A recorder over `store`.
    pub fn new(store: Arc<dyn Store>, redactor: Redactor, on_failure: OnFailure) -> Self {
        Self {
            store,
            redactor: Arc::new(redactor),
            on_failure,
        }
    }

    /// Puts "about to forward" on record. The permit comes back only inside the proof.
    ///
    /// This is also what uses an approval up, so a call that rests on one is never made without.
    pub async fn forwarding(
        &self,
        permit: Permit,
    ) -> Result<(Recorded<Permit>, Open), NotRecorded> {
        let id = permit.call().attempt.id;
        let (entry, on_failure) = self.about_to_forward(&permit);
        match (self.store.place(&entry).await, on_failure) {
            (Ok(position), on_failure) => self.keep_or_withdraw(id, position, on_failure).await?,
            (Err(error), OnFailure::Refuse) => return Err(NotRecorded(error)),
            (Err(error), OnFailure::Allow) => {
                self.store.append_owed(entry);
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

    /// Puts on record that a script begins. It is nobody's call: there is nothing to permit and no proof to
    /// get, and each call that it makes is decided and recorded by itself, below this one.
    pub async fn running(&self, attempt: &Attempt) -> Result<Open, NotRecorded> {
        let mut entry = self.attempted(attempt);
        entry.record_type = RecordType::Run;
        entry.tool = Some(SCRIPT_TOOL.to_owned());
        entry.decision = Some(Decision::Allow);
        entry.rule = Some(SCRIPT_RULE.to_owned());
        entry.reason = Some("a script is no call; each call it makes is decided".to_owned());
        let entry = Entry::Forwarding(entry);
        let position = self.store.place(&entry).await?;
        self.keep_or_withdraw(attempt.id, position, OnFailure::Refuse)
            .await?;
        Ok(Open { id: attempt.id })
    }

    /// Puts a call that policy refused on record. A refusal stands whether it can be written or
    /// not, so it is owed.
    pub fn denied(&self, denied: &Denied) {
        let mut entry = self.decided(denied.call(), denied.ruling(), Decision::Deny);
        entry.status = Some(Status::Blocked);
        self.store.append_owed(Entry::Refused(entry));
    }

    /// Puts an attempt on record that never got as far as a decision.
    pub fn refused(&self, attempt: &Attempt, server: Option<&str>, status: Status, error: Failed) {
        let mut entry = self.attempted(attempt);
        entry.server = server.map(str::to_owned);
        let param = |key| attempt.frame.param(key).and_then(|asked| asked.as_str());
        let asked = match entry.record_type {
            RecordType::ToolCall | RecordType::PromptGet => param("name"),
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
        entry.error = Some(self.blotted(error));
        self.store.append_owed(Entry::Refused(entry));
    }

    /// Puts a tool on record that an agent used on its own: it was seen in the agent's events, and nobody
    /// was asked.
    pub fn bypassed(&self, attempt: &Attempt, agent: &str) {
        let mut entry = self.attempted(attempt);
        entry.server = Some(name(agent));
        let tool = attempt.frame.param("name").and_then(|tool| tool.as_str());
        entry.tool = tool.map(|tool| name(&tool));
        entry.status = Some(Status::Bypassed);
        self.store.append_owed(Entry::Refused(entry));
    }

    /// Puts an attempt on record that was refused for its intent or its arguments. Without a target, the
    /// name that it asked for is kept as it stands.
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
        self.store.append_owed(Entry::Refused(entry));
    }

    /// Puts the end of a forwarded call on record; it is owed, and never lost.
    pub async fn finished(&self, open: Open, outcome: Outcome<'_>) {
        let finished = Finished {
            id: open.id,
            status: outcome.status,
            effect: outcome.effect,
            duration_us: outcome.duration_us,
            response: outcome
                .response
                .map(|response| self.redactor.body(response)),
            error: outcome.error.map(|error| self.blotted(error)),
        };
        let placing = self.store.place_owed(Entry::Finished(Box::new(finished)));
        if let Some(position) = placing.await {
            // A failed wait is reported by the store itself; the call has happened all the same.
            let _ = self.store.settled(position).await;
        }
    }

    /// Puts something on record that happened to the gateway or to a server.
    pub fn event(
        &self,
        record_type: RecordType,
        name: &str,
        server: Option<&str>,
        reason: Option<String>,
    ) {
        self.store.append_owed(Entry::Event(Event {
            id: CallId(Ulid::generate()),
            record_type,
            name: name.to_owned(),
            server: server.map(str::to_owned),
            reason: reason.map(|reason| self.redactor.text(&reason)),
            principal: None,
            decision: None,
            approval_id: None,
            tenant: None,
        }));
    }

    /// Waits until "about to forward" is durable. When it cannot be, the entry is in the log all
    /// the same, so a call that is refused for it gets its end there: nothing was sent.
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
                self.store.append_owed(Entry::Finished(Box::new(Finished {
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

    async fn take(&self, entry: &Entry) -> Result<(), StoreError> {
        let position = self.store.place(entry).await?;
        self.store.settled(position).await
    }

    /// The entry of a call that is about to be forwarded, and what to do when it cannot be written. Beside
    /// what waits for it, so that the room for making it is not a part of every call under way.
    fn about_to_forward(&self, permit: &Permit) -> (Entry, OnFailure) {
        let mut entry = self.decided(permit.call(), permit.ruling(), Decision::Allow);
        entry.approval_id = permit.approval().cloned();
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
        let who = &attempt.host.who;
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
        let client = client.filter(|info| info.len() <= MAX_CLIENT_BYTES);
        Box::new(CallEntry {
            id: attempt.id,
            record_type,
            source: match attempt.via.as_deref() {
                None => Origin::Caller(attempt.door.source),
                Some(pack) => Origin::Pack(name(pack)),
            },
            transport: attempt.door.transport,
            tenant: who.tenant.clone(),
            principal: who.principal.clone(),
            agent: name(&who.agent),
            client: client.map(RawJson::believed),
            session_id: who.session.clone(),
            request_id: frame.id().map(|id| name(id.raw())),
            parent_id: attempt.parent,
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

    /// A declared intent; what the caller wrote in it is as untrusted as its arguments.
    fn intent(&self, declared: &Declared) -> Intent {
        let intent = Intent::declared(declared);
        let blotted = |text: Option<String>| text.map(|text| self.redactor.text(&text));
        Intent {
            operation_type: blotted(intent.operation_type),
            data_sensitivity: blotted(intent.data_sensitivity),
            reason: blotted(intent.reason),
            inferred: intent.inferred,
        }
    }

    fn blotted(&self, error: Failed) -> Failed {
        Failed {
            message: self.redactor.text(&error.message),
            ..error
        }
    }
}

fn name(text: &str) -> String {
    if text.len() <= MAX_NAME_CHARS {
        return text.to_owned();
    }
    text.chars().take(MAX_NAME_CHARS).collect()
}
