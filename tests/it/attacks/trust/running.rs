//! Trust while a gateway runs, and after its own writes.

use super::*;

#[test]
fn a_running_gateway_loads_an_untrusted_policy() {
    attack(
        "trust",
        "the policy of a trusted project is loosened while the gateway runs",
    )
    .expect(Seen::Refused)
    .tries(["written", "replaced"], |how| {
        let bed = project("policy: policy.yaml\n", &[plain_tool("save")]);
        users(&bed, "policy: allow-all\n");
        let policy = bed.path("policy.yaml");
        write(&policy, STRICT);
        trust(&bed);
        let mut host = host(&bed);
        if *how == "written" {
            write(&policy, OPEN);
        } else {
            write(&bed.path("fresh"), OPEN);
            fs::rename(bed.path("fresh"), &policy).expect("it is ours");
        }
        told(&host, &["policy.reloaded", "policy.rejected"]);
        attempt(&bed, &mut host, "w__save", "{}")
    })
    .check();
}

/// Waits until the gateway logged one of these words.
fn told(host: &StdioHost, words: &'static [&'static str]) {
    let is_told = move |line: &str| words.iter().any(|word| line.contains(word));
    host.wait_stderr(DEADLINE, is_told).expect("it is told");
}

#[test]
fn a_running_gateway_loads_an_untrusted_lock() {
    attack(
        "trust",
        "the lock of a trusted project is changed while the gateway runs",
    )
    .expect_any(&[Seen::Held, Seen::Refused])
    .tries(["read", "write"], |class| {
        let bed = project("", &[destructive("empty")]);
        trust(&bed);
        meet(&bed);
        let mut host = host(&bed);
        assert_eq!(attempt(&bed, &mut host, "w__empty", "{}"), Seen::Held);
        override_in_lock(&bed, class);
        told(&host, &["lock.reloaded", "policy.rejected"]);
        attempt(&bed, &mut host, "w__empty", "{}")
    })
    .check();
}

#[test]
fn the_gateways_own_writes_keep_trust() {
    attack(
        "trust",
        "trust is lost by what the gateway itself accepts, so that people stop reading",
    )
    .expect(Seen::Harmless)
    .tries(["tofu", "lock accept", "tofu while it runs"], |how| {
        let bed = project("", &[plain_tool("save")]);
        trust(&bed);
        if *how == "tofu while it runs" {
            let mut host = host(&bed);
            assert_eq!(attempt(&bed, &mut host, "w__save", "{}"), Seen::Passed);
            let lock = bed.path("callgate.lock");
            assert!(wait_until(DEADLINE, || lock.exists()));
        } else {
            meet(&bed);
        }
        if *how == "lock accept" {
            let mut other = plain_tool("save");
            other["description"] = json!("Another text.");
            can(&bed, &[other]);
            let ran = run(&mut typed(&bed, ["lock", "verify"]));
            assert_eq!(ran.code, Some(1), "{}", ran.stderr);
            let ran = run(&mut typed(&bed, ["lock", "accept", "w:save"]));
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        }
        // The list of trust names the lock as it is now, and the project is used.
        let list = bed.read("data/trusted.json");
        match (called(&bed, "save"), list.contains("callgate.lock")) {
            (Seen::Passed, true) => Seen::Harmless,
            _ => Seen::Passed,
        }
    })
    .check();
}

#[test]
fn revoked_trust_still_counts() {
    attack("trust", "a project is used after its trust was revoked")
        .expect(Seen::Refused)
        .tries(["callgate.yaml", ""], |named| {
            let bed = project("", &[plain_tool("save")]);
            write(
                &bed.path(".callgate/packs/p.py"),
                "def f():\n    return 1\n",
            );
            trust(&bed);
            let mut revoke = typed(&bed, ["trust", "--revoke"]);
            if !named.is_empty() {
                revoke.arg(named);
            }
            let ran = run(&mut revoke);
            assert_eq!(ran.code, Some(0), "{}", ran.stderr);
            judged(&json!({"error": {}}), called(&bed, "save") == Seen::Passed)
        })
        .check();
}

/// Puts a pipe, which a plain read would wait at for ever, in place of a file.
fn pipe_at(file: &Path) {
    fs::remove_file(file).expect("it is ours");
    let made = Command::new("mkfifo").arg(file).status();
    assert!(made.expect("mkfifo runs").success());
}

#[test]
fn a_pipe_in_place_of_a_governing_file() {
    attack(
        "trust",
        "a pipe in place of a file that governs keeps the gateway, or a command, waiting for ever",
    )
    .expect(Seen::Harmless)
    .tries(
        [
            "callgate.lock",
            "policy.yaml",
            "callgate.yaml",
            ".callgate/packs/p.py",
        ],
        |file| {
            let bed = project("policy: policy.yaml\n", &[plain_tool("save")]);
            users(&bed, "policy: allow-all\n");
            write(&bed.path("policy.yaml"), OPEN);
            let pack = bed.path(".callgate/packs/p.py");
            write(&pack, "def f():\n    return 1\n");
            trust(&bed);
            meet(&bed);
            let mut host = host(&bed);
            assert_eq!(attempt(&bed, &mut host, "w__save", "{}"), Seen::Passed);
            let before = fs::read(bed.path(file)).expect("it is ours");
            pipe_at(&bed.path(file));
            // A pack is read when a project is loaded, and not watched.
            if *file != ".callgate/packs/p.py" {
                told(&host, &["policy.rejected"]);
            }
            assert_eq!(attempt(&bed, &mut host, "w__save", "{}"), Seen::Passed);
            let ran = run(&mut typed(&bed, ["doctor"]));
            assert!(ran.code.is_some(), "doctor ends: {}", ran.stderr);
            fs::remove_file(bed.path(file)).expect("it is ours");
            fs::write(bed.path(file), before).expect("it is ours");
            // The gateway still follows its files.
            write(&bed.path("policy.yaml"), STRICT);
            trust(&bed);
            let follows = wait_until(DEADLINE, || {
                attempt(&bed, &mut host, "w__save", "{}") == Seen::Refused
            });
            if follows {
                Seen::Harmless
            } else {
                Seen::Passed
            }
        },
    )
    .check();
}
