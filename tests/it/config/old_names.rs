//! Keys, flags and variables under their old names.

use expect_test::expect;

use super::check;
use crate::setup::Bed;
use crate::shell::{named, run};

#[test]
fn old_names_of_keys_flags_and_variables_work_and_are_announced() {
    let bed = Bed::new("audit: {body_bytes: 9}\nupstream: {connect_wait: 3s}\n");
    let mut command = named(&bed, ["config", "show"]);
    command.args(["--upstream", "c:cat -n"]);
    let ran = run(command.env("CALLGATE_UPSTREAM_TIMEOUT", "5s"));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    expect![[r#"
        note: `audit` is an old name of the key `activity`; rename it
        note: `upstream` is an old name of the key `server_defaults`; rename it
        note: `--upstream` is an old name of `--server`; use the new one
        note: `--upstream-timeout` and CALLGATE_UPSTREAM_TIMEOUT are old names of `--server-timeout` and CALLGATE_SERVER_TIMEOUT; use the new ones
    "#]]
    .assert_eq(&ran.stderr);
    for part in ["body_bytes: 9", "connect_wait: 3s", "timeout: 5s", "  c:\n"] {
        assert!(ran.stdout.contains(part), "`{part}`: {}", ran.stdout);
    }
    let (_, ran) = check("audit: {body_bytes: 9}\nactivity: {body_bytes: 8}\n");
    assert_eq!(ran.code, Some(2), "one key under two names");
    assert!(
        ran.stderr.contains("duplicate field `activity`"),
        "{}",
        ran.stderr
    );
    let (_, ran) = check("mcpServers: {a: {command: cat}}\npolcy: x\naudit: {}\n");
    assert_eq!(
        ran.code,
        Some(2),
        "a file with an old name is not another tool's"
    );
}
