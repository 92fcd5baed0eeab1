//! The lanes of one server beside its primary one: a process for each kind of host, and one for each call
//! that needs exclusive use.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::{
    Profile,
    connection::Connection,
    lane::{Lane, LaneError},
};

/// Lanes by the profile they were opened with, oldest first.
#[derive(Debug)]
pub(crate) struct Lanes {
    slots: Mutex<Vec<Slot>>,
    limit: usize,
}

/// The lane of one kind of host. Its own lock is held while the lane opens, so that a process that is slow to
/// start delays only hosts of its kind.
#[derive(Debug)]
struct Slot {
    profile: Profile,
    lane: Arc<AsyncMutex<Option<Lane>>>,
    taken: LaneLeases,
}

/// Counts the calls that use one lane.
#[derive(Debug, Clone, Default)]
pub(crate) struct LaneLeases(Arc<AtomicUsize>);

/// One use of a lane, released on drop.
#[derive(Debug)]
pub(crate) struct LaneLease(LaneLeases);

impl LaneLeases {
    /// A use beside any others.
    pub(crate) fn take(&self) -> LaneLease {
        self.0.fetch_add(1, Ordering::AcqRel);
        LaneLease(self.clone())
    }

    /// The only use; `None` if there are others.
    pub(crate) fn take_exclusive(&self) -> Option<LaneLease> {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let taken = self.0.compare_exchange(0, 1, order.0, order.1);
        taken.ok().map(|_| LaneLease(self.clone()))
    }

    fn are_free(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

impl Drop for LaneLease {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How a call uses a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneUse {
    Shared,
    /// Exclusively, while the process limit allows that.
    Exclusive,
}

/// The slot for a profile.
enum SlotLookup {
    /// An existing slot; its lane may still be opening.
    Existing(Arc<AsyncMutex<Option<Lane>>>, LaneLease),
    /// A new slot, locked until its lane is open, and the slot that it replaces.
    Reserved {
        lane: OwnedMutexGuard<Option<Lane>>,
        evicted: Option<Slot>,
        lease: LaneLease,
    },
}

impl Lanes {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            slots: Mutex::default(),
            limit,
        }
    }

    /// The live connection of a profile; `None` while it is being opened.
    pub(crate) fn get(&self, profile: &Profile) -> Option<Connection> {
        let slots = self.lock();
        let lane = slots
            .iter()
            .find(|slot| slot.fits(profile))?
            .lane
            .try_lock();
        lane.ok()?.as_ref().and_then(live)
    }

    /// The live connection of a profile, opened if there is none. At the limit the oldest idle lane is closed
    /// to make room; if all are in use, the request is refused.
    pub(crate) async fn get_or_open<F>(
        &self,
        profile: &Profile,
        how: LaneUse,
        open_lane: impl FnOnce() -> F,
    ) -> Result<(Connection, LaneLease), LaneError>
    where
        F: Future<Output = Result<Lane, LaneError>>,
    {
        let (mut lane, lease) = match self.find_or_reserve(profile, how)? {
            SlotLookup::Existing(lane, lease) => (lane.lock_owned().await, lease),
            SlotLookup::Reserved {
                lane,
                evicted,
                lease,
            } => {
                // Closed before the new process starts, so that the limit holds at every moment.
                if let Some(slot) = evicted {
                    slot.close().await;
                }
                (lane, lease)
            }
        };
        if let Some(connection) = lane.as_ref().and_then(live) {
            return Ok((connection, lease));
        }
        // The process ended since the last call; its exit has to be waited for, and a new one takes the slot.
        if let Some(ended) = lane.take() {
            ended.close().await;
        }
        let opened = lane.insert(open_lane().await?);
        Ok((opened.connection.clone(), lease))
    }

    pub(crate) async fn close_all(&self) {
        let slots: Vec<Slot> = self.lock().drain(..).collect();
        futures_util::future::join_all(slots.into_iter().map(Slot::close)).await;
    }

    fn find_or_reserve(&self, profile: &Profile, how: LaneUse) -> Result<SlotLookup, LaneError> {
        let mut slots = self.lock();
        let mut fitting = slots.iter().filter(|slot| slot.fits(profile));
        let known = match how {
            LaneUse::Shared => fitting.next().map(|slot| (slot, slot.taken.take())),
            LaneUse::Exclusive => {
                fitting.find_map(|slot| Some((slot, slot.taken.take_exclusive()?)))
            }
        };
        if let Some((slot, lease)) = known {
            return Ok(SlotLookup::Existing(slot.lane.clone(), lease));
        }
        let mut evicted = None;
        if slots.len() >= self.limit {
            let idle = slots.iter().position(Slot::is_idle);
            // Next, the oldest lane whose calls all wait for their hosts: the host that has not answered for
            // longest is the least likely to.
            let waiting = || slots.iter().position(Slot::waits_for_hosts);
            match (idle.or_else(waiting), how) {
                (Some(at), _) => evicted = Some(slots.remove(at)),
                (None, LaneUse::Exclusive) => return self.share_existing(&slots, profile),
                (None, LaneUse::Shared) => return Err(self.too_many()),
            }
        }
        let lane = Arc::new(AsyncMutex::new(None));
        // Locked before others can see the slot: they wait for this lane and open no second one.
        let held = lane.clone().try_lock_owned();
        let taken = LaneLeases::default();
        let lease = taken.take();
        slots.push(Slot {
            profile: profile.clone(),
            lane,
            taken,
        });
        Ok(SlotLookup::Reserved {
            lane: held.expect("a new lock is free"),
            evicted,
            lease,
        })
    }

    /// For an exclusive call without a free process: it shares one, and only questions that could belong to
    /// another call are refused.
    fn share_existing(&self, slots: &[Slot], profile: &Profile) -> Result<SlotLookup, LaneError> {
        let fits = slots.iter().find(|slot| slot.fits(profile));
        let slot = fits.ok_or_else(|| self.too_many())?;
        Ok(SlotLookup::Existing(slot.lane.clone(), slot.taken.take()))
    }

    fn too_many(&self) -> LaneError {
        // The configured limit counts the primary too.
        let limit = self.limit + 1;
        LaneError::TooMany { limit }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn fits(&self, profile: &Profile) -> bool {
        self.profile.fits(profile)
    }

    /// Whether all its calls wait for answers of their hosts.
    fn waits_for_hosts(&self) -> bool {
        let lane = self.lane.try_lock();
        let waits = |lane: &Lane| lane.connection.waits_for_hosts();
        lane.is_ok_and(|lane| lane.as_ref().is_some_and(waits))
    }

    /// Whether it is not being opened and has no call in flight.
    fn is_idle(&self) -> bool {
        // A second reference belongs to a caller that opens the lane or waits for it.
        let alone = Arc::strong_count(&self.lane) == 1;
        let lane = self.lane.try_lock();
        alone
            && self.taken.are_free()
            && lane.is_ok_and(|lane| lane.as_ref().is_none_or(|lane| lane.connection.is_idle()))
    }

    async fn close(self) {
        let lane = self.lane.lock().await.take();
        if let Some(lane) = lane {
            lane.close().await;
        }
    }
}

fn live(lane: &Lane) -> Option<Connection> {
    let ended = lane.connection.ended().is_cancelled();
    (!ended).then(|| lane.connection.clone())
}
