//! What readers wait for, at one size of the record.

use std::{
    fs,
    hint::black_box,
    time::{Duration, Instant},
};

use callgate_gate::CallId;
use callgate_record::{ActivityFilter, Archive, Status};
use callgate_store::Records;

use super::{
    Outcome,
    figures::{Figure, Unit},
    load::{Load, disk_bytes},
};

const TIMES: usize = 31;

pub(crate) fn all(load: &mut Load) -> Outcome<Vec<Figure>> {
    let mut figures = vec![Figure::new(
        "start after a crash",
        Unit::Time,
        median(5, || load.open())?,
    )];
    let records = load.archive()?;
    // Reads what the starts above have written.
    let page = records.page(&ActivityFilter::default())?;
    figures.push(Figure::new("records", Unit::Count, page.total as f64));
    figures.extend(costs(load)?);
    figures.extend(queries(records, load)?);
    let dir = load.dir.clone();
    let first = median(5, || {
        let started = Instant::now();
        Records::new(&dir).page(&ActivityFilter::default())?;
        Ok(started.elapsed())
    })?;
    figures.push(Figure::new("first list of a process", Unit::Time, first));
    figures.extend(verified(load)?);
    Ok(figures)
}

fn costs(load: &Load) -> Outcome<Vec<Figure>> {
    let index: u64 = [
        "index.sqlite",
        "index.sqlite-wal",
        "index.sqlite-shm",
        "index.seal",
    ]
    .iter()
    .map(|name| fs::metadata(load.dir.join(name)).map_or(0, |data| data.len()))
    .sum();
    let all = disk_bytes(&load.dir)?;
    let records = load.calls as f64;
    Ok(vec![
        Figure::new("index, CPU per call", Unit::Us, load.indexed.us_per_call()),
        Figure::new("log, CPU per call", Unit::Us, load.written.us_per_call()),
        Figure::new(
            "retention, CPU per call",
            Unit::Us,
            load.retained.us_per_call(),
        ),
        Figure::new("index, bytes per call", Unit::Bytes, index as f64 / records),
        Figure::new("all, bytes per call", Unit::Bytes, all as f64 / records),
    ])
}

/// What is listed, and under which filter.
fn filters(load: &Load) -> [(&'static str, ActivityFilter); 6] {
    let none = ActivityFilter::default;
    let text = |text: &str| Some(text.to_owned());
    let session = format!("s{}", load.calls.saturating_sub(1000) / 200);
    [
        ("list", none()),
        (
            "list of a server",
            ActivityFilter {
                server: text("server3"),
                ..none()
            },
        ),
        (
            "list of failures",
            ActivityFilter {
                status: Some(Status::Error),
                ..none()
            },
        ),
        (
            "list of a session",
            ActivityFilter {
                session_id: Some(session),
                ..none()
            },
        ),
        (
            "list of a server and an intent",
            ActivityFilter {
                server: text("server3"),
                intent_type: text("read"),
                ..none()
            },
        ),
        (
            "list without a match",
            ActivityFilter {
                server: text("none"),
                ..none()
            },
        ),
    ]
}

fn queries(records: &Records, load: &Load) -> Outcome<Vec<Figure>> {
    let mut figures = Vec::new();
    for (what, filter) in filters(load) {
        let took = median(TIMES, || {
            let started = Instant::now();
            black_box(records.page(&filter)?);
            Ok(started.elapsed())
        })?;
        figures.push(Figure::new(what, Unit::Time, took));
    }
    let mut at = 0;
    let shown = median(TIMES, || {
        at += 1;
        let newest = load.ids.len() - 1 - at % load.ids.len().min(5);
        let started = Instant::now();
        black_box(records.get(CallId(load.ids[newest]))?).ok_or("it is on record")?;
        Ok(started.elapsed())
    })?;
    figures.push(Figure::new("show", Unit::Time, shown));
    Ok(figures)
}

/// Verifies, and returns how long that took and how much memory it needed more than before.
fn verified(load: &Load) -> Outcome<Vec<Figure>> {
    let records = Records::new(&load.dir);
    // The kernel counts the highest memory from now on.
    fs::write("/proc/self/clear_refs", "5")?;
    let before = status_kb("VmRSS:")?;
    let started = Instant::now();
    let found = records.verify(None)?;
    let took = started.elapsed();
    if !found.is_sound() {
        return Err(format!("not sound: {found:?}").into());
    }
    let more = status_kb("VmHWM:")?.saturating_sub(before);
    Ok(vec![
        Figure::new("verify", Unit::Time, took.as_secs_f64()),
        Figure::new("verify, memory", Unit::Mb, more as f64 / 1024.0),
    ])
}

fn status_kb(name: &str) -> Outcome<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kb = line.and_then(|line| line.split_whitespace().next());
    Ok(kb.ok_or("the kernel counts memory")?.parse()?)
}

fn median(times: usize, mut act: impl FnMut() -> Outcome<Duration>) -> Outcome<f64> {
    let mut all = (0..times)
        .map(|_| act().map(|took| took.as_secs_f64()))
        .collect::<Outcome<Vec<_>>>()?;
    all.sort_by(f64::total_cmp);
    Ok(all[all.len() / 2])
}
