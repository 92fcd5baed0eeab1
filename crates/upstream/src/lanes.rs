//! The lanes of one server beside its primary one: a process for each kind of host.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
}

/// Where the lane of a profile is, or is to be.
enum Place {
    /// There is a slot already.
    Known(Arc<AsyncMutex<Option<Lane>>>),
    /// A fresh slot, held, and the one that made room for it.
    Fresh {
        lane: OwnedMutexGuard<Option<Lane>>,
        gives_way: Option<Slot>,
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
        open_lane: impl FnOnce() -> F,
    ) -> Result<Connection, LaneError>
    where
        F: Future<Output = Result<Lane, LaneError>>,
    {
        let mut lane = match self.place(profile)? {
            Place::Known(lane) => lane.lock_owned().await,
            Place::Fresh { lane, gives_way } => {
                // Before another process starts, so that there are never more than the limit.
                if let Some(slot) = gives_way {
                    slot.close().await;
                }
                lane
            }
        };
        if let Some(connection) = lane.as_ref().and_then(live) {
            return Ok(connection);
        }
        if let Some(ended) = lane.take() {
            ended.close().await;
        }
        let opened = lane.insert(open_lane().await?);
        Ok(opened.connection.clone())
    }

    pub(crate) async fn close_all(&self) {
        let slots: Vec<Slot> = self.lock().drain(..).collect();
        futures_util::future::join_all(slots.into_iter().map(Slot::close)).await;
    }

    fn place(&self, profile: &Profile) -> Result<Place, LaneError> {
        let mut slots = self.lock();
        if let Some(slot) = slots.iter().find(|slot| slot.fits(profile)) {
            return Ok(Place::Known(slot.lane.clone()));
        }
        let mut gives_way = None;
        if slots.len() >= self.limit {
            let idle = slots.iter().position(Slot::is_idle);
            let at = idle.ok_or(LaneError::TooMany {
                limit: self.limit + 1,
            })?;
            gives_way = Some(slots.remove(at));
        }
        let lane = Arc::new(AsyncMutex::new(None));
        let held = lane.clone().try_lock_owned();
        slots.push(Slot {
            profile: profile.clone(),
            lane,
        });
        Ok(Place::Fresh {
            lane: held.expect("nobody else knows a fresh lock"),
            gives_way,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    fn fits(&self, profile: &Profile) -> bool {
        self.profile.fits(profile)
    }

    /// Whether nobody uses it: not being opened, and no call under way.
    fn is_idle(&self) -> bool {
        let alone = Arc::strong_count(&self.lane) == 1;
        let lane = self.lane.try_lock();
        alone && lane.is_ok_and(|lane| lane.as_ref().is_none_or(|lane| lane.connection.is_idle()))
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
