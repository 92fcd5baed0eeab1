//! `kill -9` at any moment loses no record of a call that was forwarded, and calls no outcome a
//! success that was not seen.

use std::collections::HashSet;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use callgate_testkit::frame::Frame;
use callgate_testkit::{HttpHost, StdioHost, wait_until};

use crate::evidence::{
    COUNTER, alive, assert_done, assert_sound, call_line, is_success, key, ledger, record_of,
    records,
};
use crate::setup::Bed;

/// How many gateways are killed unless `CALLGATE_KILLS` says otherwise.
const KILLS: u64 = 20;
/// How many calls a gateway is given before it is killed.
const CALLS: u64 = 40;
/// The longest that a gateway lives under load: about as long as the load takes.
const LIFE_US: u64 = 10_000;
/// The longest for one that gets its load while its upstream is still starting.
const COLD_LIFE_US: u64 = 40_000;

/// The calls that one gateway was given, and those that it said were done.
#[derive(Debug, Default)]
struct Seen {
    sent: Vec<String>,
    done: Vec<String>,
}

impl Seen {
    fn join(&mut self, other: Self) {
        self.sent.extend(other.sent);
        self.done.extend(other.done);
    }
}

/// A small generator, so that a run can be repeated from its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// The calls of one gateway: mostly quick effects, some slow, and the first one never ends.
fn load(round: &str) -> Vec<(String, String)> {
    let one = |at: u64| {
        let key = format!("{round}-{at}");
        let line = match at {
            0 => call_line(at, "slow", &format!(r#"{{"key":"{key}","ms":600000}}"#)),
            at if at % 5 == 0 => call_line(at, "slow", &format!(r#"{{"key":"{key}","ms":5}}"#)),
            at => call_line(at, "effect", &format!(r#"{{"key":"{key}"}}"#)),
        };
        (key, line)
    };
    (0..CALLS).map(one).collect()
}

/// Whether the upstream is there when the load begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Warm,
    Cold,
}

/// A stdio gateway under load, killed after `life`.
fn kill_stdio(bed: &Bed, round: &str, start: Start, life: Duration) -> Seen {
    let mut host = bed.stdio_ready();
    let calls = load(round);
    let mut done = Vec::new();
    if start == Start::Warm {
        let key = format!("{round}-first");
        assert_done(host.call(1_000, "n__effect", &format!(r#"{{"key":"{key}"}}"#)));
        done.push(key);
    }
    for (_, line) in &calls {
        host.send(line).expect("the gateway reads");
    }
    // Not a wait for anything: the moment of death is what is varied.
    thread::sleep(life);
    host.kill().expect("it is ours");
    let mut seen = Seen {
        sent: calls.iter().map(|(key, _)| key.clone()).collect(),
        done,
    };
    // What the gateway has written before it died was said, even if it is read later.
    while let Ok(line) = host.recv_within(Duration::from_secs(5)) {
        let id = Frame::parse(&line).and_then(|frame| frame.id);
        let at = id.and_then(|id| id.parse::<usize>().ok());
        if let Some((key, _)) = at.and_then(|at| calls.get(at))
            && is_success(&line)
        {
            seen.done.push(key.clone());
        }
    }
    seen
}

/// A gateway over HTTP under load, killed after `life`.
fn kill_serve(bed: &Bed, round: &str, life: Duration) -> Seen {
    let mut served = bed.serve();
    let host = served.host_ready();
    let first = call_line(1_000, "effect", &format!(r#"{{"key":"{round}-first"}}"#));
    let first = host.post(&first).and_then(|reply| reply.frames());
    assert_done(first.map(|frames| frames.concat()));
    let calls = load(round);
    let sent = calls.iter().map(|(key, _)| key.clone()).collect();
    let (done, answers) = mpsc::channel();
    let posts: Vec<_> = calls
        .into_iter()
        .map(|(key, line)| {
            let (host, done) = (host.clone(), done.clone());
            thread::spawn(move || {
                if post(&host, &line).is_some() {
                    let _ = done.send(key);
                }
            })
        })
        .collect();
    thread::sleep(life);
    served.process.kill().expect("it is ours");
    for post in posts {
        post.join().expect("a post ends with its connection");
    }
    drop(done);
    let mut seen = Seen {
        sent,
        done: vec![format!("{round}-first")],
    };
    seen.done.extend(answers);
    seen
}

/// Posts a call; something when it was answered with a success.
fn post(host: &HttpHost, line: &str) -> Option<String> {
    let answer = host.post(line).ok()?.frames().ok()?.pop()?;
    is_success(&answer).then_some(answer)
}

/// Starts and ends a gateway in good order, which closes what dead ones left open.
fn start_once(bed: &Bed) -> StdioHost {
    let mut host = bed.stdio_ready();
    host.close(Duration::from_secs(10)).expect("it ends on EOF");
    host
}

#[test]
fn kill_9_loses_no_forwarded_call() {
    let setting = |name: &str| std::env::var(name).ok()?.parse().ok();
    let kills: u64 = setting("CALLGATE_KILLS").unwrap_or(KILLS);
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = clock.map_or(1, |now| now.as_nanos() as u64) | 1;
    let seed = setting("CALLGATE_SEED").unwrap_or(seed);
    let mut dice = Dice(seed);
    let bed = Bed::new(COUNTER);
    let mut seen = Seen::default();
    let mut kill = 0;
    while kill < kills {
        let round = format!("k{kill}");
        let cold = Duration::from_micros(dice.below(COLD_LIFE_US));
        let mut life = || Duration::from_micros(dice.below(LIFE_US));
        match kill % 5 {
            1 => seen.join(kill_stdio(&bed, &round, Start::Cold, cold)),
            2 => seen.join(kill_serve(&bed, &round, life())),
            // Two writers on one folder at once.
            3 => {
                let (one, two) = (life(), life());
                let other = format!("k{kill}b");
                thread::scope(|scope| {
                    let beside = scope.spawn(|| kill_stdio(&bed, &other, Start::Warm, two));
                    seen.join(kill_stdio(&bed, &round, Start::Warm, one));
                    seen.join(beside.join().expect("the other gateway is killed"));
                });
                kill += 1;
            }
            _ => seen.join(kill_stdio(&bed, &round, Start::Warm, life())),
        }
        kill += 1;
    }
    let all_gone = wait_until(Duration::from_secs(5), || alive(&bed).is_empty());
    assert!(all_gone, "seed {seed}: something survived the gateways");
    start_once(&bed);
    compare(&bed, &seen, &format!("seed {seed}, {kill} kills"));
}

/// Holds the record against the upstream's ledger and against what the hosts were told.
fn compare(bed: &Bed, seen: &Seen, run: &str) {
    let records = records(bed);
    let effects: HashSet<String> = ledger(bed)
        .into_iter()
        .filter(|line| !line.contains(':'))
        .collect();
    for effect in &effects {
        assert!(
            record_of(&records, effect).is_some(),
            "{run}: `{effect}` happened and is not on record"
        );
    }
    for done in &seen.done {
        let status = record_of(&records, done).map(|record| &record["status"]);
        assert_eq!(
            status.and_then(|status| status.as_str()),
            Some("success"),
            "{run}: `{done}` was answered"
        );
    }
    let count = |wanted: &str| {
        let with = records.iter().filter(|record| record["status"] == wanted);
        with.count()
    };
    for record in &records {
        match record["status"].as_str() {
            Some("success") => assert!(
                effects.contains(key(record)),
                "{run}: `{}` reads success and never happened",
                key(record)
            ),
            Some("unknown") => {}
            other => panic!("{run}: `{}` reads {other:?}", key(record)),
        }
    }
    assert!(count("unknown") > 0, "{run}: no call was cut short");
    assert_sound(bed);
    println!(
        "{run}: {} calls sent, {} effects, {} answered, {} on record ({} success, {} unknown)",
        seen.sent.len(),
        effects.len(),
        seen.done.len(),
        records.len(),
        count("success"),
        count("unknown"),
    );
}

#[test]
fn every_record_is_written_once_the_last_reply_arrived() {
    let bed = Bed::new(COUNTER);
    let mut host = bed.stdio_ready();
    let total = 200;
    for id in 1..=total {
        let arguments = format!(r#"{{"key":"c{id}"}}"#);
        host.send(&call_line(id, "effect", &arguments))
            .expect("the gateway reads");
    }
    for _ in 1..=total {
        let line = host.recv_where(|frame| frame.result.is_some());
        assert_done(line);
    }
    host.kill().expect("it is ours");
    let records = records(&bed);
    assert_eq!(
        records.len(),
        usize::try_from(total).expect("a small number")
    );
    assert!(records.iter().all(|record| record["status"] == "success"));
    assert_sound(&bed);
}
