//! Whether a sandboxed command starts, and what is said if it does not.

use callgate_process::Ending;
use callgate_process::sandbox::{FileAccess, GAP_PREFIX, Namespaces, probe};

use super::{KINDS, Machine, grant, run};
use crate::given::warden_program;

#[tokio::test]
async fn exit_codes_and_streams_pass_through_a_sandbox() {
    let machine = Machine::new();
    for kind in KINDS {
        for (script, code) in [
            ("echo out; echo err >&2; exit 0", 0),
            ("echo out; echo err >&2; exit 7", 7),
            ("echo out; echo err >&2; kill -9 $$", 137),
        ] {
            let outcome = run(&machine.spec(script, Some(machine.sandbox(kind)))).await;
            assert_eq!(outcome.ending, Ending::Exited { code }, "{outcome:?}");
            assert_eq!(outcome.stdout, "out\n");
            assert!(outcome.stderr.ends_with("err"), "{outcome:?}");
        }
    }
}

#[tokio::test]
async fn commands_that_cannot_start_in_a_sandbox_report_the_reason() {
    let machine = Machine::new();
    let hidden_program = machine.outside.path().join("program");
    std::fs::copy("/bin/true", &hidden_program).unwrap();
    for kind in KINDS {
        let cases = [
            (
                "no-such-server".to_owned(),
                "no such command, or the interpreter its first line names is missing",
            ),
            (
                hidden_program.to_str().unwrap().to_owned(),
                match kind {
                    Namespaces::WhereAllowed => {
                        "no such command, or the interpreter its first line names is missing"
                    }
                    Namespaces::Off => "it is not executable",
                },
            ),
        ];
        for (command, reason) in cases {
            let mut spec = machine.spec("", Some(machine.sandbox(kind)));
            (spec.command, spec.args) = (command.clone(), Vec::new());
            let message = format!("callgate: cannot start `{command}`: {reason}");
            assert_eq!(run(&spec).await.ending, Ending::NotStarted { message });
        }
    }
}

#[tokio::test]
async fn a_granted_path_that_does_not_exist_is_named() {
    let machine = Machine::new();
    for kind in KINDS {
        let mut sandbox = machine.sandbox(kind);
        sandbox.files.push(grant("/no/such/path", FileAccess::Read));
        let message = "callgate: cannot start `sh`: could not grant `/no/such/path`: No such file or directory (os error 2)";
        let outcome = run(&machine.spec("true", Some(sandbox))).await;
        let expected = Ending::NotStarted {
            message: message.to_owned(),
        };
        assert_eq!(outcome.ending, expected, "{outcome:?}");
    }
}

#[tokio::test]
async fn gaps_are_named_before_the_command_starts() {
    let machine = Machine::new();
    let outcome = run(&machine.spec("echo own >&2", Some(machine.sandbox(Namespaces::Off)))).await;
    let lines: Vec<_> = outcome.stderr.lines().collect();
    let (own, gaps) = lines.split_last().unwrap();
    assert_eq!(*own, "own");
    assert!(!gaps.is_empty());
    assert!(
        gaps.iter().all(|line| line.starts_with(GAP_PREFIX)),
        "{outcome:?}"
    );
    assert!(
        gaps.iter()
            .any(|line| line.contains("names, sizes and times")),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn the_probe_agrees_with_what_a_sandbox_reports() {
    let machine = Machine::new();
    let probe = probe(&warden_program());
    for kind in KINDS {
        let sandbox = machine.sandbox(kind);
        let expected: Vec<_> = probe
            .gaps(&sandbox)
            .iter()
            .map(|gap| format!("{GAP_PREFIX}{}", gap.sentence()))
            .collect();
        let outcome = run(&machine.spec("true", Some(sandbox))).await;
        assert_eq!(outcome.stderr, expected.join("\n"), "{kind:?}");
    }
    assert!(probe.enforced.is_some());
}
