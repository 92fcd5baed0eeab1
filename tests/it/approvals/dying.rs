//! `kill -9` while a call is held, during a decision, while an approval is used, while a call waits:
//! no decision is lost that was not used, and nothing is executed twice.

use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, SystemTime};

use callgate_testkit::{StdioHost, wait_until};
use serde_json::Value;

use super::{ASKING, approval_of, assert_wiped, decisions, wipe};
use crate::evidence::{assert_sound, call_line, is_success, ledger, records, run, stdout};
use crate::setup::Bed;
use crate::talk::{DEADLINE, parsed};

/// How many processes are killed unless `CALLGATE_APPROVAL_KILLS` says otherwise.
const KILLS: u64 = 6;

/// Which process is killed, and during which step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The gateway, while it asks.
    Asking,
    /// The command, while it decides.
    Deciding,
    /// The gateway, while it uses an approval.
    Using,
    /// The gateway, while a call waits and is decided.
    Waiting,
}

/// A small generator, so that a run can be repeated from its seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn moment(&mut self, longest_us: u64) -> Duration {
        Duration::from_micros(self.below(longest_us))
    }
}

struct Round<'a> {
    bed: &'a Bed,
    key: String,
}

impl Round<'_> {
    fn line(&self) -> String {
        call_line(5, "wipe", &format!(r#"{{"key":"{}"}}"#, self.key))
    }

    fn effects(&self) -> usize {
        let line = format!("wipe:{}", self.key);
        ledger(self.bed)
            .iter()
            .filter(|known| **known == line)
            .count()
    }

    /// Sends the call and kills the gateway a moment later; what it said before it died.
    fn call_and_kill(&self, mut host: StdioHost, life: Duration) -> Option<String> {
        host.send(&self.line()).expect("the gateway reads");
        // Not a wait for anything: the moment of death is what is varied.
        thread::sleep(life);
        host.kill().expect("it is ours");
        let mut said = None;
        while let Ok(line) = host.recv_within(Duration::from_secs(5)) {
            said = Some(line);
        }
        said
    }

    fn ask(&self) -> String {
        approval_of(&wipe(&mut self.bed.stdio_ready(), &self.key))
    }

    fn approve(&self, id: &str) {
        stdout(&run(self.bed, &["approvals", "approve", id]));
    }

    /// The records of calls that used an approval.
    fn users(&self, id: &str) -> Vec<Value> {
        let used = |record: &Value| {
            record["metadata"]["approval_id"] == id && record["decision"] == "ALLOW"
        };
        records(self.bed).into_iter().filter(used).collect()
    }

    /// What must hold for an approval after a death: it was used, which is on record, or the call goes on.
    fn settle(&self, id: &str) {
        let before = self.effects();
        let users = self.users(id);
        assert!(
            before <= users.len(),
            "an effect without a record: {users:?}"
        );
        let answer = wipe(&mut self.bed.stdio_ready(), &self.key);
        if users.is_empty() {
            assert_wiped(&answer, &self.key);
        } else {
            let another = approval_of(&answer);
            assert_ne!(another, id, "a second use");
            // A caller may have so many open questions, and this one is not needed.
            stdout(&run(self.bed, &["approvals", "deny", &another]));
        }
        assert!(self.effects() <= 1, "`{}` was done twice", self.key);
        assert_eq!(self.users(id).len(), 1, "one use, and it is on record");
    }
}

fn asking(round: &Round<'_>, dice: &mut Dice) {
    let said = round.call_and_kill(round.bed.stdio_ready(), dice.moment(12_000));
    assert!(!said.as_deref().is_some_and(is_success), "{said:?}");
    assert_eq!(round.effects(), 0);
    let id = round.ask();
    if let Some(said) = said {
        assert_eq!(
            approval_of(&parsed(&said)),
            id,
            "what was told still stands"
        );
    }
    round.approve(&id);
    round.settle(&id);
}

fn deciding(round: &Round<'_>, dice: &mut Dice) {
    let id = round.ask();
    let mut command: Command = round.bed.command(["approvals", "approve", &id]);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    thread::sleep(dice.moment(60_000));
    child.kill().expect("it is ours");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if said.contains("approved") {
        let shown = stdout(&run(round.bed, &["approvals", "show", &id]));
        assert!(shown.contains("(approved)"), "{shown}");
    }
    round.approve(&id);
    round.settle(&id);
}

fn using(round: &Round<'_>, dice: &mut Dice) {
    let id = round.ask();
    round.approve(&id);
    let mut host = round.bed.stdio_ready();
    // The server is there, so that the moment of death falls into the call.
    host.call(1, "n__read_thing", "{}").expect("it answers");
    let said = round.call_and_kill(host, dice.moment(15_000));
    if said.as_deref().is_some_and(is_success) {
        assert_eq!(round.effects(), 1, "{said:?}");
    }
    round.settle(&id);
}

/// Writes the configuration again.
fn configure(bed: &Bed, approvals: &str) {
    let text = bed.filled_in(&format!("{ASKING}{approvals}"));
    fs::write(bed.path("callgate.yaml"), text).expect("it is ours");
}

fn waiting(round: &Round<'_>, dice: &mut Dice) {
    configure(round.bed, "approvals: {wait: 60s}\n");
    let mut host = round.bed.stdio_ready();
    host.send(&round.line()).expect("the gateway reads");
    let mut id = None;
    let asked = wait_until(DEADLINE, || {
        let listed = parsed(&stdout(&run(round.bed, &["approvals", "list", "--json"])));
        let all = listed.as_array().cloned().unwrap_or_default();
        let own = |one: &&Value| {
            one["arguments"]
                .as_str()
                .is_some_and(|text| text.contains(&round.key))
        };
        id = all
            .iter()
            .find(own)
            .and_then(|one| one["id"].as_str().map(str::to_owned));
        id.is_some()
    });
    assert!(asked);
    let id = id.expect("it is asked");
    round.approve(&id);
    thread::sleep(dice.moment(150_000));
    host.kill().expect("it is ours");
    while host.recv_within(Duration::from_secs(5)).is_ok() {}
    configure(round.bed, "");
    round.settle(&id);
}

#[test]
fn kill_9_loses_no_decision_and_executes_nothing_twice() {
    let kills = std::env::var("CALLGATE_APPROVAL_KILLS").ok();
    let kills = kills.and_then(|kills| kills.parse().ok()).unwrap_or(KILLS);
    let seed = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(1, |time| u64::from(time.subsec_nanos()) | 1);
    eprintln!("seed {seed}");
    let mut dice = Dice(seed);
    let bed = Bed::new(ASKING);
    for at in 0..kills {
        let step = match at % 4 {
            0 => Step::Asking,
            1 => Step::Deciding,
            2 => Step::Using,
            _ => Step::Waiting,
        };
        let round = Round {
            bed: &bed,
            key: format!("k{at}"),
        };
        match step {
            Step::Asking => asking(&round, &mut dice),
            Step::Deciding => deciding(&round, &mut dice),
            Step::Using => using(&round, &mut dice),
            Step::Waiting => waiting(&round, &mut dice),
        }
    }
    // A decision whose maker was killed is put on record by the next gateway that runs.
    let gateway = bed.stdio_ready();
    let all = usize::try_from(kills).unwrap_or_default();
    let approvals = || {
        let all = decisions(&bed).into_iter();
        all.filter(|decision| decision["decision"] == "ALLOW")
            .count()
    };
    let recorded = wait_until(Duration::from_secs(30), || approvals() == all);
    let known = approvals();
    assert!(recorded, "{known} of {all} decisions are on record");
    drop(gateway);
    assert_sound(&bed);
    println!("{kills} processes were killed");
}
