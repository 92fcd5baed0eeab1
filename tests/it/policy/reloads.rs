//! The policy file changes during calls.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use callgate_testkit::{HttpHost, StdioHost, wait_until};

use crate::evidence::assert_sound;
use crate::reload::{health, reloads};
use crate::setup::Bed;
use crate::talk::{DEADLINE, call, text_of, tools};

/// Changes of the file in CI; `CALLGATE_POLICY_RELOADS` sets another number.
const RELOADS: usize = 40;

const CONFIG: &str = "\
servers: {n: {command: '@counter@', args: [--ledger, '@dir@/ledger']}}
policy: policy.yaml
";

/// A policy that denies keys of one round and allows the others.
fn round(at: usize) -> String {
    format!(
        "version: '1'\nrules:\n  - scope: mcp_tool\n    deny: [{{pattern: 'n:effect', when: 'args.key.startsWith(\"no-\")', message: 'round {at}'}}]\n    allow: [{{pattern: '*:*'}}]\n"
    )
}

fn broken(at: usize) -> String {
    match at % 4 {
        0 => round(at).replace("pattern", "patern"),
        1 => round(at).replace("args.key", "arg.key"),
        2 => String::new(),
        _ => format!("{}  {{[", round(at)),
    }
}

fn write(bed: &Bed, text: &str) {
    let (file, fresh) = (bed.path("policy.yaml"), bed.path("policy.yaml.new"));
    fs::write(&fresh, text).expect("it is ours");
    fs::rename(fresh, file).expect("it is ours");
}

#[test]
fn a_changed_policy_applies_at_once_and_a_broken_one_is_ignored() {
    let bed = Bed::new(CONFIG);
    write(&bed, &round(0));
    let served = bed.serve();
    let mut host = served.host_ready();
    let denied = |host: &mut HttpHost| text_of(&call(host, "n__effect", r#"{"key":"no-1"}"#));
    assert!(denied(&mut host).contains("round 0"));
    write(&bed, &broken(0));
    assert!(wait_until(DEADLINE, || reloads(&served).1 >= 1));
    assert!(denied(&mut host).contains("round 0"));
    let report = health(&served);
    assert_eq!(report["status"], "degraded");
    let reasons = report["reasons"].to_string();
    assert!(
        reasons.contains("policy.yaml`: line 4 column 13: unknown field `patern`"),
        "{reasons}"
    );
    let log = |word: &'static str| {
        let seen = served
            .process
            .wait_stderr(DEADLINE, move |line| line.contains(word));
        seen.expect("it is in the log")
    };
    log("policy.rejected");
    write(
        &bed,
        "version: '1'\nrules: [{scope: mcp_tool, deny: [{pattern: '*:wipe'}, {pattern: 'n:effect', message: round two}], allow: [{pattern: '*'}]}]\n",
    );
    assert!(wait_until(DEADLINE, || reloads(&served).0 >= 1));
    assert!(denied(&mut host).contains("round two"));
    assert!(!tools(&mut host).contains(&"n__wipe".to_owned()));
    assert_eq!(health(&served)["status"], "ok");
    log("policy.reloaded");
}

#[test]
fn policy_reloads_under_load_drop_and_misjudge_no_call() {
    let rounds = std::env::var("CALLGATE_POLICY_RELOADS").ok();
    let rounds: usize = rounds.map_or(RELOADS, |text| text.parse().expect("a number"));
    let bed = Bed::new(CONFIG);
    write(&bed, &round(0));
    let served = bed.serve();
    let mut hosts: Vec<StdioHost> = (0..2).map(|_| bed.stdio_ready()).collect();
    let (stop, calls) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut keys = Vec::new();
    thread::scope(|scope| {
        let (stop, calls) = (&stop, &calls);
        let load = |(name, host): (usize, &'_ mut StdioHost)| {
            let mut keys = Vec::new();
            let mut at = 0;
            while !stop.load(Ordering::Acquire) {
                at += 1;
                let (fine, refused) = (format!("yes-{name}-{at}"), format!("no-{name}-{at}"));
                let response = call(host, "n__effect", &format!(r#"{{"key":"{fine}"}}"#));
                assert!(response["result"]["isError"] != true, "{response}");
                let response = call(host, "n__effect", &format!(r#"{{"key":"{refused}"}}"#));
                assert!(
                    text_of(&response).contains("Rule: deny:mcp_tool:n:effect"),
                    "{response}"
                );
                calls.fetch_add(2, Ordering::AcqRel);
                keys.push(fine);
            }
            keys
        };
        let loads: Vec<_> = hosts
            .iter_mut()
            .enumerate()
            .map(|host| scope.spawn(move || load(host)))
            .collect();
        let changing = std::panic::AssertUnwindSafe(|| {
            for at in 1..=rounds {
                let (used, rejected) = reloads(&served);
                let is_broken = at % 2 == 1;
                write(&bed, &if is_broken { broken(at / 2) } else { round(at) });
                let done = || match is_broken {
                    true => reloads(&served).1 > rejected,
                    false => reloads(&served).0 > used,
                };
                assert!(wait_until(DEADLINE, done), "round {at}");
            }
        });
        // The load threads are stopped even after a panic here; otherwise the failure would hang.
        let changed = std::panic::catch_unwind(changing);
        stop.store(true, Ordering::Release);
        for load in loads {
            keys.extend(load.join().expect("every call is answered"));
        }
        changed.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    let ledger = bed.read("ledger");
    let mut effects: Vec<&str> = ledger.lines().collect();
    effects.sort_unstable();
    keys.sort_unstable();
    assert_eq!(
        effects, keys,
        "what was allowed was done once, and nothing else"
    );
    println!(
        "{rounds} changes, half of them broken; {} calls, none wrong",
        calls.load(Ordering::Acquire)
    );
    drop((hosts, served));
    assert_sound(&bed);
}
