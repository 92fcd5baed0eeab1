//! The lanes of one server beside its primary one: a process for each kind of host, and for each call
//! that has to have one to itself.

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

/// The place of one kind of host. Its own lock is held while its lane is opened, so that a process
/// that is slow to start keeps only hosts of its own kind waiting.
#[derive(Debug)]
struct Slot {
    profile: Profile,
    lane: Arc<AsyncMutex<Option<Lane>>>,
    /// How many calls have taken a seat.
    taken: Seats,
}

/// The seats of one lane.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seats(Arc<AtomicUsize>);

/// A seat on a lane, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat(Seats);

impl Seats {
    /// A seat, however many sit there.
    pub(crate) fn take(&self) -> Seat {
        self.0.fetch_add(1, Ordering::AcqRel);
        Seat(self.clone())
    }

    /// A seat where nobody sits.
    pub(crate) fn take_all(&self) -> Option<Seat> {
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let taken = self.0.compare_exchange(0, 1, order.0, order.1);
        taken.ok().map(|_| Seat(self.clone()))
    }

    fn are_free(&self) -> bool {
        self.0.load(Ordering::Acquire) == 0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How a call uses a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Beside others.
    Shared,
    /// Alone, as long as there are processes for that.
    Alone,
}

/// Where the lane of a profile is, or is to be.
enum Place {
    /// There is a slot already.
    Known(Arc<AsyncMutex<Option<Lane>>>, Seat),
    /// A fresh slot, held, and the one that made room for it.
    Fresh {
        lane: OwnedMutexGuard<Option<Lane>>,
        gives_way: Option<Slot>,
        seat: Seat,
    },
}

impl Lanes {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            slots: Mutex::default(),
            limit,
        }
    }

    /// The live connection of a profile; none while it is being opened.
    pub(crate) fn get(&self, profile: &Profile) -> Option<Connection> {
        let slots = self.lock();
        let lane = slots
            .iter()
            .find(|slot| slot.fits(profile))?
            .lane
            .try_lock();
        lane.ok()?.as_ref().and_then(live)
    }

    /// The live connection of a profile, opened when there is none. Beyond the limit the oldest
    /// lane that nobody uses makes room; when all are used, the request is refused.
    pub(crate) async fn get_or_open<F>(
        &self,
        profile: &Profile,
        how: Use,
        open_lane: impl FnOnce() -> F,
    ) -> Result<(Connection, Seat), LaneError>
    where
        F: Future<Output = Result<Lane, LaneError>>,
    {
        let (mut lane, seat) = match self.place(profile, how)? {
            Place::Known(lane, seat) => (lane.lock_owned().await, seat),
            Place::Fresh {
                lane,
                gives_way,
                seat,
            } => {
                // Before another process starts, so that there are never more than the limit.
                if let Some(slot) = gives_way {
                    slot.close().await;
                }
                (lane, seat)
            }
        };
        if let Some(connection) = lane.as_ref().and_then(live) {
            return Ok((connection, seat));
        }
        if let Some(ended) = lane.take() {
            ended.close().await;
        }
        let opened = lane.insert(open_lane().await?);
        Ok((opened.connection.clone(), seat))
    }

    pub(crate) async fn close_all(&self) {
        let slots: Vec<Slot> = self.lock().drain(..).collect();
        futures_util::future::join_all(slots.into_iter().map(Slot::close)).await;
    }

    fn place(&self, profile: &Profile, how: Use) -> Result<Place, LaneError> {
        let mut slots = self.lock();
        let mut fitting = slots.iter().filter(|slot| slot.fits(profile));
        let known = match how {
            Use::Shared => fitting.next().map(|slot| (slot, slot.taken.take())),
            Use::Alone => fitting.find_map(|slot| Some((slot, slot.taken.take_all()?))),
        };
        if let Some((slot, seat)) = known {
            return Ok(Place::Known(slot.lane.clone(), seat));
        }
        let mut gives_way = None;
        if slots.len() >= self.limit {
            let idle = slots.iter().position(Slot::is_idle);
            // A host that was asked and has not come back for longest is least likely to.
            let waiting = || slots.iter().position(Slot::waits_for_hosts);
            match (idle.or_else(waiting), how) {
                (Some(at), _) => gives_way = Some(slots.remove(at)),
                (None, Use::Alone) => return self.beside_others(&slots, profile),
                (None, Use::Shared) => return Err(self.too_many()),
            }
        }
        let lane = Arc::new(AsyncMutex::new(None));
        let held = lane.clone().try_lock_owned();
        let taken = Seats::default();
        let seat = taken.take();
        slots.push(Slot {
            profile: profile.clone(),
            lane,
            taken,
        });
        Ok(Place::Fresh {
            lane: held.expect("nobody else knows a fresh lock"),
            gives_way,
            seat,
        })
    }

    /// There is no process left to be alone in: the call is made all the same, and only questions that
    /// could be another call's are not asked.
    fn beside_others(&self, slots: &[Slot], profile: &Profile) -> Result<Place, LaneError> {
        let fits = slots.iter().find(|slot| slot.fits(profile));
        let slot = fits.ok_or_else(|| self.too_many())?;
        Ok(Place::Known(slot.lane.clone(), slot.taken.take()))
    }

    fn too_many(&self) -> LaneError {
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

    /// Whether all of its calls wait for answers of their hosts.
    fn waits_for_hosts(&self) -> bool {
        let lane = self.lane.try_lock();
        let waits = |lane: &Lane| lane.connection.waits_for_hosts();
        lane.is_ok_and(|lane| lane.as_ref().is_some_and(waits))
    }

    /// Whether nobody uses it: not being opened, and no call under way.
    fn is_idle(&self) -> bool {
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
