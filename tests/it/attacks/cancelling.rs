//! Calls that are sent although they were cancelled.

mod guard;
mod ways;

use std::fs;
use std::thread;

use callgate_testkit::{Host, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use self::guard::SlowGuard;
use self::ways::{Begun, WAYS, Way};
use super::{Seen, attack};
use crate::approvals::approve;
use crate::evidence::{ledger, records, run, servers_with, signal, stdout};
use crate::setup::{Bed, Served};
use crate::talk::{DEADLINE, answer_line, call_line, parsed, stdio_as};

const CLASS: &str = "cancelling";
const COUNTER: &str =
    "servers: {n: {command: '@counter@', args: [--ledger, '@dir@/ledger', --marker, '@dir@']}}\n";

fn cancellation(id: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    )
}

/// The record of the call with this key, once it has an end.
fn ended(bed: &Bed, key: &str) -> Option<Value> {
    let all = records(bed);
    let of_key = |record: &&Value| record.to_string().contains(&format!("\"{key}\""));
    let found = all.iter().rev().find(of_key)?;
    let is_over = !matches!(found["status"].as_str(), None | Some("pending"));
    is_over.then(|| found.clone())
}

/// Waits until the call of this key has ended, or has reached its server.
fn seen(bed: &Bed, key: &str) -> Seen {
    let reached = || ledger(bed).iter().any(|line| line.ends_with(key));
    wait_until(DEADLINE, || reached() || ended(bed, key).is_some());
    if reached() {
        Seen::Passed
    } else {
        Seen::Refused
    }
}

/// A gateway whose policy is a guard that delays its answers until released.
fn guarded(guard: &SlowGuard) -> Bed {
    Bed::new(&format!(
        "{COUNTER}guard: {{url: '{}', api_key: k, timeout: 60s}}\n",
        guard.url
    ))
}

/// Makes a call, cancels it while the guard is asked, and lets the guard answer.
fn while_guarded(bed: &Bed, served: &Served, guard: &SlowGuard, way: Way, key: &str) {
    guard.answers(false);
    let before = guard.asked();
    let mut begun = way.begin(bed, served, "effect", &format!(r#"{{"key":"{key}"}}"#));
    assert!(wait_until(DEADLINE, || guard.asked() > before), "{way:?}");
    way.cancel(&mut begun);
    // What is said later is read later: by its answer, the cancellation has been read.
    match &mut begun {
        Begun::Stdio(host) => {
            let ping = r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#;
            let _ = host.send(ping);
            let _ = host.recv_within(std::time::Duration::from_millis(500));
        }
        Begun::Http { .. } | Begun::Socket(_) => {
            thread::sleep(std::time::Duration::from_millis(100));
        }
    }
    guard.answers(true);
    let _ = seen(bed, key);
}

#[test]
fn cancelled_while_a_guard_is_asked() {
    let guard = SlowGuard::start();
    let bed = guarded(&guard);
    let served = bed.serve();
    attack(
        CLASS,
        "a call is cancelled while a guard is asked about it, and is sent when the guard allows it",
    )
    .expect(Seen::Refused)
    .tries(WAYS, |way| {
        let key = format!("guard-{way:?}");
        while_guarded(&bed, &served, &guard, *way, &key);
        seen(&bed, &key)
    })
    .check();
}

#[test]
fn cancelled_while_a_guard_is_asked_is_recorded_as_cancelled() {
    let guard = SlowGuard::start();
    let bed = guarded(&guard);
    let served = bed.serve();
    attack(
        CLASS,
        "the record of a call that was cancelled before it was sent says something else",
    )
    .expect(Seen::Detected)
    .tries(WAYS, |way| {
        let key = format!("record-{way:?}");
        while_guarded(&bed, &served, &guard, *way, &key);
        on_record(&bed, &key)
    })
    .check();
}

/// Whether a call is on record as cancelled, without an effect.
fn on_record(bed: &Bed, key: &str) -> Seen {
    assert!(wait_until(DEADLINE, || ended(bed, key).is_some()), "{key}");
    match ended(bed, key) {
        Some(record) if record["status"] == "cancelled" && record["error"]["effect"] == "none" => {
            Seen::Detected
        }
        Some(_) | None => Seen::Passed,
    }
}

/// A server that starts when the file `go` is there.
fn slow_to_start() -> Bed {
    let bed = Bed::new(
        "servers: {n: {command: sh, args: ['@dir@/start.sh']}}\npolicy: allow-all\nserver_defaults: {connect_wait: 60s}\n",
    );
    let script = bed.filled_in(
        "while [ ! -e '@dir@/go' ]; do sleep 0.02; done\nexec '@counter@' --ledger '@dir@/ledger'\n",
    );
    fs::write(bed.path("start.sh"), script).expect("it is ours");
    bed
}

#[test]
fn cancelled_while_its_server_starts() {
    let known = |bed: &Bed| {
        fs::write(bed.path("go"), "").expect("it is ours");
        let mut host = bed.stdio_ready();
        crate::talk::call_text(&mut host, "n__read_thing", "{}");
        drop(host);
        fs::remove_file(bed.path("go")).expect("it is there");
    };
    attack(
        CLASS,
        "a call is cancelled while its server starts, and is sent when the server is there",
    )
    .expect(Seen::Refused)
    .tries(["first start", "known tools"], |start| {
        let bed = slow_to_start();
        if *start == "known tools" {
            known(&bed);
        }
        let mut host = bed.stdio_ready();
        host.send(&call_line("7", "n__effect", r#"{"key":"start"}"#))
            .expect("it reads");
        host.send(&cancellation("7")).expect("it reads");
        host.send(r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#)
            .expect("it reads");
        host.recv_where(|frame| frame.id.as_deref() == Some(r#""ping""#))
            .expect("it answers");
        fs::write(bed.path("go"), "").expect("it is ours");
        seen(&bed, "start")
    })
    .check();
}

/// The id of the approval that is open.
fn pending(bed: &Bed) -> String {
    let mut id = None;
    wait_until(DEADLINE, || {
        let listed = parsed(&stdout(&run(bed, &["approvals", "list", "--json"])));
        id = listed[0]["id"].as_str().map(str::to_owned);
        id.is_some()
    });
    id.expect("it is asked for")
}

#[test]
fn cancelled_while_a_person_is_asked() {
    let bed = Bed::new(&format!("{COUNTER}approvals: {{wait: 60s}}\n"));
    let served = bed.serve();
    attack(
        CLASS,
        "a call is cancelled while it waits for a person, and is sent when the person says yes",
    )
    .expect(Seen::Detected)
    .tries(
        [Way::Stdio, Way::Http, Way::ClosedStatelessRequest],
        |way| {
            let key = format!("person-{way:?}");
            let arguments = format!(r#"{{"key":"{key}"}}"#);
            let mut begun = way.begin(&bed, &served, "wipe", &arguments);
            let id = pending(&bed);
            way.cancel(&mut begun);
            let _ = wait_until(DEADLINE, || ended(&bed, &key).is_some());
            approve(&served, &id);
            match seen(&bed, &key) {
                Seen::Refused => on_record(&bed, &key),
                other => other,
            }
        },
    )
    .check();
}

#[test]
fn an_approval_is_used_once_beside_a_cancelled_call() {
    let bed = Bed::new(&format!("{COUNTER}approvals: {{wait: 60s}}\n"));
    let served = bed.serve();
    attack(
        CLASS,
        "one approval sends a call twice because the first attempt was cancelled",
    )
    .expect(Seen::Harmless)
    .tries([Way::Stdio, Way::Http], |way| {
        let key = format!("once-{way:?}");
        let arguments = format!(r#"{{"key":"{key}"}}"#);
        let mut first = way.begin(&bed, &served, "wipe", &arguments);
        let id = pending(&bed);
        way.cancel(&mut first);
        let _ = wait_until(DEADLINE, || ended(&bed, &key).is_some());
        approve(&served, &id);
        let again: Vec<Begun> = (0..3)
            .map(|_| way.begin(&bed, &served, "wipe", &arguments))
            .collect();
        let sent = || {
            ledger(&bed)
                .iter()
                .filter(|line| line.ends_with(&key))
                .count()
        };
        wait_until(DEADLINE, || sent() > 0);
        let _ = pending(&bed);
        drop(again);
        if sent() > 1 {
            Seen::Passed
        } else {
            Seen::Harmless
        }
    })
    .check();
}

#[test]
fn cancelled_while_the_person_at_the_host_is_asked() {
    let policy = "version: '1'\nrules: [{scope: mcp_tool, confirm: [{pattern: 'n:effect'}], allow: [{pattern: '*:*'}]}]\n";
    let bed = Bed::new(&format!("{COUNTER}policy: '@dir@/policy.yaml'\n"));
    fs::write(bed.path("policy.yaml"), policy).expect("it is ours");
    attack(
        CLASS,
        "a call is cancelled while the host's person is asked to confirm it, and a late yes sends it",
    )
    .expect(Seen::Detected)
    .tries(["accept", "no answer"], |answer| {
        let key = format!("confirm-{}", answer.len());
        let mut host = stdio_as(&bed, Some(r#"{"elicitation":{}}"#));
        host.send(&call_line("7", "n__effect", &format!(r#"{{"key":"{key}"}}"#)))
            .expect("it reads");
        let question = host.recv_where(|frame| frame.method.as_deref() == Some("elicitation/create"));
        let question = callgate_testkit::Frame::parse(&question.expect("it asks")).expect("a frame");
        host.send(&cancellation("7")).expect("it reads");
        if *answer == "accept" {
            host.send(&answer_line(&question, r#"{"action":"accept"}"#))
                .expect("it reads");
        }
        host.send(r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#)
            .expect("it reads");
        host.recv_where(|frame| frame.id.as_deref() == Some(r#""ping""#))
            .expect("it answers");
        let is_over = || ended(&bed, &key).is_some() || !ledger(&bed).is_empty();
        wait_until(std::time::Duration::from_secs(2), is_over);
        match ended(&bed, &key) {
            Some(_) if ledger(&bed).is_empty() => on_record(&bed, &key),
            Some(_) | None => Seen::Passed,
        }
    })
    .check();
}

#[test]
fn cancelled_while_queued_for_a_slot() {
    let bed = Bed::new(&format!(
        "{COUNTER}policy: allow-all\nlimits: {{concurrency_per_server: 1}}\n"
    ));
    attack(
        CLASS,
        "a call is cancelled while it waits for a slot of its server, and is sent when one is free",
    )
    .expect(Seen::Detected)
    .tries(["first", "second"], |turn| {
        let mut host = bed.stdio_ready();
        let slow = format!("slow-{turn}");
        let line = format!(r#"{{"key":"{slow}","ms":60000}}"#);
        host.send(&call_line("1", "n__slow", &line))
            .expect("it reads");
        assert!(wait_until(DEADLINE, || ledger(&bed).contains(&slow)));
        let key = format!("queued-{turn}");
        let line = format!(r#"{{"key":"{key}"}}"#);
        host.send(&call_line("7", "n__effect", &line))
            .expect("it reads");
        host.send(&cancellation("7")).expect("it reads");
        let _ = wait_until(DEADLINE, || ended(&bed, &key).is_some());
        host.send(&cancellation("1")).expect("it reads");
        assert!(wait_until(DEADLINE, || ledger(&bed)
            .contains(&format!("cancelled:{slow}"))));
        match seen(&bed, &key) {
            Seen::Refused => on_record(&bed, &key),
            other => other,
        }
    })
    .check();
}

#[test]
fn cancelled_while_its_server_does_not_read() {
    let bed = Bed::new(&format!("{COUNTER}policy: allow-all\n"));
    let marker = bed.path("").display().to_string();
    attack(
        CLASS,
        "a call is cancelled while its server reads nothing, and is sent when the server reads again",
    )
    .expect(Seen::Refused)
    .tries([40, 60], |count| {
        let mut host = bed.stdio_ready();
        crate::talk::call_text(&mut host, "n__read_thing", "{}");
        let servers = servers_with(marker.trim_end_matches('/'));
        servers.iter().for_each(|pid| signal(*pid, Signal::STOP));
        // More than the pipe and the writer's buffer hold, so that the last call waits in the queue.
        let text = "x".repeat(8 * 1024);
        for id in 0..*count {
            let line = format!(r#"{{"key":"fill-{count}-{id}","text":"{text}"}}"#);
            host.send(&call_line(&format!("{}", 100 + id), "n__read_thing", &line))
                .expect("it reads");
        }
        let key = format!("unread-{count}");
        host.send(&call_line("7", "n__effect", &format!(r#"{{"key":"{key}"}}"#)))
            .expect("it reads");
        host.send(r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#)
            .expect("it reads");
        host.recv_where(|frame| frame.id.as_deref() == Some(r#""ping""#))
            .expect("it answers");
        host.send(&cancellation("7")).expect("it reads");
        assert!(wait_until(DEADLINE, || ended(&bed, &key).is_some()));
        servers.iter().for_each(|pid| signal(*pid, Signal::CONT));
        crate::talk::call_text(&mut host, "n__read_thing", "{}");
        if ledger(&bed).contains(&key) { Seen::Passed } else { Seen::Refused }
    })
    .check();
}

#[test]
fn cancelled_by_another_session() {
    let bed = Bed::new(&format!("{COUNTER}policy: allow-all\n"));
    let served = bed.serve();
    attack(
        CLASS,
        "a host cancels the call of another session by naming its request id",
    )
    .expect(Seen::Harmless)
    .tries(["7", r#""7""#, "7.0", "null"], |id| {
        let key = format!("other-{}", id.len());
        let host = served.host_ready();
        let line = format!(r#"{{"key":"{key}","ms":300}}"#);
        let _socket = host
            .post_unread(&call_line("7", "n__slow", &line))
            .expect("it reads");
        assert!(wait_until(DEADLINE, || ledger(&bed).contains(&key)));
        let mut other = served.host_ready();
        // Some of these are refused, which is as good.
        let _ = other.notify(&cancellation(id));
        let finished = format!("finished:{key}");
        let cancelled = format!("cancelled:{key}");
        wait_until(DEADLINE, || {
            let all = ledger(&bed);
            all.contains(&finished) || all.contains(&cancelled)
        });
        if ledger(&bed).contains(&cancelled) {
            Seen::Passed
        } else {
            Seen::Harmless
        }
    })
    .check();
}

#[test]
fn interrupted_command_while_a_guard_is_asked() {
    let guard = SlowGuard::start();
    let bed = guarded(&guard);
    attack(
        CLASS,
        "`callgate call` is interrupted while a guard is asked, and its call is sent",
    )
    .expect(Seen::Refused)
    .tries([Signal::INT, Signal::TERM], |how| {
        guard.answers(false);
        let before = guard.asked();
        let key = format!("shell-{}", how.as_raw());
        let mut command = bed.command(["call", "n:effect", &format!(r#"{{"key":"{key}"}}"#)]);
        let mut child = command
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("it starts");
        if !wait_until(DEADLINE, || guard.asked() > before) {
            panic!("{:?}", child.wait_with_output());
        }
        signal(child.id(), *how);
        child.wait().expect("it ends");
        guard.answers(true);
        if ledger(&bed).contains(&key) {
            Seen::Passed
        } else {
            Seen::Refused
        }
    })
    .check();
}
