//! The client in the guide, run unchanged.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use callgate_testkit::wait_until;

use super::approving::pending;
use crate::approvals::approve;
use crate::setup::{Bed, Served};
use crate::talk::DEADLINE;

const POLICY: &str = r#"version: "1"
rules:
  - scope: shell
    deny: [{pattern: "rm *"}]
    require_approval: [{pattern: "terraform *"}]
    allow: [{pattern: "ls *"}]
"#;

/// The client, with something to be seen where the guide leaves a gap, and in more of a hurry.
fn client(command: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guard.md");
    let page = fs::read_to_string(docs).expect("the guide is there");
    let block = page.split("```python\n").nth(1);
    let block = block.and_then(|block| block.split("```").next());
    let mut text = block.expect("it has a client").to_owned();
    for (written, wanted) in [
        ("\n    ...\n", "\n    print('done')\n"),
        ("time.sleep(5)", "time.sleep(0.1)"),
        ("terraform apply", command),
    ] {
        assert_eq!(text.matches(written).count(), 1, "`{written}` in {text}");
        text = text.replace(written, wanted);
    }
    text
}

fn python(served: &Served, command: &str) -> Command {
    let mut python = Command::new("python3");
    python.args(["-u", "-c", &client(command)]);
    python.env("GATE", served.url.replace("/mcp", ""));
    python.env("GATE_TOKEN", &served.token);
    python.stdout(Stdio::piped()).stderr(Stdio::piped());
    python
}

/// Whether it ended well, and what it printed.
fn told(output: &Output) -> (bool, String) {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), text)
}

#[test]
fn the_guides_guard_client_works() {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("there is no python3 here, so the client was not run");
        return;
    }
    let bed = Bed::new("policy: '@dir@/policy.yaml'\n");
    fs::write(bed.path("policy.yaml"), POLICY).expect("it is ours");
    let mut served = bed.serve();
    let ran = |served: &Served, command| told(&python(served, command).output().expect("it ran"));
    assert_eq!(ran(&served, "ls -l"), (true, "done\n".to_owned()));
    assert_eq!(ran(&served, "rm -rf /"), (true, String::new()));
    let waiting = python(&served, "terraform apply").spawn().expect("it runs");
    assert!(wait_until(DEADLINE, || pending(&served).len() == 1));
    let id = pending(&served)[0]["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    approve(&served, &id);
    let (went_well, printed) = told(&waiting.wait_with_output().expect("it ends"));
    let url = served.url.replace("/mcp", &format!("/approvals/{id}"));
    assert!(
        went_well && printed.starts_with(&format!("waiting for {url}\n")),
        "{printed}"
    );
    assert!(printed.ends_with("\ndone\n"), "{printed}");
    served.process.kill().expect("it is ours");
    served.process.wait(DEADLINE).expect("it ends");
    assert_eq!(
        ran(&served, "ls -l"),
        (false, String::new()),
        "no answer is a no"
    );
}
