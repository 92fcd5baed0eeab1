//! The wall clock, and how far retention believes it.
//!
//! A wrong clock must not make a year of records look old. [`ClockTrust`] is what a backend keeps between looks: a
//! clock far ahead of everything known is believed only after it has held for a day of uptime, or when a person
//! confirms it. Entries that were written meanwhile have the doubted time, so they prove nothing.

use std::{
    fmt::Debug,
    sync::OnceLock,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// How far the clock may be ahead of the newest trusted time and still be believed at once.
pub const CLOCK_TOLERANCE: SignedDuration = SignedDuration::from_hours(7 * 24);
/// For how much uptime a jumped clock must hold before it is believed.
pub const CLOCK_PROOF: Duration = Duration::from_secs(24 * 3600);
/// How long dropped entries can be put back, and how long age drops nothing after that.
pub const TRASH_TIME: SignedDuration = SignedDuration::from_hours(24);

/// The time as a backend reads it.
pub trait Clock: Send + Sync + Debug {
    /// The wall clock. It can be wrong, and it can jump.
    fn now(&self) -> Timestamp;

    /// The time since some moment of this process. It never jumps.
    fn uptime(&self) -> Duration;
}

/// The clock of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn uptime(&self) -> Duration {
        static BEGAN: OnceLock<Instant> = OnceLock::new();
        BEGAN.get_or_init(Instant::now).elapsed()
    }
}

/// A clock that is ahead of everything known and not believed yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockJump {
    /// What the clock showed at the last look.
    pub seen: Timestamp,
    /// For how many seconds of uptime it has held.
    pub held_s: u64,
}

/// How far the wall clock is believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockTrust {
    /// The newest time that is believed. It follows a clock that was set back.
    pub trusted: Timestamp,
    /// The newest time that was ever believed: what is written later is younger than this, whatever its time says.
    pub highest: Timestamp,
    /// Present while the clock is not believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jump: Option<ClockJump>,
    /// When entries were last put back from the trash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored: Option<Timestamp>,
}

/// Why age drops nothing at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetentionPause {
    /// The clock jumped ahead of everything known.
    Clock {
        /// The newest time that is believed.
        trusted: Timestamp,
        /// What the clock shows.
        now: Timestamp,
        /// For how many seconds of uptime it has held.
        held_s: u64,
    },
    /// Entries were put back from the trash, and must not be dropped again at once.
    Restored { at: Timestamp },
}

impl ClockTrust {
    /// A beginning: `now` is believed.
    pub fn new(now: Timestamp) -> Self {
        Self {
            trusted: now,
            highest: now,
            jump: None,
            restored: None,
        }
    }

    /// What the times of entries show where nothing was kept; none without times. `times` is sorted here.
    // A gap beyond the tolerance can be a jump of the clock as well as a pause, so times behind it prove nothing.
    pub fn from_times(mut times: Vec<Timestamp>) -> Option<Self> {
        times.sort_unstable();
        let first = *times.first()?;
        let trusted = times.iter().fold(first, |trusted, time| {
            if time.duration_since(trusted) <= CLOCK_TOLERANCE {
                *time
            } else {
                trusted
            }
        });
        Some(Self::new(trusted))
    }

    /// Looks at the clock. `since` is the uptime since the last look of this process, if there was one.
    pub fn look(&mut self, now: Timestamp, since: Option<Duration>) {
        if now.duration_since(self.trusted) <= CLOCK_TOLERANCE {
            self.jump = None;
            // A clock that was set back far may be right now and have been wrong before: believing it makes a later
            // jump ahead count as one.
            let is_far_back = self.trusted.duration_since(now) > CLOCK_TOLERANCE;
            if now > self.trusted || is_far_back {
                self.trusted = now;
            }
            self.highest = self.highest.max(now);
            return;
        }
        let since = since.unwrap_or_default().as_secs();
        let held_s = match self.jump {
            Some(jump) if continues(jump.seen, now) => jump.held_s.saturating_add(since),
            // Another jump begins anew.
            Some(_) | None => 0,
        };
        self.jump = Some(ClockJump { seen: now, held_s });
        if held_s >= CLOCK_PROOF.as_secs() {
            self.confirm(now);
        }
    }

    /// Believes the clock as it is: a person has looked at it.
    pub fn confirm(&mut self, now: Timestamp) {
        self.trusted = now;
        self.highest = self.highest.max(now);
        self.jump = None;
    }

    /// Why age drops nothing at `now`, if so.
    pub fn pause(&self, now: Timestamp) -> Option<RetentionPause> {
        if let Some(jump) = self.jump {
            return Some(RetentionPause::Clock {
                trusted: self.trusted,
                now,
                held_s: jump.held_s,
            });
        }
        let at = self.restored?;
        (now.duration_since(at).abs() < TRASH_TIME).then_some(RetentionPause::Restored { at })
    }
}

impl std::fmt::Display for RetentionPause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Clock {
                trusted,
                now,
                held_s,
            } => write!(
                f,
                "the clock shows {now:.0}, {} days after the newest trusted time {trusted:.0}; it has held for {} h of \
                 uptime and is believed after {} h",
                now.duration_since(*trusted).as_hours() / 24,
                held_s / 3600,
                CLOCK_PROOF.as_secs() / 3600,
            ),
            Self::Restored { at } => write!(f, "entries were put back from the trash at {at:.0}"),
        }
    }
}

/// Whether a clock that showed `seen` has only gone on since.
fn continues(seen: Timestamp, now: Timestamp) -> bool {
    now.duration_since(seen).abs() <= CLOCK_TOLERANCE
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);
    const DAY: i64 = 24 * 3600;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn a_jump_is_believed_after_a_day_of_uptime() {
        let mut trust = ClockTrust::new(at(0));
        trust.look(at(7 * DAY), None);
        assert_eq!(trust.pause(at(7 * DAY)), None, "it may have been off");
        trust.look(at(107 * DAY), None);
        for hours in 1..24 {
            let now = at(107 * DAY + hours * 3600);
            trust.look(now, Some(HOUR));
            assert!(trust.pause(now).is_some(), "after {hours} hours");
        }
        // A restart proves nothing, and loses nothing.
        let now = at(108 * DAY);
        trust.look(now, None);
        assert!(trust.pause(now).is_some());
        trust.look(now, Some(HOUR));
        assert_eq!(trust.pause(now), None);
        assert_eq!(trust.highest, now);
    }

    #[test]
    fn another_jump_begins_anew() {
        let mut trust = ClockTrust::new(at(0));
        trust.look(at(100 * DAY), None);
        trust.look(at(100 * DAY), Some(23 * HOUR));
        trust.look(at(300 * DAY), Some(23 * HOUR));
        assert!(trust.pause(at(300 * DAY)).is_some());
        trust.look(at(1), Some(HOUR));
        assert_eq!(trust, ClockTrust::new(at(1)), "it came back");
    }

    #[test]
    fn times_behind_a_gap_prove_nothing() {
        let times = |days: &[i64]| days.iter().map(|day| at(day * DAY)).collect();
        assert_eq!(ClockTrust::from_times(Vec::new()), None);
        let trust = ClockTrust::from_times(times(&[107, 0, 3, 9, 108])).unwrap();
        assert_eq!(trust.trusted, at(9 * DAY));
    }

    proptest! {
        #[test]
        fn no_sequence_of_short_looks_believes_a_far_clock(
            steps in prop::collection::vec((-4000i64..4000, 0u64..3600), 1..20),
        ) {
            let mut trust = ClockTrust::new(at(0));
            for (day, since) in steps {
                let now = at(day * DAY);
                let before = trust.trusted;
                trust.look(now, Some(Duration::from_secs(since)));
                if now.duration_since(before) > CLOCK_TOLERANCE {
                    prop_assert!(trust.pause(now).is_some());
                }
            }
        }
    }
}
