//! Attacks on the gateway. Each test is one cause: one way in which a promise could be broken. It tries the cause in several
//! spellings against the real binary and compares what was seen with what the promise says.
//!
//! CI tries the first spellings of each cause. `cargo xtask soak attacks` tries all of them and prints the table.

mod addresses;
#[cfg(feature = "agents")]
mod agents;
mod approvals;
mod built_ins;
mod cancelling;
#[cfg(feature = "code")]
mod code;
mod definitions;
mod guard;
mod index;
mod lock;
mod names;
mod paths;
mod questions;
mod record;
mod secrets;
mod self_change;
mod tasks;
mod tenants;
mod tokens;
mod trust;

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;

use callgate_testkit::Host;
use serde_json::{Value, json};

use crate::setup::Bed;
use crate::talk::call;

/// How many spellings of a cause CI tries.
const IN_CI: usize = 3;

/// Set by the soak: a file that gets one JSON line per cause. All spellings are tried then.
const REPORT: &str = "CALLGATE_ATTACK_REPORT";

/// What became of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It was answered with an error, and had no effect.
    Refused,
    /// It waits for a person, and had no effect.
    Held,
    /// It happened outside the gateway, and the gateway detected and reported it.
    Detected,
    /// It was accepted, and gave the attacker nothing.
    Harmless,
    /// The attack worked.
    Passed,
}

/// One cause, and what was seen of it so far.
#[derive(Debug)]
pub(crate) struct Attack {
    class: &'static str,
    cause: &'static str,
    expected: Vec<Seen>,
    open: bool,
    tried: Vec<(String, Seen)>,
}

/// An attack of a class (the name of its module). The cause is a short sentence about what the attacker does.
pub(crate) fn attack(class: &'static str, cause: &'static str) -> Attack {
    Attack {
        class,
        cause,
        expected: Vec::new(),
        open: false,
        tried: Vec::new(),
    }
}

impl Attack {
    /// What must be seen of every spelling.
    pub(crate) fn expect(mut self, seen: Seen) -> Self {
        self.expected.push(seen);
        self
    }

    /// Either of these is as good: the attacker gains nothing.
    pub(crate) fn expect_any(mut self, seen: &[Seen]) -> Self {
        self.expected.extend_from_slice(seen);
        self
    }

    /// The cause is known and not closed yet. The test then fails as soon as every spelling is stopped, so that the mark
    /// goes when the fix comes.
    #[allow(dead_code)] // Used only between finding a cause and closing it.
    pub(crate) fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// Tries each spelling; CI tries the first few.
    pub(crate) fn tries<T: fmt::Debug>(
        mut self,
        spellings: impl IntoIterator<Item = T>,
        mut attempt: impl FnMut(&T) -> Seen,
    ) -> Self {
        let limit = if reporting() { usize::MAX } else { IN_CI };
        for spelling in spellings.into_iter().take(limit) {
            let seen = attempt(&spelling);
            self.tried.push((format!("{spelling:?}"), seen));
        }
        self
    }

    /// Compares, and tells the soak.
    pub(crate) fn check(self) {
        assert!(!self.tried.is_empty(), "{}: nothing was tried", self.cause);
        assert!(
            !self.expected.is_empty(),
            "{}: nothing expected",
            self.cause
        );
        let unexpected: Vec<_> = self
            .tried
            .iter()
            .filter(|(_, seen)| !self.expected.contains(seen))
            .collect();
        self.report(unexpected.len());
        match (self.open, unexpected.is_empty()) {
            (false, true) | (true, false) => {}
            (false, false) => panic!(
                "{}: expected {:?}, seen {unexpected:#?}",
                self.cause, self.expected
            ),
            (true, true) => panic!("{}: closed; remove `open()`", self.cause),
        }
    }

    fn report(&self, unexpected: usize) {
        let Some(path) = std::env::var_os(REPORT) else {
            return;
        };
        let mut seen: Vec<String> = Vec::new();
        for (_, one) in &self.tried {
            let one = format!("{one:?}");
            if !seen.contains(&one) {
                seen.push(one);
            }
        }
        let line = json!({
            "class": self.class,
            "cause": self.cause,
            "spellings": self.tried.len(),
            "expected": self.expected.iter().map(|seen| format!("{seen:?}")).collect::<Vec<_>>(),
            "seen": seen,
            "unexpected": unexpected,
        });
        let file = OpenOptions::new().create(true).append(true).open(path);
        let mut file = file.expect("the report can be written");
        file.write_all(format!("{line}\n").as_bytes())
            .expect("the report can be written");
    }
}

fn reporting() -> bool {
    std::env::var_os(REPORT).is_some()
}

/// A server `s` with these tools (raw descriptors); every call that reaches it is a line in the ledger.
pub(crate) const CANNED: &str = "  s: {command: '@canned@', args: [--answers, '@dir@/answers.json', --ledger, '@dir@/ledger']}\n";

/// Writes the tools of [`CANNED`]; each answers with its arguments.
pub(crate) fn can(bed: &Bed, tools: &[Value]) {
    let answer = |tool: &Value| json!({"tool": tool, "result": "$arguments"});
    let answers: Vec<Value> = tools.iter().map(answer).collect();
    write(&bed.path("answers.json"), &json!(answers).to_string());
}

/// A descriptor that says nothing about effects and takes any object.
pub(crate) fn plain_tool(name: &str) -> Value {
    json!({"name": name, "description": format!("The tool {name}."), "inputSchema": {"type": "object"}})
}

/// Makes a call and says what became of it, by its answer and by what reached the server.
pub(crate) fn attempt(bed: &Bed, host: &mut dyn Host, shown: &str, arguments: &str) -> Seen {
    let before = bed.read("ledger").len();
    let response = call(host, shown, arguments);
    judged(&response, bed.read("ledger").len() > before)
}

/// What an answer to a call says became of it, when it is known whether it reached its server.
pub(crate) fn judged(response: &Value, reached: bool) -> Seen {
    if reached {
        return Seen::Passed;
    }
    let text = response["result"]["content"][0]["text"].as_str();
    let text = text.unwrap_or_default();
    if text.starts_with("[callgate] Action requires approval.") {
        Seen::Held
    } else if response.get("error").is_some() || response["result"]["isError"] == true {
        Seen::Refused
    } else {
        Seen::Passed
    }
}

/// Writes a file of the attacker's, and the folders above it.
pub(crate) fn write(path: &Path, text: &str) {
    let folder = path.parent().expect("a file lies in a folder");
    fs::create_dir_all(folder).expect("the bed is writable");
    fs::write(path, text).expect("the bed is writable");
}
