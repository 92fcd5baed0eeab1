//! What is wrong with the data folder, as health reports it until it is right again.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use callgate_record::Stores;
use jiff::{SignedDuration, Timestamp};

/// A clock that was set back by less is not worth a word.
const CLOCK_SLACK: SignedDuration = SignedDuration::from_secs(60);
/// For how long a clock that was set back is reported.
const CLOCK_TOLD_FOR: Duration = Duration::from_secs(3600);

/// A place where something can be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Folder,
    Approvals,
    Index,
    Retention,
    Clock,
    Heads,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Troubles(Arc<Mutex<BTreeMap<Place, String>>>);

impl Troubles {
    /// Notes what is wrong there now, if anything is.
    pub(crate) fn note(&self, place: Place, trouble: Option<String>) {
        match trouble {
            Some(trouble) => _ = self.lock().insert(place, trouble),
            None => _ = self.lock().remove(&place),
        }
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.lock().values().cloned().collect()
    }

    /// Looks at the files that calls do not need all the time.
    pub(crate) fn look(&self, stores: &Stores) {
        self.note(Place::Folder, stores.log.trouble());
        let now = Timestamp::now();
        let approvals = stores.approvals.pending(now).err();
        self.note(Place::Approvals, approvals.map(|error| error.to_string()));
        let was_paused = self.lock().contains_key(&Place::Retention);
        if was_paused
            && let Ok(Some(trust)) = stores.archive.clock()
            && trust.pause(now).is_none()
        {
            // The clock was confirmed, or is right again.
            self.note(Place::Retention, None);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Place, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notices a wall clock that is set back.
#[derive(Debug)]
pub(crate) struct ClockWatch {
    wall: Timestamp,
    seen: Instant,
    /// When it was set back, and by how much.
    set_back: Option<(Instant, SignedDuration)>,
}

impl ClockWatch {
    pub(crate) fn start() -> Self {
        Self {
            wall: Timestamp::now(),
            seen: Instant::now(),
            set_back: None,
        }
    }

    /// Compares the wall clock with the time that has passed.
    pub(crate) fn look(&mut self, wall: Timestamp) -> Option<String> {
        let passed = SignedDuration::try_from(self.seen.elapsed()).unwrap_or_default();
        let behind = passed - wall.duration_since(self.wall);
        (self.wall, self.seen) = (wall, Instant::now());
        if behind > CLOCK_SLACK {
            self.set_back = Some((self.seen, behind));
        }
        let told = self
            .set_back
            .filter(|(at, _)| at.elapsed() < CLOCK_TOLD_FOR);
        told.map(|(_, by)| {
            format!(
                "the clock was set back by {} s: times on record overlap, and expiries come later",
                by.as_secs()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_that_is_set_back_is_reported() {
        let mut watch = ClockWatch::start();
        let now = Timestamp::now();
        let after = |seconds| now + SignedDuration::from_secs(seconds);
        assert_eq!(watch.look(after(0)), None);
        assert_eq!(
            watch.look(after(3600)),
            None,
            "forward is retention's business"
        );
        let told = watch.look(after(0)).expect("it was set back by an hour");
        assert!(
            told.contains("set back by 36") || told.contains("set back by 35"),
            "{told}"
        );
        assert!(watch.look(after(1)).is_some(), "still told");
    }

    #[test]
    fn a_trouble_is_told_until_it_is_over() {
        let troubles = Troubles::default();
        troubles.note(Place::Index, Some("broken".to_owned()));
        troubles.note(Place::Folder, None);
        assert_eq!(troubles.all(), ["broken"]);
        troubles.note(Place::Index, None);
        assert!(troubles.all().is_empty());
    }
}
