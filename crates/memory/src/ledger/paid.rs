//! Held calls that were counted against their rate limits when they asked. Once a person says yes they run without
//! being counted again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use callgate_gate::{Digest, RateLimit};

/// The most held calls that are remembered; beyond it the oldest are counted again when they are repeated.
const MAX_REMEMBERED: usize = 10_000;
/// No approval is waited for longer than this.
const LIFE: Duration = Duration::from_secs(24 * 3600);

/// What held calls have paid, by their fingerprint.
#[derive(Debug, Default)]
pub(super) struct Paid {
    held: Mutex<HashMap<Digest, (Vec<RateLimit>, Instant)>>,
}

impl Paid {
    /// Whether no held call has paid anything: then nothing needs to be looked for.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Notes what a held call has paid.
    pub(super) fn note(&self, call: Digest, rates: Vec<RateLimit>, now: Instant) {
        let mut held = self.lock();
        held.retain(|_, (_, at)| now.saturating_duration_since(*at) < LIFE);
        if held.len() >= MAX_REMEMBERED {
            let oldest = held.iter().min_by_key(|(_, (_, at))| *at);
            if let Some(oldest) = oldest.map(|(call, _)| *call) {
                held.remove(&oldest);
            }
        }
        held.insert(call, (rates, now));
    }

    /// What this call has paid already.
    pub(super) fn by(&self, call: &Digest) -> Vec<RateLimit> {
        let held = self.lock();
        held.get(call)
            .map(|(rates, _)| rates.clone())
            .unwrap_or_default()
    }

    /// Forgets a call that runs: the next one like it counts again.
    pub(super) fn settle(&self, call: &Digest) {
        self.lock().remove(call);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, (Vec<RateLimit>, Instant)>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
