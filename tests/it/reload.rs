//! The configuration changes during calls: no call is dropped, and none is misrouted.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use callgate_testkit::{HttpHost, StdioHost, wait_until};
use rustix::process::Signal;
use serde_json::Value;

use crate::evidence::{alive, assert_done, assert_sound, is_success, signal};
use crate::setup::{Bed, Served};
use crate::shell::{run, typed};
use crate::talk::{DEADLINE, call, call_line, is_notification, parsed, tools};

/// Reloads in CI; `CALLGATE_RELOADS` sets another number.
const RELOADS: usize = 40;

pub(crate) fn health(served: &Served) -> Value {
    let url = served.url.replace("/mcp", "/healthz");
    let host = HttpHost::new(&url).expect("it listens on plain HTTP");
    let reply = host.send("GET", &[], b"").and_then(|reply| reply.text());
    parsed(&reply.expect("health needs no token"))
}

/// How many configurations were taken over, and how many rejected.
pub(crate) fn reloads(served: &Served) -> (u64, u64) {
    let health = health(served);
    let count = |key: &str| health["config"][key].as_u64().expect("a number");
    (count("taken_over"), count("rejected"))
}

/// How a file is written.
#[derive(Debug, Clone, Copy)]
enum Writing {
    InPlace,
    Renamed,
}

fn write(bed: &Bed, config: &str, how: Writing) {
    let (file, fresh) = (bed.path("callgate.yaml"), bed.path("callgate.yaml.new"));
    let text = bed.filled_in(config);
    match how {
        Writing::InPlace => fs::write(file, text).expect("it is ours"),
        Writing::Renamed => {
            fs::write(&fresh, text).expect("it is ours");
            fs::rename(fresh, file).expect("it is ours");
        }
    }
}

/// Writes a configuration and waits until it is in use. While a file is written in place it is empty for
/// a moment, which may be seen and rejected first.
fn take_over(bed: &Bed, served: &Served, config: &str, how: Writing) {
    let (before, _) = reloads(served);
    write(bed, config, how);
    let used = wait_until(DEADLINE, || reloads(served).0 > before);
    assert!(used, "not used after {how:?}: {config}");
}

/// Writes a configuration and waits until it is rejected.
fn reject(bed: &Bed, served: &Served, config: &str, how: Writing) {
    let (used, before) = reloads(served);
    write(bed, config, how);
    let rejected = wait_until(DEADLINE, || reloads(served).1 > before);
    assert!(rejected, "not rejected after {how:?}: {config}");
    assert_eq!(reloads(served).0, used, "{config}");
}

/// A server that takes its time, so that a reload finds calls under way; another marker is another
/// server.
fn server(name: &str, marker: usize) -> String {
    format!(
        "  {name}: {{command: '@counter@', args: [--ledger, '@dir@/{name}.ledger', --delay-ms, '5', --marker, '@dir@/{marker}']}}\n"
    )
}

const ONE: &str = "servers: {n: {command: '@counter@'}}\n";
const BROKEN: &str = "servers: {n: {comand: '@counter@'}}\n";

#[test]
fn a_broken_configuration_keeps_the_last_good_one_and_degrades_health() {
    let bed = Bed::new(ONE);
    let served = bed.serve();
    let mut host = served.host_ready();
    reject(&bed, &served, BROKEN, Writing::Renamed);
    let report = health(&served);
    assert_eq!(report["status"], "degraded");
    let reasons = report["reasons"].to_string();
    for part in [
        "callgate.yaml`: line 1 column 15: unknown field `comand`",
        "did you mean `command`?",
    ] {
        assert!(reasons.contains(part), "{reasons}");
    }
    served
        .process
        .wait_stderr(DEADLINE, |line| line.contains("policy.rejected"))
        .expect("it is in the log");
    assert!(tools(&mut host).contains(&"n__effect".to_owned()));
    for gone in ["", "servers: {n: {command: cat, url: 'http://localhost/'}}"] {
        reject(&bed, &served, gone, Writing::Renamed);
    }
    fs::remove_file(bed.path("callgate.yaml")).expect("it is ours");
    assert!(wait_until(DEADLINE, || reloads(&served).1 == 4), "removed");
    assert!(tools(&mut host).contains(&"n__effect".to_owned()));
    take_over(&bed, &served, ONE, Writing::InPlace);
    assert_eq!(health(&served)["status"], "ok");
    served
        .process
        .wait_stderr(DEADLINE, |line| line.contains("config.reloaded"))
        .expect("it is in the log");
}

#[test]
fn a_reload_applies_policy_and_tool_lists_and_keeps_unchanged_servers() {
    let bed = Bed::new(&format!("servers:\n{}", server("n", 0)));
    let served = bed.serve();
    let mut host = served.host_ready();
    let wipe = |host: &mut HttpHost| call(host, "n__wipe", r#"{"key":"w"}"#).to_string();
    assert!(wipe(&mut host).contains("requires approval"));
    let pid = |bed: &Bed| {
        let ran = run(&mut crate::shell::named(bed, ["servers", "list", "--json"]));
        parsed(&ran.stdout)[0]["pid"].clone()
    };
    let before = pid(&bed);
    let lax = format!("servers:\n{}policy: allow-all\n", server("n", 0));
    take_over(&bed, &served, &lax, Writing::Renamed);
    assert!(is_success(&wipe(&mut host)));
    let denied = lax.replace("]}", "], tools: {deny: [wipe]}}");
    take_over(&bed, &served, &denied, Writing::Renamed);
    assert!(!tools(&mut host).contains(&"n__wipe".to_owned()));
    assert_eq!(pid(&bed), before, "the same process serves");
}

#[test]
fn sighup_reloads_and_names_settings_that_need_a_restart() {
    let bed = Bed::new(ONE);
    let served = bed.serve();
    let before = reloads(&served);
    signal(served.process.pid(), Signal::HUP);
    assert!(wait_until(DEADLINE, || reloads(&served) == (before.0 + 1, before.1)));
    let other = format!(
        "{ONE}listen: 127.0.0.1:1\nauth: {{token: t}}\ndata_dir: elsewhere\nlimits: {{frame_mib: 1}}\n"
    );
    take_over(&bed, &served, &other, Writing::Renamed);
    let line = served
        .process
        .wait_stderr(DEADLINE, |line| line.contains("config.needs_restart"))
        .expect("a warning");
    assert!(line.contains("listen, auth, data_dir, limits"), "{line}");
    assert!(!bed.path("elsewhere").exists());
    assert!(
        !tools(&mut served.host_ready()).is_empty(),
        "the old token still opens"
    );
}

#[test]
fn a_stdio_host_sees_a_reload_as_a_list_change() {
    let bed = Bed::new(ONE);
    let mut host = bed.stdio_ready();
    assert!(tools(&mut host).contains(&"n__effect".to_owned()));
    write(
        &bed,
        "servers: {other: {command: '@counter@'}}\n",
        Writing::Renamed,
    );
    let told = |host: &mut StdioHost| {
        let changed = "notifications/tools/list_changed";
        let told = host.recv_where(|frame| is_notification(frame, changed));
        told.expect("the host is told")
    };
    told(&mut host);
    assert!(wait_until(DEADLINE, || {
        let now = tools(&mut host);
        now.contains(&"other__effect".to_owned()) && !now.contains(&"n__effect".to_owned())
    }));
    let denied = "servers: {other: {command: '@counter@', tools: {deny: [effect]}}}\n";
    write(&bed, denied, Writing::Renamed);
    assert!(wait_until(DEADLINE, || {
        told(&mut host);
        !tools(&mut host).contains(&"other__effect".to_owned())
    }));
}

#[test]
fn a_changed_trusted_file_is_loaded_once_trusted_again() {
    let bed = Bed::new(ONE);
    let trust = || assert_eq!(run(&mut typed(&bed, ["trust"])).code, Some(0));
    trust();
    let mut command = typed(&bed, ["stdio"]);
    let mut host = StdioHost::connect(&mut command, "2025-11-25").expect("it runs");
    assert!(tools(&mut host).contains(&"n__effect".to_owned()));
    write(
        &bed,
        "servers: {evil: {command: '@counter@'}}\n",
        Writing::Renamed,
    );
    let line = host
        .wait_stderr(DEADLINE, |line| line.contains("policy.rejected"))
        .expect("it is said");
    assert!(line.contains("run `callgate trust` again"), "{line}");
    let listed = tools(&mut host);
    assert!(
        listed.iter().all(|name| name.starts_with("n__")),
        "{listed:?}"
    );
    trust();
    assert!(wait_until(DEADLINE, || {
        tools(&mut host).contains(&"evil__effect".to_owned())
    }));
}

/// The configuration of one round: `steady` never changes, `moving` does each time, and some of
/// `s0` to `s3` are there.
fn round(at: usize) -> (String, Vec<String>) {
    let mut config = format!("policy: allow-all\nservers:\n{}", server("steady", 0));
    config.push_str(&server("moving", at));
    let there: Vec<String> = (0..4)
        .filter(|bit| (at / 3) >> bit & 1 == 1)
        .map(|bit| format!("s{bit}"))
        .collect();
    for name in &there {
        config.push_str(&server(name, 0));
    }
    (config, there)
}

fn broken(at: usize) -> String {
    let (config, _) = round(at);
    match at % 4 {
        0 => config.replacen("command", "comand", 1),
        1 => format!("{config}{{["),
        2 => format!("{config}  bad: {{command: cat, url: 'https://e.com/'}}\n"),
        _ => String::new(),
    }
}

/// Calls until it is told to stop; returns the keys of each server that were answered.
fn load(host: &mut StdioHost, name: &str, stop: &AtomicBool) -> BTreeMap<String, Vec<String>> {
    let mut done: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut id = 0;
    while !stop.load(Ordering::Acquire) {
        for server in ["steady", "moving"] {
            id += 1;
            let key = format!("{name}-{id}");
            let tool = format!("{server}__effect");
            assert_done(host.call(id, &tool, &format!(r#"{{"key":"{key}"}}"#)));
            done.entry(server.to_owned()).or_default().push(key);
        }
    }
    done
}

/// Calls each of the servers that come and go, as soon as it is there.
fn call_each(host: &mut HttpHost, there: &[String], at: usize) -> Vec<(String, String)> {
    let mut done = Vec::new();
    for server in there {
        let (tool, key) = (format!("{server}__effect"), format!("{server}-{at}"));
        assert!(
            wait_until(DEADLINE, || tools(host).contains(&tool)),
            "{tool} is listed after round {at}"
        );
        let line = call_line(r#""each""#, &tool, &format!(r#"{{"key":"{key}"}}"#));
        let answer = crate::talk::request(host, &line).to_string();
        assert!(is_success(&answer), "{answer}");
        done.push((server.clone(), key));
    }
    let listed = tools(host);
    for gone in (0..4)
        .map(|bit| format!("s{bit}"))
        .filter(|name| !there.contains(name))
    {
        let tool = format!("{gone}__effect");
        assert!(!listed.contains(&tool), "{tool} is gone after round {at}");
    }
    done
}

#[test]
fn reloads_under_load_drop_and_misroute_no_call() {
    let rounds = std::env::var("CALLGATE_RELOADS").ok();
    let rounds = rounds.map_or(RELOADS, |text| text.parse().expect("a number"));
    let bed = Bed::new(&round(0).0);
    let served = bed.serve();
    let mut hosts: Vec<StdioHost> = (0..2).map(|_| bed.stdio_ready()).collect();
    let mut http = served.host_ready();
    let stop = AtomicBool::new(false);
    let mut done: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut used, mut rejected) = (0, 0);
    thread::scope(|scope| {
        let stop = &stop;
        let loads: Vec<_> = hosts
            .iter_mut()
            .enumerate()
            .map(|(at, host)| (["a", "b"][at], host))
            .map(|(name, host)| scope.spawn(move || load(host, name, stop)))
            .collect();
        let changing = std::panic::AssertUnwindSafe(|| {
            for at in 1..=rounds {
                let how = [Writing::Renamed, Writing::InPlace][at % 2];
                if at % 3 == 0 {
                    reject(&bed, &served, &broken(at), how);
                    rejected += 1;
                    continue;
                }
                let (config, there) = round(at);
                take_over(&bed, &served, &config, how);
                used += 1;
                for (server, key) in call_each(&mut http, &there, at) {
                    done.entry(server).or_default().push(key);
                }
            }
        });
        // The load threads are stopped even after a panic here; otherwise the failure would hang.
        let changed = std::panic::catch_unwind(changing);
        stop.store(true, Ordering::Release);
        for load in loads {
            for (server, keys) in load.join().expect("every call is answered") {
                done.entry(server).or_default().extend(keys);
            }
        }
        changed.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let mut calls = 0;
    for (server, mut keys) in done {
        let ledger = bed.read(&format!("{server}.ledger"));
        let mut effects: Vec<&str> = ledger.lines().collect();
        effects.sort_unstable();
        keys.sort_unstable();
        assert_eq!(
            effects, keys,
            "each call reached {server} once, and no other call did"
        );
        calls += keys.len();
    }
    println!("{used} configurations used, {rejected} rejected, {calls} calls, none lost or astray");
    drop((hosts, http));
    take_over(&bed, &served, &round(1).0, Writing::Renamed);
    signal(served.process.pid(), Signal::TERM);
    assert!(
        wait_until(DEADLINE, || alive(&bed).is_empty()),
        "{:?}",
        alive(&bed)
    );
    assert_sound(&bed);
}
