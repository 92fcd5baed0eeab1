//! Simulations: one seed is one schedule of calls through the call path, approvals, hosts that go away, failing and full
//! disks, crashes, power cuts, wrong clocks, restarts and retention. What was promised is compared with what is on record after every crash and restart.
//!
//! `CALLGATE_SEEDS` says how many seeds to try; `CALLGATE_SEED` runs one and prints its steps.

mod approvals;
mod clock;
mod disk;
mod found;
mod gateway;
mod life;
mod model;
mod random;
mod servers;
mod world;

use std::{
    env,
    panic::catch_unwind,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use world::World;

/// How many seeds are tried unless a variable says otherwise.
const SEEDS: u64 = 1000;
/// A file system in memory.
const MEMORY: &str = "/dev/shm";

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// A folder for one seed, in memory where that can be had.
fn folder() -> tempfile::TempDir {
    let memory = PathBuf::from(MEMORY);
    let is_there = cfg!(target_os = "linux") && memory.is_dir();
    let made = is_there
        .then(|| tempfile::tempdir_in(memory).ok())
        .flatten();
    made.unwrap_or_else(|| tempfile::tempdir().unwrap())
}

#[test]
fn no_seeded_schedule_breaks_a_promise() {
    if let Some(seed) = number("CALLGATE_SEED") {
        return World::new(seed, folder()).tell().live();
    }
    let seeds = number("CALLGATE_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let broken = Mutex::new(Vec::new());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| run_all(seeds, &next, &broken));
        }
    });
    let broken = broken.into_inner().unwrap();
    assert!(
        broken.is_empty(),
        "a promise is broken by the seeds {broken:?}; replay one with `cargo xtask soak seeds --seed N`"
    );
    println!("{seeds} seeds, no broken promise");
}

/// Runs the next seed until all were run or one broke a promise.
fn run_all(seeds: u64, next: &AtomicU64, broken: &Mutex<Vec<u64>>) {
    loop {
        let seed = next.fetch_add(1, Ordering::SeqCst);
        if seed >= seeds {
            return;
        }
        if catch_unwind(|| World::new(seed, folder()).live()).is_err() {
            broken.lock().unwrap().push(seed);
            next.store(seeds, Ordering::SeqCst);
        }
        if seed > 0 && seed.is_multiple_of(50_000) {
            println!("{seed} seeds");
        }
    }
}
