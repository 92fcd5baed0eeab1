//! Parked calls: forwarded, under way at their servers, and waiting for answers that their hosts bring in
//! a later request. They belong to the path and end with it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use callgate_gate::{Agreed, Attempt, CallId, Digest, Owner};
use callgate_wire::{
    Frame, Json, RpcError, Strictness,
    stateless::{INPUT_RESPONSES, REQUEST_STATE},
};
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::{
    Failure, Reply,
    deferred_questions::DeferredQuestions,
    seal::{About, Binding, Seal, SealKey, State},
};

/// How long a parked call waits for its host; then it is cancelled.
const LIFETIME: Duration = Duration::from_secs(600);
/// How long a host may come back to a held call by its state. Approvals have a time of their own.
const HELD_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Calls that are parked at once for a tenant. One more makes the call of the same token that waits longest give way; a token
/// without any takes the place of the tenant's that waits longest.
const MAX_PARKED: usize = 1000;

/// The calls that wait for their hosts.
#[derive(Debug)]
pub(crate) struct Parking {
    seal: Seal,
    /// This process: what another one parked is not here.
    node: Ulid,
    parked: Mutex<Calls>,
}

/// Parked calls, and whose they are.
type Calls = HashMap<Ulid, (Owner, Parked)>;

/// A parked call.
#[derive(Debug)]
pub(crate) struct Parked {
    /// Its first round.
    pub(crate) parent: CallId,
    pub(crate) questions: Arc<DeferredQuestions>,
    /// Cancels it at its server.
    pub(crate) stop: CancellationToken,
    /// The person's yes that it rests on. Its later rounds rest on the same.
    pub(crate) agreed: Option<Agreed>,
    /// Until when it waits; nothing while a round goes on.
    pub(crate) until: watch::Sender<Option<Instant>>,
    /// Its end.
    pub(crate) running: JoinHandle<Result<Reply, Failure>>,
}

/// Which round of a call a request is.
#[derive(Debug)]
pub(crate) enum Round {
    /// The first one, or one that its server knows about.
    First,
    /// The first one again, after a person was asked for: nothing was sent before.
    Back(Back),
    /// A later one of a parked call.
    Again {
        /// Where the call is parked.
        park: Ulid,
        /// The first round.
        parent: CallId,
        /// The yes that the first round rests on.
        agreed: Option<Agreed>,
    },
}

/// A host that comes back to a held call.
#[derive(Debug)]
pub(crate) struct Back {
    /// What a yes must be for.
    pub(crate) binding: Digest,
    /// How often its host was asked to come again.
    pub(crate) asked: u8,
    /// The request without what was only for us.
    pub(crate) request: Frame,
    /// What the host answers, as JSON text.
    responses: Option<String>,
}

impl Back {
    /// What the host says to a question of ours; `None` for what is no answer.
    pub(crate) fn says(&self, question: &str) -> Option<bool> {
        let responses = self.responses.as_deref()?;
        let responses = Json::validate(responses.as_bytes(), Strictness::Envelope).ok()?;
        let action = responses.get(question)?.get("action")?.as_str()?;
        match action.as_ref() {
            "accept" => Some(true),
            "decline" | "cancel" => Some(false),
            _ => None,
        }
    }
}

impl Parking {
    pub(crate) fn new(key: &SealKey) -> Self {
        Self {
            seal: Seal::new(key),
            node: Ulid::generate(),
            parked: Mutex::default(),
        }
    }

    /// Which round this request is; refused, when it claims to belong to a parked call and does not.
    pub(crate) fn round_of(&self, attempt: &Attempt) -> Result<Round, RpcError> {
        let state = attempt.frame.param(REQUEST_STATE).and_then(Json::as_str);
        let Some(text) = state.filter(|text| self.seal.is_ours(text)) else {
            return Ok(Round::First);
        };
        let binding = Binding::of(&attempt.host, &attempt.frame);
        let opened = self.seal.open(&text, &binding);
        let state = opened.ok_or_else(|| refused("it was not made for this request"))?;
        if state.expires < now() {
            return Err(refused("it has expired"));
        }
        match state.about {
            About::Parked { node, park } => self.known(node, park),
            About::Held { binding, asked } => back(&attempt.frame, binding, asked),
        }
    }

    /// The parked call that a state of ours means.
    fn known(&self, node: Ulid, park: Ulid) -> Result<Round, RpcError> {
        if node != self.node {
            return Err(refused("the gateway that knew it is gone"));
        }
        let parked = self.lock();
        let known = parked.get(&park).map(|(_, known)| known);
        let known = known.filter(|known| !known.stop.is_cancelled());
        let known = known.ok_or_else(|| refused("it was used before, or given up"))?;
        Ok(Round::Again {
            park,
            parent: known.parent,
            agreed: known.agreed.clone(),
        })
    }

    /// What the host of a held call has to bring back.
    pub(crate) fn hold(&self, attempt: &Attempt, binding: Digest, asked: u8) -> String {
        let state = State {
            about: About::Held { binding, asked },
            expires: now() + HELD_LIFETIME.as_secs(),
        };
        let binding = Binding::of(&attempt.host, &attempt.frame);
        self.seal.close(state, &binding)
    }

    /// Takes a call out of its place; nobody else can, after that.
    pub(crate) fn claim(&self, park: Ulid) -> Result<Parked, RpcError> {
        let parked = self.lock().remove(&park);
        let (_, parked) = parked.ok_or_else(|| refused("it was used before, or given up"))?;
        parked.until.send_replace(None);
        Ok(parked)
    }

    /// Parks a call, and gives what its host has to bring back.
    pub(crate) fn park(&self, call: Parked, attempt: &Attempt) -> String {
        let park = Ulid::generate();
        let node = self.node;
        let state = State {
            about: About::Parked { node, park },
            expires: now() + LIFETIME.as_secs(),
        };
        call.until.send_replace(Some(Instant::now() + LIFETIME));
        let owner = attempt.host.who.owner();
        let mut parked = self.lock();
        parked.retain(|_, (_, known)| !known.running.is_finished());
        let gives_way = gives_way(&parked, &owner);
        if let Some((_, given_up)) = gives_way.and_then(|oldest| parked.remove(&oldest)) {
            given_up.stop.cancel();
        }
        parked.insert(park, (owner, call));
        drop(parked);
        let binding = Binding::of(&attempt.host, &attempt.frame);
        self.seal.close(state, &binding)
    }

    /// Cancels whatever waits, because nobody can come back any more.
    pub(crate) fn cancel_all(&self) {
        for (_, (_, parked)) in self.lock().drain() {
            parked.stop.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The call that makes room for another of `owner`, where its tenant has too many.
fn gives_way(parked: &Calls, owner: &Owner) -> Option<Ulid> {
    let of_tenant = parked
        .iter()
        .filter(|(_, (whose, _))| whose.tenant == owner.tenant);
    if of_tenant.clone().count() < MAX_PARKED {
        return None;
    }
    let order =
        |(_, (whose, known)): &(&Ulid, &(Owner, Parked))| (whose != owner, *known.until.borrow());
    of_tenant.min_by_key(order).map(|(park, _)| *park)
}

/// A host that comes back to a held call: the request as it was at first.
fn back(request: &Frame, binding: Digest, asked: u8) -> Result<Round, RpcError> {
    let edit = request
        .edit()
        .remove_members(&[INPUT_RESPONSES, REQUEST_STATE]);
    let plain = Frame::parse(edit.finish(), Strictness::Full);
    let plain = plain.map_err(|_| refused("it was not made for this request"))?;
    let responses = request.param(INPUT_RESPONSES);
    Ok(Round::Back(Back {
        binding,
        asked,
        responses: responses.map(|responses| responses.as_text().to_owned()),
        request: plain,
    }))
}

fn refused(why: &str) -> RpcError {
    let message = format!("`requestState` is refused: {why}");
    RpcError::new(RpcError::INVALID_PARAMS, message)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_used_and_foreign_request_states_are_refused() {
        let parking = Parking::new(&SealKey::random());
        let host = callgate_gate::Host {
            who: callgate_gate::Who {
                tenant: "local".into(),
                principal: "p".into(),
                agent: "a".into(),
                session: "s".into(),
                grant: callgate_gate::Grant::default(),
            },
            client_info: None,
            capabilities: "{}".into(),
            era: callgate_wire::Era::Stateless,
        };
        let judge = |node, expires| {
            let park = Ulid::generate();
            let about = About::Parked { node, park };
            let params = |state: &str| {
                format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"requestState":"{state}"}}}}"#
                )
            };
            let frame = Frame::parse(params("").into(), Strictness::Full).unwrap();
            let binding = Binding::of(&host, &frame);
            let state = parking.seal.close(State { about, expires }, &binding);
            let attempt = Attempt {
                id: CallId(Ulid::nil()),
                parent: None,
                via: None,
                host: Arc::new(host.clone()),
                door: callgate_gate::Door {
                    source: callgate_gate::Source::Mcp,
                    transport: callgate_gate::Transport::Http,
                },
                frame: Frame::parse(params(&state).into(), Strictness::Full).unwrap(),
                declared: None,
            };
            let judged = parking.round_of(&attempt);
            judged.map(|_| ()).map_err(|error| error.message)
        };
        let refused = |why: &str| Err(format!("`requestState` is refused: {why}"));
        let (ours, later) = (parking.node, now() + 60);
        assert_eq!(judge(ours, now() - 1), refused("it has expired"));
        let gone = "the gateway that knew it is gone";
        assert_eq!(judge(Ulid::generate(), later), refused(gone));
        let unknown = "it was used before, or given up";
        assert_eq!(judge(ours, later), refused(unknown));
    }
}
