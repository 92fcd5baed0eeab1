//! Retention under clocks that are wrong: what a backend must not drop, and what can be put back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;

use super::sample::{assert_sound, open, statuses, write_call};
use crate::{Backend, Clock, DropReason, Retained, RetentionLimits, RetentionPause, Stores};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

const LIMITS: RetentionLimits = RetentionLimits {
    days: 90,
    max_mb: 1024,
};
const NO_ROOM: RetentionLimits = RetentionLimits {
    days: 90,
    max_mb: 0,
};

/// A clock that is moved by hand.
#[derive(Debug)]
pub struct HandClock {
    now_us: AtomicI64,
    uptime_s: AtomicU64,
}

impl HandClock {
    /// A clock at some time in 2027.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            now_us: AtomicI64::new(1_800_000_000_000_000),
            uptime_s: AtomicU64::new(0),
        })
    }

    /// Lets time pass.
    pub fn pass(&self, seconds: i64) {
        self.jump(seconds);
        self.uptime_s
            .fetch_add(seconds.unsigned_abs(), Ordering::SeqCst);
    }

    /// Sets the wall clock forward or back.
    pub fn jump(&self, seconds: i64) {
        self.now_us.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    // Each look takes a microsecond, so that no two entries have the same time.
    fn now(&self) -> Timestamp {
        let now = self.now_us.fetch_add(1, Ordering::SeqCst);
        Timestamp::from_microsecond(now).expect("a time")
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(self.uptime_s.load(Ordering::SeqCst))
    }
}

type Promise = (&'static str, fn(&dyn Backend, &HandClock));

macro_rules! promises {
    ($($name:ident),* $(,)?) => { [$((concat!("clock::", stringify!($name)), $name as fn(&dyn Backend, &HandClock))),*] };
}

const PROMISES: [Promise; 8] = promises![
    a_clock_far_ahead_drops_nothing,
    a_clock_that_holds_for_a_day_is_believed,
    a_confirmed_clock_is_believed_at_once,
    a_clock_that_was_behind_drops_nothing,
    no_jump_of_the_clock_drops_anything,
    what_age_drops_can_be_put_back_for_a_day,
    what_size_drops_is_gone_at_once,
    an_empty_and_a_shortened_record_are_called_so,
];

/// Gives a backend to every promise about clocks. `fresh` makes an empty backend that reads the clock.
///
/// # Panics
///
/// When a promise is broken.
pub fn wrong_clocks_drop_nothing<B: Backend>(fresh: impl Fn(Arc<dyn Clock>) -> B) {
    for (name, promise) in PROMISES {
        let clock = HandClock::new();
        let backend = fresh(clock.clone());
        eprintln!("{name}");
        promise(&backend, &clock);
    }
}

fn retain(stores: &Stores) -> Retained {
    stores.archive.retain(LIMITS).expect("it looks")
}

fn write_calls(stores: &Stores, count: usize) {
    (0..count).for_each(|_| _ = write_call(&*stores.log));
}

/// Another start on the same place.
fn restart(backend: &dyn Backend, stores: Stores) -> Stores {
    drop(stores);
    open(backend)
}

#[track_caller]
fn assert_all(stores: &Stores, count: usize) {
    assert_eq!(statuses(&*stores.archive).len(), count);
    assert_sound(&*stores.archive);
}

#[track_caller]
fn assert_drops_nothing(stores: &Stores) {
    assert_eq!(retain(stores).drops, []);
}

fn is_paused_by_clock(retained: &Retained) -> bool {
    matches!(retained.paused, Some(RetentionPause::Clock { .. }))
}

fn a_clock_far_ahead_drops_nothing(backend: &dyn Backend, clock: &HandClock) {
    let mut stores = open(backend);
    write_calls(&stores, 40);
    clock.jump(100 * DAY);
    let mut calls = 40;
    for round in 0..4 {
        let retained = retain(&stores);
        assert!(
            retained.drops.is_empty() && is_paused_by_clock(&retained),
            "start {round}: {retained:?}"
        );
        // What is written meanwhile has the doubted time, and does not prove it.
        write_calls(&stores, 10);
        calls += 10;
        stores = restart(backend, stores);
        clock.pass(5 * HOUR);
    }
    assert_all(&stores, calls);
    clock.jump(-100 * DAY);
    let retained = retain(&stores);
    assert_eq!(retained, Retained::default(), "the clock is right again");
    assert_all(&stores, calls);
}

/// Hours with a look each, as a running gateway has them.
fn run_for(stores: &Stores, clock: &HandClock, hours: i64) -> Retained {
    let mut all = Retained::default();
    for _ in 0..hours {
        clock.pass(HOUR);
        let retained = retain(stores);
        all.drops.extend(retained.drops);
        all.paused = retained.paused;
    }
    all
}

fn a_clock_that_holds_for_a_day_is_believed(backend: &dyn Backend, clock: &HandClock) {
    let stores = open(backend);
    write_calls(&stores, 40);
    clock.jump(100 * DAY);
    assert!(is_paused_by_clock(&retain(&stores)));
    assert_eq!(run_for(&stores, clock, 23).drops, []);
    // The time is counted over several starts.
    let stores = restart(backend, stores);
    let retained = run_for(&stores, clock, 3);
    assert_eq!(retained.paused, None);
    assert!(retained.entries() > 0 && retained.bytes() > 0);
    let by_age = retained.drops.iter().all(|one| one.why == DropReason::Age);
    assert!(by_age, "{retained:?}");
    assert!(statuses(&*stores.archive).len() < 40);
    assert_sound(&*stores.archive);
}

fn a_confirmed_clock_is_believed_at_once(backend: &dyn Backend, clock: &HandClock) {
    let stores = open(backend);
    write_calls(&stores, 40);
    clock.jump(100 * DAY);
    assert!(is_paused_by_clock(&retain(&stores)));
    let shared = backend.shared().expect("it opens");
    let kept = shared.archive.clock().expect("it is read");
    assert!(kept.is_some_and(|kept| kept.jump.is_some()));
    shared.archive.confirm_clock().expect("it is kept");
    let retained = retain(&stores);
    assert!(
        retained.entries() > 0 && retained.paused.is_none(),
        "{retained:?}"
    );
    assert_sound(&*stores.archive);
}

fn a_clock_that_was_behind_drops_nothing(backend: &dyn Backend, clock: &HandClock) {
    let mut stores = open(backend);
    write_calls(&stores, 20);
    assert_drops_nothing(&stores);
    clock.jump(-10 * YEAR);
    write_calls(&stores, 20);
    assert_drops_nothing(&stores);
    stores = restart(backend, stores);
    write_calls(&stores, 20);
    assert_drops_nothing(&stores);
    clock.jump(10 * YEAR);
    let retained = run_for(&stores, clock, 30);
    assert_eq!(retained, Retained::default(), "the clock is believed again");
    stores = restart(backend, stores);
    assert_eq!(run_for(&stores, clock, 30), Retained::default());
    assert_all(&stores, 60);
}

fn no_jump_of_the_clock_drops_anything(backend: &dyn Backend, clock: &HandClock) {
    let mut stores = open(backend);
    let mut calls = 0;
    let steps = [1, HOUR, DAY, 6 * DAY, 8 * DAY, 100 * DAY, YEAR, 10 * YEAR];
    for step in steps.into_iter().flat_map(|step| [step, -step]) {
        // Before a start and back while it runs, and the other way round.
        clock.jump(step);
        stores = restart(backend, stores);
        write_calls(&stores, 3);
        assert_drops_nothing(&stores);
        clock.jump(-step);
        write_calls(&stores, 3);
        assert_drops_nothing(&stores);
        clock.jump(step);
        assert_drops_nothing(&stores);
        write_calls(&stores, 3);
        stores = restart(backend, stores);
        clock.jump(-step);
        assert_drops_nothing(&stores);
        calls += 9;
    }
    assert_eq!(run_for(&stores, clock, 48).drops, []);
    assert_all(&stores, calls);
}

/// Passes three months as a running gateway sees them; at the end of the last step what there is becomes too old.
fn grow_old(stores: &Stores, clock: &HandClock) -> Retained {
    let mut all = Retained::default();
    for days in [5; 17].into_iter().chain([6]) {
        clock.pass(days * DAY);
        let retained = retain(stores);
        assert_eq!(retained.paused, None);
        all.drops.extend(retained.drops);
    }
    all
}

fn what_age_drops_can_be_put_back_for_a_day(backend: &dyn Backend, clock: &HandClock) {
    let old = open(backend);
    write_calls(&old, 40);
    old.log.close().expect("it closes");
    let stores = restart(backend, old);
    write_calls(&stores, 20);
    let dropped = grow_old(&stores, clock);
    assert!(dropped.entries() >= 80, "{dropped:?}");
    let left = statuses(&*stores.archive).len();
    assert!(left <= 20, "{left} are left");
    assert_sound(&*stores.archive);
    let shared = backend.shared().expect("it opens");
    let restored = shared.archive.restore().expect("they are put back");
    assert!(restored.entries > 0 && restored.bytes > 0, "{restored:?}");
    assert_all(&stores, 60);
    let retained = retain(&stores);
    assert!(matches!(
        retained.paused,
        Some(RetentionPause::Restored { .. })
    ));
    assert_all(&stores, 60);
    let stores = restart(backend, stores);
    assert_all(&stores, 60);
    assert!(run_for(&stores, clock, 25).entries() > 0, "age drops again");
    assert!(statuses(&*stores.archive).len() < 60);
    run_for(&stores, clock, 25);
    let restored = shared.archive.restore().expect("it looks");
    assert_eq!(restored, Default::default(), "they are gone");
    assert_sound(&*stores.archive);
}

fn what_size_drops_is_gone_at_once(backend: &dyn Backend, clock: &HandClock) {
    let stores = open(backend);
    write_calls(&stores, 40);
    let dropped = stores.archive.retain(NO_ROOM).expect("they are dropped");
    let by_size = |one: &crate::DroppedEntries| one.why == DropReason::Size;
    assert!(dropped.entries() > 0 && dropped.drops.iter().all(by_size));
    assert_eq!(
        stores.archive.restore().expect("it looks"),
        Default::default()
    );
    write_calls(&stores, 40);
    assert!(grow_old(&stores, clock).entries() > 0);
    // The trash counts, and goes before what is on record.
    stores.archive.retain(NO_ROOM).expect("it is emptied");
    assert_eq!(
        stores.archive.restore().expect("it looks"),
        Default::default()
    );
    assert_sound(&*stores.archive);
}

fn an_empty_and_a_shortened_record_are_called_so(backend: &dyn Backend, _clock: &HandClock) {
    let notes = |archive: &dyn crate::Archive| archive.verify(None).expect("it is read").notes;
    let shared = backend.shared().expect("it opens");
    let empty = notes(&*shared.archive);
    assert!(empty.iter().any(|note| note.contains("empty")), "{empty:?}");
    let stores = open(backend);
    write_calls(&stores, 40);
    assert!(notes(&*stores.archive).is_empty());
    let dropped = stores.archive.retain(NO_ROOM).expect("they are dropped");
    let shortened = notes(&*stores.archive);
    let expected = format!(
        "dropped {} entries: beyond the size limit",
        dropped.entries()
    );
    assert!(
        shortened.iter().any(|note| note.contains(&expected)),
        "{shortened:?}, {expected}"
    );
}
