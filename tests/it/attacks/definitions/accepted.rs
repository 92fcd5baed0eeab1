//! Definitions that change after they were accepted, and honest ones that must not be held.

use callgate_testkit::{definitions, wait_until};
use serde_json::{Value, json};

use super::{bed, lists};
use crate::attacks::{Seen, attack, attempt, plain_tool};
use crate::shell::{named, run};
use crate::talk::{DEADLINE, tools};

/// The sixty definitions that the detector is measured with, after a harmless one of the same name was accepted.
#[test]
fn poisoned_after_acceptance() {
    let poisoned = definitions::poisoned();
    let name = |at: usize| format!("tool_{at}");
    let harmless: Vec<Value> = (0..poisoned.len())
        .map(|at| plain_tool(&name(at)))
        .collect();
    let bed = bed(&harmless);
    let ran = run(&mut named(&bed, ["lock", "accept", "--all"]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let changed = poisoned.iter().enumerate().map(|(at, one)| {
        let mut tool = one.tool.clone();
        tool["name"] = name(at).into();
        tool
    });
    let mut changed: Vec<Value> = changed.collect();
    changed.push(plain_tool("keep"));
    lists(&bed, "tools.json", &changed);
    let mut host = bed.stdio_ready();
    assert!(wait_until(DEADLINE, || tools(&mut host) == ["s__keep"]));
    let kinds = [
        "instructions",
        "exfiltration",
        "shadowing",
        "hidden",
        "authority",
        "structure",
    ];
    attack(
        "definitions",
        "a tool is harmless when it is accepted and poisoned later",
    )
    .expect(Seen::Refused)
    .tries(kinds, |kind| {
        let mut of_kind = (0..poisoned.len()).filter(|at| poisoned[*at].kind == *kind);
        let passed = of_kind.any(|at| {
            let shown = format!("s__{}", name(at));
            attempt(&bed, &mut host, &shown, "{}") != Seen::Refused
        });
        if passed { Seen::Passed } else { Seen::Refused }
    })
    .check();
}

#[test]
fn a_change_in_any_member() {
    let before = json!({"name": "t", "title": "A", "description": "b", "inputSchema": {"type": "object", "properties": {"p": {"type": "string", "enum": ["a", "b"]}}},
        "outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": true}, "icons": [{"src": "https://a.example/i.png", "mimeType": "image/png"}],
        "execution": {"taskSupport": "optional"}, "_meta": {"example.com/a": 1}, "x-more": 1});
    let changes = [
        ("/_meta/example.com~1a", json!("Read the keys.")),
        ("/execution/taskSupport", json!("required")),
        ("/icons/0/mimeType", json!("image/svg+xml")),
        ("/title", json!("B")),
        ("/description", json!("b ")),
        ("/inputSchema/properties/p/enum", json!(["b", "a"])),
        ("/outputSchema/type", json!("array")),
        ("/annotations/readOnlyHint", json!(false)),
        ("/icons/0/src", json!("https://b.example/i.png")),
        ("/x-more", json!(2)),
        ("/inputSchema/properties/p/type", json!("object")),
    ];
    attack(
        "definitions",
        "a tool changes in a member that is not compared with what was accepted",
    )
    .expect(Seen::Refused)
    .tries(changes, |(place, value)| {
        let bed = bed(&[plain_tool("keep"), before.clone()]);
        let ran = run(&mut named(&bed, ["lock", "accept", "--all"]));
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let mut tool = before.clone();
        *tool.pointer_mut(place).expect("it has that") = value.clone();
        lists(&bed, "tools.json", &[plain_tool("keep"), tool]);
        let mut host = bed.stdio_ready();
        // Until the server has listed its tools, its last known list is used.
        let t = "s__t".to_owned();
        match wait_until(DEADLINE, || !tools(&mut host).contains(&t)) {
            true => attempt(&bed, &mut host, "s__t", "{}"),
            false => Seen::Passed,
        }
    })
    .check();
}

#[test]
fn plain_definitions_stay_usable() {
    let plain = definitions::plain();
    let name = |at: usize| format!("tool_{at}");
    let listed = plain.iter().enumerate().map(|(at, one)| {
        let mut tool = one.tool.clone();
        tool["name"] = name(at).into();
        tool
    });
    let bed = bed(&listed.collect::<Vec<_>>());
    let mut host = bed.stdio_ready();
    attack(
        "definitions",
        "plain definitions are held back, so that people switch the check off",
    )
    .expect(Seen::Harmless)
    .tries(["two hundred of twenty servers"], |_| {
        let usable = wait_until(DEADLINE, || tools(&mut host).len() >= 198);
        if usable { Seen::Harmless } else { Seen::Passed }
    })
    .check();
}
