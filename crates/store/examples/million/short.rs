//! Processes that make one call each, as `callgate call` does: what each leaves on the disk, and how long it takes to start.

use std::{path::Path, time::Instant};

use callgate_record::Store as _;
use callgate_store::{Log, LogOptions};
use ulid::Ulid;

use super::{
    Outcome,
    load::{began, disk_bytes, ended},
};

pub(crate) fn run(dir: &Path, count: u64) -> Outcome {
    // The first is what commands no longer do: a start looks at each of their folders.
    let few = (count / 10).max(1);
    for (way, resumes, count) in [
        ("a chain each", false, few),
        ("one chain for many", true, count),
    ] {
        let dir = dir.join(way);
        let mut starts = Vec::new();
        for n in 0..count {
            let started = Instant::now();
            let log = Log::open(LogOptions {
                resumes,
                ..LogOptions::new(&dir, "soak")
            })?;
            starts.push(started.elapsed());
            let id = Ulid::generate();
            log.append(&began(id, n)?)?;
            log.append_or_queue(ended(id, n)?);
            log.close()?;
        }
        let last = &mut starts[(count - count.min(100)) as usize..];
        last.sort();
        println!(
            "{count} processes of one call, {way}: {} bytes of disk each, start {:.2} ms (median of the last {})",
            disk_bytes(&dir)? / count,
            last[last.len() / 2].as_secs_f64() * 1e3,
            last.len(),
        );
        let found = callgate_store::verify(&dir, None)?;
        if !found.is_sound() || found.entries < 2 * count {
            return Err(format!("not sound: {found:?}").into());
        }
    }
    Ok(())
}
