//! How many poisoned definitions are held at first sight, and how many plain ones.

use std::{collections::BTreeMap, fs, path::Path};

use bytes::Bytes;
use callgate_testkit::definitions::{self, Plain};
use serde_json::Value;

use super::*;
use crate::Naming;

/// A folder with files of real tools, each `{"tools": [{"server": …, "name": …, …}]}`. They are not ours, so they are not here.
const REAL_TOOLS: &str = "CALLGATE_REAL_TOOLS";

fn tool(server: &str, descriptor: &Value) -> Tool {
    let server = ServerName::new(server).unwrap();
    Tool::from_descriptor(&server, Bytes::from(descriptor.to_string())).unwrap()
}

/// What a fresh gateway keeps away of these tools, which it sees together.
fn held(tools: &[Plain]) -> Vec<String> {
    let mut servers: BTreeMap<&str, Vec<Tool>> = BTreeMap::new();
    for Plain { server, tool: said } in tools {
        servers.entry(server).or_default().push(tool(server, said));
    }
    let servers: Vec<Vec<Tool>> = servers.into_values().collect();
    let sorted = Pins::default().sort(&servers, &Naming::default());
    let told = |one: &Quarantined| format!("{}: {}", shown_name(&one.tool), one.reason);
    sorted.quarantined.iter().map(told).collect()
}

#[test]
fn most_poisoned_definitions_are_held_at_first_sight() {
    let mut counts: BTreeMap<(bool, &str), (usize, usize)> = BTreeMap::new();
    let poisoned = definitions::poisoned();
    for one in &poisoned {
        let mut all = one.beside.clone();
        all.push(Plain {
            server: one.server.clone(),
            tool: one.tool.clone(),
        });
        let name = shown_name(&tool(&one.server, &one.tool));
        let is_held = held(&all)
            .iter()
            .any(|held| held.starts_with(&format!("{name}: ")));
        let (found, count) = counts.entry((one.held_out, &one.kind)).or_default();
        *found += usize::from(is_held);
        *count += 1;
        if !is_held && !one.held_out {
            println!("not held: {name}");
        }
    }
    for ((held_out, kind), (found, count)) in &counts {
        let set = if *held_out { "held out" } else { "development" };
        println!("{set}, {kind}: {found} of {count}");
    }
    let of = |held_out: bool| {
        let counts = counts.iter().filter(|((set, _), _)| *set == held_out);
        counts.map(|(_, (found, _))| found).sum::<usize>()
    };
    println!(
        "held: {} of 60, {} of 30 held out",
        of(false) + of(true),
        of(true)
    );
    assert_eq!(poisoned.len(), 60);
    assert!((of(false) + of(true)) * 10 >= 60 * 6, "at least 60 %");
}

#[test]
fn ordinary_definitions_are_rarely_held() {
    let plain = definitions::plain();
    let held = held(&plain);
    assert_eq!(plain.len(), 200);
    assert!(held.len() * 100 <= plain.len(), "at most 1 %: {held:#?}");
}

#[test]
fn definitions_of_real_servers_are_rarely_held() {
    let Some(folder) = std::env::var_os(REAL_TOOLS) else {
        println!("not measured: {REAL_TOOLS} names no folder with tools of real servers");
        return;
    };
    let mut tools = Vec::new();
    for file in fs::read_dir(Path::new(&folder)).expect("a folder") {
        let text = fs::read_to_string(file.expect("a file").path()).expect("a text");
        let all: Value = serde_json::from_str(&text).expect("JSON");
        for said in all["tools"].as_array().expect("tools") {
            let server = said["server"].as_str().expect("a server").replace(' ', "-");
            tools.push(Plain {
                server,
                tool: said.clone(),
            });
        }
    }
    let held = held(&tools);
    println!("held: {} of {}: {held:#?}", held.len(), tools.len());
    assert!(held.len() * 100 <= tools.len(), "at most 1 %: {held:#?}");
}
