//! What a sandboxed child must not be able to do. The attacks themselves are in [`super::attack_list`].

use callgate_process::sandbox::{FileAccess, Mode, Namespaces};

use super::attack_list::Works::{self, Always, ForRoot, Sometimes};
use super::attack_list::{FILES, PROCESSES, SOCKETS};
use super::{KINDS, Machine, grant, run};

async fn refused(machine: &Machine, attacks: &[(&str, Works, &str)]) {
    let mut wrong = Vec::new();
    for (name, works, script) in attacks {
        for kind in KINDS {
            let outcome = run(&machine.spec(script, Some(machine.sandbox(kind)))).await;
            if outcome.stdout.contains("GOT") {
                wrong.push(format!("{name}: got through, {kind:?}: {outcome:?}"));
            }
            // The script itself ran, so that the kernel and not an error refused it.
            let started = run(&machine.spec("echo started", Some(machine.sandbox(kind)))).await;
            assert_eq!(started.stdout, "started\n", "{started:?}");
        }
        let outcome = run(&machine.spec(script, None)).await;
        let expected = match works {
            Always => true,
            ForRoot => rustix::process::geteuid().is_root(),
            Sometimes => continue,
        };
        if expected && !outcome.stdout.contains("GOT") {
            wrong.push(format!(
                "{name}: does not work without a sandbox either: {outcome:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_sandbox_refuses_files_that_were_not_granted() {
    refused(&Machine::new(), &FILES).await;
}

#[tokio::test]
async fn a_sandbox_hides_and_protects_other_processes() {
    refused(&Machine::new(), &PROCESSES).await;
}

#[tokio::test]
async fn a_sandbox_refuses_sockets_of_others() {
    refused(&Machine::new(), &SOCKETS).await;
}

/// Whether these arrive is seen at the other end: in a network of its own a sandboxed child may send them.
const PACKETS: [(&str, &str); 5] = [
    (
        "TCP",
        "socket(S, AF_INET, SOCK_STREAM, 0); connect(S, $tcp);",
    ),
    (
        "MPTCP",
        "socket(S, AF_INET, SOCK_STREAM, 262); connect(S, $tcp);",
    ),
    (
        "TCP with data in the first packet",
        "socket(S, AF_INET, SOCK_STREAM, 0); send(S, q(x), 0x20000000, $tcp);",
    ),
    (
        "UDP",
        "socket(S, AF_INET, SOCK_DGRAM, 0); send(S, q(x), 0, $udp);",
    ),
    (
        "TCP over IPv6",
        "socket(S, AF_INET6, SOCK_STREAM, 0); connect(S, pack_sockaddr_in6($ENV{TCP}, inet_pton(AF_INET6, q(::ffff:127.0.0.1))));",
    ),
];

#[tokio::test]
async fn packets_of_a_sandboxed_child_arrive_nowhere() {
    let machine = Machine::new();
    for (name, attack) in PACKETS {
        let script = format!(
            "perl -MSocket=:all -e '$h = inet_aton(q(127.0.0.1)); $tcp = sockaddr_in($ENV{{TCP}}, $h); \
             $udp = sockaddr_in($ENV{{UDP}}, $h); {attack}'; echo done"
        );
        let control = run(&machine.spec(&script, None)).await;
        assert!(machine.was_reached(), "{name}: {control:?}");
        for kind in KINDS {
            let outcome = run(&machine.spec(&script, Some(machine.sandbox(kind)))).await;
            assert_eq!(outcome.stdout, "done\n", "{name}");
            assert!(!machine.was_reached(), "{name}, {kind:?}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn a_command_has_no_privileges_to_lose() {
    let machine = Machine::new();
    for kind in KINDS {
        let script = "exec grep -E '^(Cap(Inh|Prm|Eff|Amb)|NoNewPrivs|Seccomp):' /proc/self/status";
        let outcome = run(&machine.spec(script, Some(machine.sandbox(kind)))).await;
        let seen: Vec<_> = outcome.stdout.split_whitespace().collect();
        let none = "0000000000000000";
        let expected = [
            "CapInh:",
            none,
            "CapPrm:",
            none,
            "CapEff:",
            none,
            "CapAmb:",
            none,
            "NoNewPrivs:",
            "1",
            "Seccomp:",
            "2",
        ];
        assert_eq!(seen, expected, "{kind:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn hidden_paths_stay_out_of_reach_in_granted_folders() {
    let machine = Machine::new();
    let data = machine.granted().join("deep/data");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("log"), "entries").unwrap();
    let script = "cat mine; cat deep/data/log && echo GOT; ls -A deep/data/ | grep . && echo GOT; \
                  echo x > deep/data/new && echo GOT; rm -rf deep 2>/dev/null; mv deep/data other && echo GOT; mv deep other && echo GOT";
    for kind in KINDS {
        let mut sandbox = machine.sandbox(kind);
        sandbox.hidden = vec![data.clone()];
        let outcome = run(&machine.spec(script, Some(sandbox))).await;
        assert_eq!(outcome.stdout, "mine\n", "{kind:?}: {outcome:?}");
        assert_eq!(
            std::fs::read_to_string(data.join("log")).unwrap(),
            "entries"
        );
    }
}

#[tokio::test]
async fn hidden_paths_stay_out_of_reach_through_links() {
    let machine = Machine::new();
    let data = machine.granted().join("real/data");
    std::fs::create_dir_all(&data).unwrap();
    std::fs::write(data.join("log"), "entries").unwrap();
    std::fs::write(machine.granted().join("real/fine"), "fine\n").unwrap();
    let links = machine.outside.path();
    for (link, target) in [("folder", "real"), ("itself", "real/data"), ("above", "")] {
        let target = machine.granted().join(target);
        std::os::unix::fs::symlink(target, links.join(link)).unwrap();
    }
    let script = "cd $OUTSIDE; cat folder/fine; cat above/real/fine; cat folder/data/log && echo GOT; cat itself/log && echo GOT; \
                  cat above/real/data/log && echo GOT; ls -A itself/ | grep . && echo GOT";
    for kind in KINDS {
        for access in [FileAccess::Read, FileAccess::Write] {
            let mut sandbox = machine.sandbox(kind);
            sandbox.files = ["folder", "itself", "above"]
                .map(|link| grant(links.join(link), access))
                .to_vec();
            sandbox.hidden = vec![data.clone()];
            let outcome = run(&machine.spec(script, Some(sandbox))).await;
            assert_eq!(outcome.stdout, "fine\nfine\n", "{kind:?}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn what_is_granted_for_reading_in_a_folder_that_may_be_changed_is_not_written() {
    let machine = Machine::new();
    let inner = machine.granted().join("a/inner");
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::create_dir(machine.granted().join("b")).unwrap();
    std::fs::write(inner.join("text"), "text\n").unwrap();
    let script = "cat a/inner/text; echo x > b/new && echo made; echo x >> a/inner/text && echo GOT; echo x > a/inner/new && echo GOT; \
                  rm -f a/inner/text && echo GOT; mv a/inner b/ && echo GOT; mv a c && echo GOT; rm -rf a";
    for kind in KINDS {
        let mut sandbox = machine.sandbox(kind);
        sandbox.files.push(grant(&inner, FileAccess::Read));
        let outcome = run(&machine.spec(script, Some(sandbox))).await;
        assert_eq!(outcome.stdout, "text\nmade\n", "{kind:?}: {outcome:?}");
        let text = std::fs::read_to_string(inner.join("text"));
        assert_eq!(text.unwrap(), "text\n", "{kind:?}");
    }
}

#[tokio::test]
async fn semaphores_of_others_stay_as_they_are() {
    let machine = Machine::new();
    let of_the_user = |script: &str| {
        let ran = std::process::Command::new("perl")
            .args(["-e", script])
            .output()
            .unwrap();
        String::from_utf8(ran.stdout).unwrap()
    };
    let id = of_the_user("print semget(0, 1, 0600 | 01000)");
    let value = || of_the_user(&format!("print semctl({id}, 0, 12, 0) + 0"));
    for (number, call) in [("220", "$o, 1, 0"), ("65", "$o, 1")] {
        let script =
            format!("perl -e '$o = pack(q(Sss), 0, 1, 04000); syscall({number}, {id}, {call})'");
        let before = value();
        run(&machine.spec(&script, None)).await;
        let changed = value();
        assert_ne!(changed, before, "it is an attack");
        for kind in KINDS {
            run(&machine.spec(&script, Some(machine.sandbox(kind)))).await;
            assert_eq!(value(), changed, "{kind:?}, {number}");
        }
    }
    of_the_user(&format!("semctl({id}, 0, 0, 0)"));
}

#[tokio::test]
async fn folders_granted_for_reading_are_not_written() {
    let machine = Machine::new();
    let script = "cat $OUTSIDE/secret; echo x >> $OUTSIDE/secret && echo GOT; echo x > $OUTSIDE/new && echo GOT; \
                  rm -f $OUTSIDE/secret && echo GOT; chmod 666 $OUTSIDE/secret && echo GOT";
    for kind in KINDS {
        let mut sandbox = machine.sandbox(kind);
        sandbox
            .files
            .push(grant(machine.outside.path(), FileAccess::Read));
        let outcome = run(&machine.spec(script, Some(sandbox))).await;
        assert_eq!(outcome.stdout, "a secret\n", "{kind:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn descriptors_that_the_gateway_inherited_reach_no_command() {
    let machine = Machine::new();
    let secret = std::fs::File::open(machine.outside.path().join("secret")).unwrap();
    rustix::io::fcntl_setfd(&secret, rustix::io::FdFlags::empty()).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&secret);
    let script = format!("perl -e 'open(F, \"<&=\", {number}) and print <F>'; echo done");
    let control = run(&machine.spec(&script, None)).await;
    assert_eq!(control.stdout, "a secret\ndone\n");
    for kind in KINDS {
        let outcome = run(&machine.spec(&script, Some(machine.sandbox(kind)))).await;
        assert_eq!(outcome.stdout, "done\n", "{kind:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn neither_the_gateways_environment_nor_the_sandbox_itself_is_in_the_commands_environment() {
    let machine = Machine::new();
    for kind in KINDS {
        let script = "env | cut -d= -f1 | sort | tr '\\n' ' '; tr '\\0' '\\n' < /proc/self/environ | grep CALLGATE_SANDBOX";
        let mut spec = machine.spec(script, Some(machine.sandbox(kind)));
        spec.env
            .push(("CALLGATE_SANDBOX".to_owned(), "{}".to_owned()));
        let outcome = run(&spec).await;
        let seen: Vec<_> = outcome
            .stdout
            .split_whitespace()
            .filter(|name| !["HOME", "TMPDIR", "OLDPWD", "_", "SHLVL", "PWD"].contains(name))
            .collect();
        let given = [
            "ABSTRACT", "GATEWAY", "GRANTED", "OUTSIDE", "PATH", "TCP", "UDP", "VICTIM",
        ];
        assert_eq!(seen, given, "{kind:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_fork_bomb_ends_at_the_limit_of_its_namespace() {
    let machine = Machine::new();
    let script = "perl -e '$n = 0; while ($n < 5000) { $p = fork; last unless defined $p; \
                  if (!$p) { sleep 1000; exit } $n++ } print qq($n\\n)'";
    let outcome = run(&machine.spec(script, Some(machine.sandbox(Namespaces::WhereAllowed)))).await;
    let forked: u32 = outcome.stdout.trim().parse().unwrap();
    assert!((100..4096).contains(&forked), "{outcome:?}");
}

#[tokio::test]
async fn changes_of_attributes_are_reported_where_best_effort_allows_them() {
    let machine = Machine::new();
    let mut sandbox = machine.sandbox(Namespaces::Off);
    sandbox.mode = Mode::BestEffort;
    let script = "chmod 600 mine && echo changed; cat $OUTSIDE/secret && echo GOT";
    let outcome = run(&machine.spec(script, Some(sandbox))).await;
    assert_eq!(outcome.stdout, "changed\n", "{outcome:?}");
    assert!(
        outcome.stderr.contains("permissions and times"),
        "{outcome:?}"
    );
}
