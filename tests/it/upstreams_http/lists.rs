//! Last known definitions: a second start lists at once.

use std::time::{Duration, Instant};

use super::Remote;
use crate::setup::Bed;
use crate::talk::{DEADLINE, call_text, tools};

const SLOW: [&str; 2] = ["--slow-start-ms", "3000"];

#[test]
fn a_second_start_lists_at_once_despite_a_slow_server() {
    let remote = Remote::start(&SLOW);
    let beds = [
        remote.bed(""),
        Bed::new(&format!(
            "servers: {{x: {{command: '@counter@ {}'}}}}",
            SLOW.join(" ")
        )),
    ];
    std::thread::scope(|scope| {
        for bed in &beds {
            scope.spawn(|| assert_lists_at_once(bed));
        }
    });
}

fn assert_lists_at_once(bed: &Bed) {
    let mut host = bed.stdio_ready();
    let first = tools(&mut host);
    assert!(!first.is_empty());
    host.close(DEADLINE).expect("it ends");
    let started = Instant::now();
    let mut host = bed.stdio_ready();
    assert_eq!(tools(&mut host), first);
    let took = started.elapsed();
    assert!(took < Duration::from_millis(2500), "{took:?}");
    assert_eq!(
        call_text(&mut host, "x__read_thing", r#"{"key":"k"}"#),
        "read k",
        "a call waits for the server"
    );
}
