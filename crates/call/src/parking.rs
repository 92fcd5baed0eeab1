//! Parked calls: forwarded, under way at their servers, and waiting for answers that their hosts bring in
//! a later request. They belong to the path and end with it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use callgate_gate::{Attempt, CallId};
use callgate_wire::{Json, RpcError, stateless::REQUEST_STATE};
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::{
    Failure, Reply,
    desk::Desk,
    seal::{Binding, Seal, SealKey, State},
};

/// How long a parked call waits for its host; then it is cancelled.
const LIFETIME: Duration = Duration::from_secs(600);
/// More calls than this are not parked at once: the one that waits longest is cancelled.
const MAX_PARKED: usize = 1000;

/// The calls that wait for their hosts.
#[derive(Debug)]
pub(crate) struct Parking {
    seal: Seal,
    /// This process: what another one parked is not here.
    node: Ulid,
    parked: Mutex<HashMap<Ulid, Parked>>,
}

/// A parked call.
#[derive(Debug)]
pub(crate) struct Parked {
    /// Its first round.
    pub(crate) parent: CallId,
    pub(crate) desk: Arc<Desk>,
    /// Cancels it at its server.
    pub(crate) stop: CancellationToken,
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
    /// A later one of a parked call.
    Again {
        /// Where the call is parked.
        park: Ulid,
        /// The first round.
        parent: CallId,
    },
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
        if state.node != self.node {
            return Err(refused("the gateway that knew it is gone"));
        }
        let parked = self.lock();
        let known = parked
            .get(&state.park)
            .filter(|known| !known.stop.is_cancelled());
        let known = known.ok_or_else(|| refused("it was used before, or given up"))?;
        Ok(Round::Again {
            park: state.park,
            parent: known.parent,
        })
    }

    /// Takes a call out of its place; nobody else can, after that.
    pub(crate) fn claim(&self, park: Ulid) -> Result<Parked, RpcError> {
        let parked = self.lock().remove(&park);
        let parked = parked.ok_or_else(|| refused("it was used before, or given up"))?;
        parked.until.send_replace(None);
        Ok(parked)
    }

    /// Parks a call, and gives what its host has to bring back.
    pub(crate) fn park(&self, call: Parked, attempt: &Attempt) -> String {
        let park = Ulid::generate();
        let state = State {
            node: self.node,
            park,
            expires: now() + LIFETIME.as_secs(),
        };
        call.until.send_replace(Some(Instant::now() + LIFETIME));
        let mut parked = self.lock();
        parked.retain(|_, known| !known.running.is_finished());
        if parked.len() >= MAX_PARKED {
            let oldest = parked.iter().min_by_key(|(_, known)| *known.until.borrow());
            let oldest = oldest.map(|(park, _)| *park);
            if let Some(given_up) = oldest.and_then(|oldest| parked.remove(&oldest)) {
                given_up.stop.cancel();
            }
        }
        parked.insert(park, call);
        drop(parked);
        let binding = Binding::of(&attempt.host, &attempt.frame);
        self.seal.close(state, &binding)
    }

    /// Cancels whatever waits, because nobody can come back any more.
    pub(crate) fn cancel_all(&self) {
        for (_, parked) in self.lock().drain() {
            parked.stop.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Ulid, Parked>> {
        self.parked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refused(why: &str) -> RpcError {
    let message = format!("`requestState` is refused: {why}");
    RpcError::new(RpcError::INVALID_PARAMS, message)
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
