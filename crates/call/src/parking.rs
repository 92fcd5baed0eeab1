//! Parked calls: forwarded, running at their servers, and waiting for answers that their hosts bring in a later request. They
//! end with the process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use callgate_gate::{Attempt, CallId, Digest, GivenConsent, Owner};
use callgate_record::Clock;
use callgate_wire::{
    Frame, Json, RpcError, Strictness,
    stateless::{INPUT_RESPONSES, REQUEST_STATE},
};
use jiff::Timestamp;
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::{
    Failure, Reply,
    deferred_questions::DeferredQuestions,
    seal::{Binding, RequestState, Seal, SealKey, StateSubject},
};

/// How long a parked call waits for its host before it is cancelled.
const LIFETIME: Duration = Duration::from_secs(600);
/// How long a host may return to a held call with its state. Approvals expire on their own.
const HELD_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Parked calls per tenant. A further one evicts the oldest call of the same token, or, if that token has none, the tenant's
/// oldest.
const MAX_PARKED: usize = 1000;

/// The calls that wait for their hosts.
#[derive(Debug)]
pub(crate) struct Parking {
    seal: Seal,
    /// The id of this process. Parked calls are in memory, so a state of another process cannot be served.
    node: Ulid,
    clock: OnceLock<Arc<dyn Clock>>,
    parked: Mutex<Calls>,
}

/// Parked calls and their owners.
type Calls = HashMap<Ulid, (Owner, Parked)>;

#[derive(Debug)]
pub(crate) struct Parked {
    /// The record entry of its first round.
    pub(crate) parent: CallId,
    pub(crate) questions: Arc<DeferredQuestions>,
    /// Cancels the call at its server.
    pub(crate) stop: CancellationToken,
    /// The approval that it was permitted by, which covers its later rounds too.
    pub(crate) agreed: Option<GivenConsent>,
    /// The deadline for the host's next request; `None` during a round.
    pub(crate) until: watch::Sender<Option<Instant>>,
    pub(crate) running: JoinHandle<Result<Reply, Failure>>,
}

/// Which round of a call a request is.
#[derive(Debug)]
pub(crate) enum Round {
    /// The first one, or a later one of a call whose rounds its server tracks itself.
    First,
    /// The first one again, after a person was asked. Nothing was sent before.
    Returned(ReturningHost),
    /// A later one of a parked call.
    Later {
        park: Ulid,
        /// The record entry of the first round.
        parent: CallId,
        /// The approval of the first round.
        agreed: Option<GivenConsent>,
    },
}

/// A host that returns to a held call.
#[derive(Debug)]
pub(crate) struct ReturningHost {
    /// The digest of the call that its user was asked about.
    pub(crate) binding: Digest,
    /// How often its host was asked to return.
    pub(crate) asked: u8,
    /// The request without the state and the answers for the gateway.
    pub(crate) request: Frame,
    /// The host's answers, as JSON text.
    responses: Option<String>,
}

impl ReturningHost {
    /// The host's answer to a question of the gateway; `None` if it is missing or malformed.
    pub(crate) fn answer_to(&self, question: &str) -> Option<bool> {
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
            clock: OnceLock::new(),
            parked: Mutex::default(),
        }
    }

    /// Sets another clock than that of the machine, before the first call.
    pub(crate) fn set_clock(&self, clock: Arc<dyn Clock>) {
        // A second clock would be ignored.
        let _ = self.clock.set(clock);
    }

    /// Seconds since 1970, for what hosts carry.
    fn now(&self) -> u64 {
        let now = self
            .clock
            .get()
            .map_or_else(Timestamp::now, |clock| clock.now());
        u64::try_from(now.as_second()).unwrap_or(0)
    }

    /// Which round this request is; an error if its state is not valid.
    pub(crate) fn round_of(&self, attempt: &Attempt) -> Result<Round, RpcError> {
        // A text without our mark is a server's own state, which passes unchanged.
        let state = attempt.frame.param(REQUEST_STATE).and_then(Json::as_str);
        let Some(text) = state.filter(|text| self.seal.is_ours(text)) else {
            return Ok(Round::First);
        };
        let binding = Binding::of(&attempt.host, &attempt.frame);
        let opened = self.seal.open(&text, &binding);
        let state = opened.ok_or_else(|| refused("it was issued for another request"))?;
        if state.expires < self.now() {
            if let StateSubject::Parked { park, .. } = state.about {
                self.give_up(park);
            }
            return Err(refused("it has expired"));
        }
        match state.about {
            StateSubject::Parked { node, park } => self.find(node, park),
            StateSubject::Held { binding, asked } => returned(&attempt.frame, binding, asked),
        }
    }

    /// Finds the parked call of a state.
    fn find(&self, node: Ulid, park: Ulid) -> Result<Round, RpcError> {
        if node != self.node {
            return Err(refused("the gateway process that issued it has ended"));
        }
        let parked = self.lock();
        // Looked at and not taken: this request is decided and recorded first, and a denied one must leave the call parked.
        let known = parked.get(&park).map(|(_, known)| known);
        // A call that was cancelled at its deadline stays in the table until another one is parked.
        let known = known.filter(|known| !known.stop.is_cancelled());
        let known =
            known.ok_or_else(|| refused("it was already used, or its call was cancelled"))?;
        Ok(Round::Later {
            park,
            parent: known.parent,
            agreed: known.agreed.clone(),
        })
    }

    /// Cancels a parked call whose time was seen to be over: a clock that is set back does not revive it.
    fn give_up(&self, park: Ulid) {
        if let Some((_, parked)) = self.lock().remove(&park) {
            parked.stop.cancel();
        }
    }

    /// Seals the state that the host of a held call returns with.
    pub(crate) fn hold(&self, attempt: &Attempt, binding: Digest, asked: u8) -> String {
        let state = RequestState {
            about: StateSubject::Held { binding, asked },
            expires: self.now() + HELD_LIFETIME.as_secs(),
        };
        let binding = Binding::of(&attempt.host, &attempt.frame);
        self.seal.close(state, &binding)
    }

    /// Takes a parked call. Of several requests with one state, the first one gets it.
    pub(crate) fn claim(&self, park: Ulid) -> Result<Parked, RpcError> {
        let parked = self.lock().remove(&park);
        let (_, parked) =
            parked.ok_or_else(|| refused("it was already used, or its call was cancelled"))?;
        // No deadline during a round: the host is here.
        parked.until.send_replace(None);
        Ok(parked)
    }

    /// Parks a call and seals the state that its host returns with.
    pub(crate) fn park(&self, call: Parked, attempt: &Attempt) -> String {
        // A new id in each round, so that a state can be used only once.
        let park = Ulid::generate();
        let node = self.node;
        let state = RequestState {
            about: StateSubject::Parked { node, park },
            expires: self.now() + LIFETIME.as_secs(),
        };
        call.until.send_replace(Some(Instant::now() + LIFETIME));
        let owner = attempt.host.identity.owner();
        let mut parked = self.lock();
        // Calls that have ended meanwhile, so that they evict nothing.
        parked.retain(|_, (_, known)| !known.running.is_finished());
        let to_evict = to_evict(&parked, &owner);
        if let Some((_, evicted)) = to_evict.and_then(|oldest| parked.remove(&oldest)) {
            evicted.stop.cancel();
        }
        parked.insert(park, (owner, call));
        drop(parked);
        let binding = Binding::of(&attempt.host, &attempt.frame);
        self.seal.close(state, &binding)
    }

    /// Cancels every parked call.
    pub(crate) fn cancel_all(&self) {
        for (_, (_, parked)) in self.lock().drain() {
            parked.stop.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Calls> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The call to evict for a new one of `owner`, if its tenant has too many.
fn to_evict(parked: &Calls, owner: &Owner) -> Option<Ulid> {
    let of_tenant = parked
        .iter()
        .filter(|(_, (whose, _))| whose.tenant == owner.tenant);
    if of_tenant.clone().count() < MAX_PARKED {
        return None;
    }
    // Calls of the same token sort first: a token that parks many calls evicts its own before those of others.
    let order =
        |(_, (whose, known)): &(&Ulid, &(Owner, Parked))| (whose != owner, *known.until.borrow());
    of_tenant.min_by_key(order).map(|(park, _)| *park)
}

/// A host that returns to a held call, with the request as it was at first.
fn returned(request: &Frame, binding: Digest, asked: u8) -> Result<Round, RpcError> {
    let edit = request
        .edit()
        .remove_members(&[INPUT_RESPONSES, REQUEST_STATE]);
    let plain = Frame::parse(edit.finish(), Strictness::Full);
    let plain = plain.map_err(|_| refused("it was issued for another request"))?;
    let responses = request.param(INPUT_RESPONSES);
    Ok(Round::Returned(ReturningHost {
        binding,
        asked,
        responses: responses.map(|responses| responses.as_text().to_owned()),
        request: plain,
    }))
}

fn refused(why: &str) -> RpcError {
    let message = format!("`requestState` refused: {why}");
    RpcError::new(RpcError::INVALID_PARAMS, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expired_used_and_foreign_request_states_are_refused() {
        let parking = Parking::new(&SealKey::random());
        let host = callgate_gate::Host {
            identity: callgate_gate::CallerIdentity {
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
            let about = StateSubject::Parked { node, park };
            let params = |state: &str| {
                format!(
                    r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"requestState":"{state}"}}}}"#
                )
            };
            let frame = Frame::parse(params("").into(), Strictness::Full).unwrap();
            let binding = Binding::of(&host, &frame);
            let state = parking
                .seal
                .close(RequestState { about, expires }, &binding);
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
        let refused = |why: &str| Err(format!("`requestState` refused: {why}"));
        let (ours, later) = (parking.node, parking.now() + 60);
        assert_eq!(judge(ours, parking.now() - 1), refused("it has expired"));
        let gone = "the gateway process that issued it has ended";
        assert_eq!(judge(Ulid::generate(), later), refused(gone));
        let unknown = "it was already used, or its call was cancelled";
        assert_eq!(judge(ours, later), refused(unknown));
    }
}
