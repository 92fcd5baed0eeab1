//! The bytes in flight are limited: memory stays bounded, HTTP clients are told to retry, and
//! stdio waits and loses nothing.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use callgate_testkit::{Frame, HttpReply};

use crate::evidence::{COUNTER, assert_done, call_line, is_success, ledger, wait_for_effect};
use crate::setup::{Bed, Served};
use crate::talk::answer_line;

const MIB: usize = 1024 * 1024;
/// How many bodies of 1 MiB are posted at once.
const POSTS: u64 = 160;

fn bed(inflight_mib: usize) -> Bed {
    Bed::new(&format!(
        "{COUNTER}limits: {{inflight_mib: {inflight_mib}}}\n"
    ))
}

/// A call that is so many bytes long.
fn padded(id: u64, tool: &str, arguments: &str, bytes: usize) -> String {
    let pad = "p".repeat(bytes);
    let arguments = arguments.trim_end_matches('}');
    call_line(id, tool, &format!(r#"{arguments},"pad":"{pad}"}}"#))
}

/// The private memory of a process, in bytes.
fn own_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// The peak of a process's private memory while a closure runs.
fn peak_during(pid: u32, act: impl FnOnce()) -> u64 {
    let (peak, done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                peak.fetch_max(own_memory(pid), Ordering::Relaxed);
                // Not a synchronisation: the interval between samples of memory.
                thread::sleep(Duration::from_millis(2));
            }
        });
        act();
        done.store(true, Ordering::Relaxed);
    });
    peak.into_inner()
}

/// Posts many large calls at once; gives the statuses and successes.
fn post_all(served: &Served, round: &'static str, posts: u64) -> Vec<(u16, bool)> {
    let host = served.host_ready();
    let one = |at: u64| {
        let host = host.clone();
        move || {
            let line = padded(at, "effect", &format!(r#"{{"key":"{round}{at}"}}"#), MIB);
            let reply = host.post(&line).expect("it answers");
            let (status, told) = (reply.status, reply.header("retry-after").is_some());
            assert_eq!(status == 503, told, "503 says when to come again");
            let answer = reply.frames().expect("it is JSON").concat();
            assert_eq!(status == 503, answer.contains(r#""message":"busy""#));
            (status, is_success(&answer))
        }
    };
    let posts: Vec<_> = (0..posts).map(|at| thread::spawn(one(at))).collect();
    let joined = posts.into_iter().map(|post| post.join());
    joined.map(|post| post.expect("a post ends")).collect()
}

#[test]
fn many_concurrent_large_bodies_stay_within_the_memory_budget() {
    let bed = bed(8);
    let served = bed.serve();
    let pid = served.process.pid();
    // The first calls allocate what is allocated once.
    post_all(&served, "first", 4);
    let before = own_memory(pid);
    let mut answers = Vec::new();
    let peak = peak_during(pid, || answers = post_all(&served, "then", POSTS));
    let done = answers.iter().filter(|(_, success)| *success).count();
    for (status, success) in &answers {
        let fits = matches!((status, success), (200, true) | (503, false));
        assert!(fits, "{status}, success {success}");
    }
    let grown = peak.saturating_sub(before) / MIB as u64;
    println!("{POSTS} bodies of 1 MiB: {done} done, the rest 503; memory grew by {grown} MiB");
    assert!(done >= 8, "only {done} were done");
    assert!(grown < 64, "memory grew by {grown} MiB on a budget of 8");
    let effects = ledger(&bed);
    let effects = effects.iter().filter(|key| key.starts_with("then"));
    assert_eq!(effects.count(), done, "what was refused was not done");
    let after = served.host_ready().post(&call_line(1, "read_thing", "{}"));
    assert_done(
        after
            .and_then(HttpReply::frames)
            .map(|frames| frames.concat()),
    );
}

#[test]
fn a_request_larger_than_the_budget_is_served_alone() {
    let bed = bed(1);
    let served = bed.serve();
    let line = padded(1, "effect", r#"{"key":"http"}"#, 3 * MIB);
    let reply = served.host_ready().post(&line);
    assert_done(
        reply
            .and_then(HttpReply::frames)
            .map(|frames| frames.concat()),
    );
    let mut host = bed.stdio_ready();
    let line = padded(1, "effect", r#"{"key":"stdio"}"#, 3 * MIB);
    assert_done(host.request(&line));
    let large = host.call(2, "n__big", r#"{"bytes":3000000}"#);
    assert_done(large);
    assert_eq!(ledger(&bed), ["http", "stdio"]);
}

#[test]
fn http_clients_are_told_to_retry_when_the_budget_is_used_up() {
    let bed = bed(1);
    let served = bed.serve();
    let host = served.host_ready();
    let holding = {
        let host = host.clone();
        let arguments = r#"{"key":"holds","ms":600000}"#;
        let line = padded(1, "slow", arguments, MIB);
        thread::spawn(move || host.post(&line).map(|reply| reply.status))
    };
    wait_for_effect(&bed, "holds");
    let line = call_line(2, "effect", r#"{"key":"late"}"#);
    let refused = host.post(&line).expect("it answers");
    assert_eq!(refused.status, 503);
    assert_eq!(refused.header("retry-after"), Some("1"));
    let told = refused.frames().expect("it is JSON").concat();
    assert!(told.contains(r#""code":-32603,"message":"busy""#), "{told}");
    // Health needs no room.
    let url = served.url.replace("/mcp", "/healthz");
    let health = callgate_testkit::HttpHost::new(&url).expect("plain HTTP");
    let health = health.send("GET", &[], b"").expect("it answers");
    assert_eq!(health.status, 200);
    assert!(host.send("DELETE", &[], b"").is_ok());
    holding
        .join()
        .expect("the post ends")
        .expect("it is answered");
    wait_for_effect(&bed, "cancelled:holds");
    assert_eq!(ledger(&bed), ["holds", "cancelled:holds"]);
}

#[test]
fn stdio_waits_for_budget_without_losing_frames() {
    let bed = bed(1);
    let mut host = bed.stdio_ready();
    let total = 64;
    let each = MIB / 4;
    for id in 0..total {
        let arguments = format!(r#"{{"key":"k{id}"}}"#);
        host.send(&padded(id, "effect", &arguments, each))
            .expect("it reads, sooner or later");
    }
    let mut answered = BTreeSet::new();
    for _ in 0..total {
        let line = host.recv_where(|frame| frame.result.is_some());
        let line = line.expect("every call is answered");
        assert!(is_success(&line), "{line}");
        answered.insert(Frame::parse(&line).and_then(|frame| frame.id));
    }
    assert_eq!(answered.len() as u64, total, "each once");
    let effects: BTreeSet<String> = ledger(&bed).into_iter().collect();
    assert_eq!(effects.len() as u64, total);
}

#[test]
fn answers_of_a_host_are_read_even_when_the_budget_is_used_up() {
    let bed = bed(1);
    let mut host = bed.stdio_ready();
    let whole = MIB - 1024;
    host.send(&padded(1, "ask", r#"{"ms":0}"#, whole))
        .expect("it reads");
    let question = host.recv_where(|frame| frame.method.as_deref() == Some("elicitation/create"));
    let question = Frame::parse(&question.expect("it asks")).expect("a frame");
    // There is no room for this one, and the answer that will make some is behind it.
    host.send(&padded(2, "effect", r#"{"key":"next"}"#, whole))
        .expect("it reads");
    let answer = answer_line(&question, r#"{"action":"accept","content":{"ok":true}}"#);
    host.send(&answer).expect("it reads");
    for _ in 0..2 {
        let line = host.recv_where(|frame| frame.result.is_some());
        assert_done(line);
    }
    assert_eq!(ledger(&bed), ["next"]);
}
