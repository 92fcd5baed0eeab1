//! `approvals watch` on a terminal, with answers that name their call.

use std::io::Write as _;
use std::process::{Command, Stdio};

use callgate_testkit::wait_until;

use super::{ASKING, approval_of, assert_wiped, decisions, wipe};
use crate::evidence::ledger;
use crate::setup::Bed;
use crate::talk::DEADLINE;

/// A command on a terminal of its own, made by `script`, which copies what is typed and shown.
pub(crate) fn on_a_terminal(command: &Command, shown: &std::path::Path) -> Command {
    let quoted = |text: &std::ffi::OsStr| format!("'{}'", text.display());
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    let line: Vec<String> = words.map(quoted).collect();
    let mut script = Command::new("script");
    script.args([
        "--quiet",
        "--flush",
        "--return",
        "--command",
        &line.join(" "),
    ]);
    script.arg(shown);
    script.stdin(Stdio::piped()).stdout(Stdio::null());
    script
}

#[test]
fn approvals_can_be_decided_at_a_terminal() {
    let bed = Bed::new(ASKING);
    let mut host = bed.stdio_ready();
    let shown = bed.path("shown");
    let mut watching = on_a_terminal(&bed.command(["approvals", "watch"]), &shown)
        .spawn()
        .expect("`script` of util-linux is there");
    let mut keyboard = watching.stdin.take().expect("it is piped");
    let sees = |text: &str| {
        let seen = wait_until(DEADLINE, || bed.read("shown").contains(text));
        assert!(seen, "no `{text}` in {}", bed.read("shown"));
    };
    let mut say = |answer: &str, id: &str| {
        sees(&format!("approval   {id}"));
        // The question follows the approval, and is asked once for each.
        let asked = || {
            bed.read("shown")
                .rsplit(id)
                .next()
                .is_some_and(|rest| rest.contains("leaves it open"))
        };
        assert!(wait_until(DEADLINE, asked), "{}", bed.read("shown"));
        keyboard
            .write_all(format!("{answer}\n").as_bytes())
            .expect("it reads");
        keyboard.flush().expect("it reads");
    };
    let yes = approval_of(&wipe(&mut host, "a\\u202e"));
    say("y 1", &yes);
    sees(&format!("{yes} approved"));
    sees("a⟨U+202E⟩");
    let no = approval_of(&wipe(&mut host, "b"));
    say(&format!("n {}", &no[..8]), &no);
    sees(&format!("{no} denied"));
    let open = approval_of(&wipe(&mut host, "c"));
    say("perhaps", &open);
    let last = approval_of(&wipe(&mut host, "d"));
    say("Yes 4", &last);
    sees(&format!("{last} approved"));
    watching.kill().expect("it is ours");
    watching.wait().expect("it ends");
    assert_wiped(&wipe(&mut host, "a\\u202e"), "a\u{202e}");
    assert!(
        wipe(&mut host, "b")
            .to_string()
            .contains("an approver denied")
    );
    assert_eq!(
        approval_of(&wipe(&mut host, "c")),
        open,
        "no decision was made"
    );
    assert_eq!(ledger(&bed).len(), 1);
    assert_eq!(decisions(&bed).len(), 3);
}
