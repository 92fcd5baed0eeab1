//! Runs that need approval: they stop, and resume once.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use super::{bed, failed, host, result_of, said};
use crate::approvals::approve;

const COMMAND: &str = "sites = wix.list_sites().sites\ngone = wix.delete_site(id=sites[0].id)\nafter = my_notes.plain()\n[gone, after]";

fn ids(result: &Value) -> (String, String) {
    let held = &result["structuredContent"];
    let text = |value: &Value| {
        value
            .as_str()
            .unwrap_or_else(|| panic!("{result}"))
            .to_owned()
    };
    (text(&held["run_id"]), text(&held["approval_ids"][0]))
}

#[test]
fn a_held_call_suspends_its_run_which_resumes_exactly_once() {
    let bed = bed("policy: default\n");
    let served = bed.serve();
    let mut host = host(&served);
    let result = result_of(&mut host, &json!({"command": COMMAND}));
    assert_eq!(result["isError"], true, "{result}");
    let (run, approval) = ids(&result);
    assert!(
        said(&result).contains(&format!("resume=\"{run}\"")),
        "{result}"
    );
    assert_eq!(bed.read("ledger"), "ListSites {}\n");
    let kept = std::fs::read_dir(bed.path("data/runs")).unwrap();
    let modes: Vec<u32> = kept
        .map(|file| file.unwrap().metadata().unwrap().permissions().mode() & 0o777)
        .collect();
    assert_eq!(modes, [0o600]);
    // Not approved yet: it stops at the same call again, under the same id.
    let again = result_of(&mut host, &json!({"resume": run}));
    assert_eq!(ids(&again), (run.clone(), approval.clone()), "{again}");
    approve(&served, &approval);
    let done = result_of(&mut host, &json!({"resume": run}));
    assert_eq!(said(&done), r#"["gone","plain text"]"#);
    let expected = "ListSites {}\ndelete_site {\"id\":\"s1\"}\nplain {}\n";
    assert_eq!(bed.read("ledger"), expected);
    let twice = result_of(&mut host, &json!({"resume": run}));
    assert!(said(&twice).contains("no held run"), "{twice}");
    assert_eq!(bed.read("ledger"), expected);
    // Running the same script again is a new run, which asks again.
    let anew = result_of(&mut host, &json!({"command": COMMAND}));
    assert_ne!(ids(&anew).0, run);
    assert_eq!(bed.read("ledger"), format!("{expected}ListSites {{}}\n"));
}

#[test]
fn a_held_run_survives_kill_9_and_resumes_exactly_once() {
    let bed = bed("policy: default\n");
    let mut served = bed.serve();
    let result = result_of(&mut host(&served), &json!({"command": COMMAND}));
    let (run, approval) = ids(&result);
    served.process.kill().unwrap();
    let mut served = bed.serve();
    approve(&served, &approval);
    served.process.kill().unwrap();
    let served = bed.serve();
    let mut host = host(&served);
    let done = result_of(&mut host, &json!({"resume": run}));
    assert_eq!(said(&done), r#"["gone","plain text"]"#, "{done}");
    let twice = result_of(&mut host, &json!({"resume": run}));
    assert!(said(&twice).contains("no held run"), "{twice}");
    let expected = "ListSites {}\ndelete_site {\"id\":\"s1\"}\nplain {}\n";
    assert_eq!(bed.read("ledger"), expected);
    drop((host, served));
    let records = crate::evidence::records(&bed);
    let statuses = |tool: &str| {
        let of_tool = records.iter().filter(|record| record["tool"] == tool);
        let statuses: Vec<&Value> = of_tool.map(|record| &record["status"]).collect();
        json!(statuses)
    };
    assert_eq!(statuses("ListSites"), json!(["success"]));
    assert_eq!(statuses("plain"), json!(["success"]));
    let of_held = statuses("delete_site");
    let done: Vec<&Value> = of_held
        .as_array()
        .unwrap()
        .iter()
        .filter(|status| *status == "success")
        .collect();
    assert_eq!(done.len(), 1, "{of_held}");
    crate::evidence::assert_sound(&bed);
}

#[test]
fn a_held_run_can_be_resumed_only_by_its_principal() {
    let bed = bed("policy: default\n");
    let served = bed.serve();
    let result = result_of(&mut host(&served), &json!({"command": COMMAND}));
    let (run, approval) = ids(&result);
    approve(&served, &approval);
    let other = crate::approvals::token(
        &bed,
        &["--name", "other", "--role", "agent", "--view", "code"],
    );
    let mut other = crate::approvals::host_with(&served, &other);
    let refused = result_of(&mut other, &json!({"resume": run}));
    assert!(said(&refused).contains("no held run"), "{refused}");
    assert_eq!(bed.read("ledger"), "ListSites {}\n");
}

#[test]
fn a_denied_call_raises_an_exception() {
    let bed = bed("policy: policy.yaml\n");
    let policy = "version: \"1\"\nname: p\nrules:\n  - scope: mcp_tool\n    allow: [{pattern: \"*:*\"}]\n    deny: [{pattern: \"wix:delete_site\"}]\n";
    std::fs::write(bed.path("policy.yaml"), policy).unwrap();
    let served = bed.serve();
    let mut host = host(&served);
    let command = "try:\n    wix.delete_site(id='s1')\n    r = 'done'\nexcept Exception as e:\n    r = 'refused'\nr";
    assert_eq!(super::ran(&mut host, command), "refused");
    let text = failed(&mut host, "\nwix.delete_site(id='s1')");
    assert!(text.starts_with("line 2: "), "{text}");
    assert_eq!(bed.read("ledger"), "");
}
