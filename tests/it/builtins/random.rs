//! Random arguments never crash the gateway.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::Fixture;
use crate::talk::tools;

/// How many calls are made unless `CALLGATE_RANDOM_ARGUMENTS` says otherwise.
const CALLS: u64 = 1_000;

/// A small generator, so that a run can be repeated from its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[usize::try_from(self.below(choices.len() as u64)).expect("it is small")]
    }
}

const KEYS: [&str; 18] = [
    "path",
    "file_path",
    "offset",
    "limit",
    "content",
    "old",
    "old_string",
    "new",
    "new_string",
    "replace_all",
    "cwd",
    "timeout_seconds",
    "pattern",
    "glob",
    "output_mode",
    "case_insensitive",
    "context",
    "wait_for_previous",
];
const TEXTS: [&str; 24] = [
    "",
    "a",
    "a/b",
    "new/file",
    "..",
    "../../..",
    "/",
    "/etc/passwd",
    "~",
    "\u{0}",
    "a\nb",
    "**",
    "**/*",
    "[",
    "(",
    "(a+)+$",
    ".*",
    "\u{202e}txt",
    "🦀",
    "content",
    "count",
    "-1",
    "a/b/c/d/e",
    "%00",
];
/// What a random command may be: this is a real shell.
const COMMANDS: [&str; 5] = ["true", "exit 7", "echo x", "(", "no-such-command-at-all"];

fn value(dice: &mut Dice, depth: u64) -> Value {
    match dice.below(if depth > 2 { 8 } else { 10 }) {
        0 => Value::Null,
        1 => Value::Bool(dice.below(2) == 0),
        2 => json!(dice.below(10)),
        3 => json!(-(i64::try_from(dice.below(1000)).expect("it is small"))),
        4 => json!(dice.below(u64::MAX)),
        5 => json!(dice.below(1000) as f64 / 7.0),
        6 => json!("x".repeat(usize::try_from(dice.below(6000)).expect("it is small"))),
        7 => json!(dice.of(&TEXTS)),
        8 => (0..dice.below(4)).map(|_| value(dice, depth + 1)).collect(),
        _ => Value::Object(object(dice, depth + 1)),
    }
}

fn object(dice: &mut Dice, depth: u64) -> Map<String, Value> {
    let one = |dice: &mut Dice| {
        let key = dice.of(&KEYS).to_owned();
        // Mostly texts, so that calls also get further than their arguments.
        let value = if dice.below(2) == 0 {
            json!(dice.of(&TEXTS))
        } else {
            value(dice, depth)
        };
        (key, value)
    };
    (0..dice.below(6)).map(|_| one(dice)).collect()
}

#[test]
fn random_arguments_never_crash_the_gateway() {
    let calls = std::env::var("CALLGATE_RANDOM_ARGUMENTS").ok();
    let calls = calls.and_then(|text| text.parse().ok()).unwrap_or(CALLS);
    let mut fixture = Fixture::new();
    fixture.host.set_deadline(Duration::from_secs(60));
    fixture.file("a", "some text\n");
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let (mut good, mut failed) = (0_u64, 0_u64);
    for at in 0..calls {
        // A command takes a hundred times as long as anything else.
        let tool = if at % 50 == 0 {
            "Bash"
        } else {
            dice.of(&["Read", "Write", "Edit", "Glob", "Grep"])
        };
        let mut arguments = object(&mut dice, 0);
        if tool == "Bash" && dice.below(2) == 0 {
            arguments.insert("command".to_owned(), json!(dice.of(&COMMANDS)));
        }
        let arguments = if dice.below(20) == 0 {
            value(&mut dice, 0)
        } else {
            Value::Object(arguments)
        };
        let (is_error, _) = fixture.call(tool, &arguments);
        if is_error { failed += 1 } else { good += 1 }
    }
    println!("{calls} calls: {good} did something, {failed} were told what is wrong");
    assert!(
        good > calls / 100 && failed > calls / 10,
        "{good} and {failed}"
    );
    assert_eq!(tools(&mut fixture.host).len(), 6, "the gateway lives on");
}
