//! Script limits: every limit is a setting and is named when reached; other scripts continue.

use std::time::{Duration, Instant};

use super::{CONFIG, bed, bed_of, failed, host, ran};
use crate::talk;

#[test]
fn every_script_limit_is_configurable_and_named_when_reached() {
    let bed = bed(
        "policy: allow-all\ncode: {cpu: 1s, wall: 5s, memory_mib: 32, calls: 3, source_kib: 1, nesting: 2, output_kib: 2}\n",
    );
    let served = bed.serve();
    let mut host = host(&served);
    let long = format!("# {}", "x".repeat(2000));
    let cases = [
        ("while True: pass", "code.cpu"),
        ("wix.stuck()", "code.wall"),
        ("x = [0] * 10**9", "code.memory_mib"),
        ("for _ in range(9):\n    my_notes.plain()", "code.calls"),
        (&long, "code.source_kib"),
        ("def a():\n  def b():\n    def c(): pass", "code.nesting"),
        ("'x' * 5000", "code.output_kib"),
        ("print('x' * 5000)", "code.output_kib"),
        ("my_notes.search(query='x' * 5000)", "code.output_kib"),
    ];
    for (command, setting) in cases {
        let text = failed(&mut host, command);
        assert!(text.contains(setting), "{command:.60}: {text}");
        assert_eq!(ran(&mut host, "1 + 1"), "2", "after {command:.60}");
    }
}

#[test]
fn results_up_to_the_inline_limit_are_returned_whole() {
    let bed = bed("policy: allow-all\ncode: {inline_chars: 100}\n");
    let served = bed.serve();
    let mut host = host(&served);
    assert_eq!(ran(&mut host, "'x' * 100"), "x".repeat(100));
    let text = ran(&mut host, "'x' * 101");
    assert!(text.contains("101 characters, 1 lines"), "{text}");
}

#[test]
fn a_call_timeout_raises_a_catchable_exception() {
    let hasty =
        "  hasty: {command: '@canned@', args: [--answers, '@dir@/wix.json'], timeout: 2s}\n";
    let config = CONFIG.replace("server_defaults:", &format!("{hasty}server_defaults:"));
    let bed = bed_of(&format!("{config}policy: allow-all\n"));
    let served = bed.serve();
    let mut host = host(&served);
    let text = failed(&mut host, "\nhasty.stuck()");
    let told = "line 2: RuntimeError: server hasty timed out: `stuck` took longer than 2s";
    assert!(text.starts_with(told), "{text}");
    let caught =
        "try:\n    hasty.stuck()\nexcept Exception:\n    r = hasty.list_sites().sites[0].name\nr";
    assert_eq!(ran(&mut host, caught), "Alpha");
}

#[test]
fn looping_scripts_do_not_block_other_hosts() {
    let bed = bed("policy: allow-all\ncode: {cpu: 3s}\n");
    let served = bed.serve();
    let looping: Vec<_> = (0..3)
        .map(|_| {
            let mut host = host(&served);
            std::thread::spawn(move || failed(&mut host, "while True: pass"))
        })
        .collect();
    let mut direct = served.host_ready();
    let begun = Instant::now();
    let mut answered = 0;
    while looping.iter().any(|one| !one.is_finished()) {
        let text = talk::call_text(&mut direct, "my-notes__plain", "{}");
        assert_eq!(text, "plain text");
        answered += 1;
    }
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert!(answered > 3, "{answered}");
    for one in looping {
        let text = one.join().expect("it ends");
        assert!(text.contains("code.cpu"), "{text}");
    }
}
