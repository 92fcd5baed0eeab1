//! The log: one JSON object per line on stderr, with the fields that readers count on.

use callgate_testkit::StdioHost;
use serde_json::Value;

use crate::evidence::COUNTER;
use crate::setup::{Bed, VERSION};
use crate::talk::{DEADLINE, call, parsed};

fn line(host: &StdioHost, wanted: &str) -> Value {
    let found = host.wait_stderr(DEADLINE, |line| line.contains(wanted));
    parsed(&found.expect("the line is written"))
}

/// The keys of a line, without the two that every line has.
fn keys(line: &Value) -> Vec<&str> {
    let keys = line.as_object().expect("a line is an object").keys();
    let own = keys.map(String::as_str);
    own.filter(|key| !["timestamp", "level", "message"].contains(key))
        .collect()
}

#[test]
fn connects_and_calls_are_logged_in_one_line_each() {
    let config = "\
servers:
  n: {command: '@counter@', args: [--marker, '@dir@']}
  dead: {command: '@counter@', args: [--crash-on-start]}
  off: {command: nothing, enabled: false}
policy: allow-all
";
    let bed = Bed::new(config);
    let mut host = bed.stdio_ready();
    let init = line(&host, "\"proxy.init\"");
    assert_eq!(init["message"], "proxy.init");
    let counts = ["serverCount", "connected", "failed"].map(|key| init[key].as_u64());
    assert_eq!(counts, [Some(2), Some(1), Some(1)]);
    assert_eq!(init["toolCount"], 13);

    let connected = line(&host, "\"SUCCESS\"");
    assert_eq!(keys(&connected), ["server", "type", "toolCount", "status"]);
    assert_eq!(
        (&connected["server"], &connected["type"]),
        (&"n".into(), &"stdio".into())
    );
    let failed = line(&host, "\"FAILED\"");
    assert_eq!(
        (&failed["server"], &failed["message"]),
        (&"dead".into(), &"proxy.connect".into())
    );
    assert_eq!(failed["errorType"], "UPSTREAM_UNAVAILABLE");
    assert!(
        failed["errorMessage"]
            .as_str()
            .is_some_and(|text| text.contains("as asked"))
    );

    call(&mut host, "n__read_thing", r#"{"key":"four"}"#);
    let called = line(&host, "proxy.tool.call");
    assert_eq!(
        keys(&called),
        ["server", "tool", "resultLength", "duration", "status"]
    );
    assert_eq!(called["resultLength"], "read four".len());
    assert_eq!(called["status"], "SUCCESS");
    assert!(called["duration"].as_f64().is_some_and(|ms| ms > 0.0));

    call(&mut host, "n__fail", "{}");
    let failed = line(&host, "TOOL_ERROR");
    assert_eq!(
        (&failed["message"], &failed["status"]),
        (&"proxy.tool.call".into(), &"FAILED".into())
    );
    assert_eq!(failed["errorMessage"], "the tool reported an error");
}

#[test]
fn arguments_are_never_logged() {
    let bed = Bed::new(&COUNTER.replace("allow-all", "default"));
    let mut command = bed.command(["stdio", "--log-level", "trace"]);
    let mut host = StdioHost::connect(&mut command, VERSION).expect("it shakes hands");
    let secret = r#"{"key":"not-for-the-log"}"#;
    for tool in ["n__effect", "n__wipe", "n__fail", "n__no_such", "n__die"] {
        call(&mut host, tool, secret);
    }
    line(&host, "\"call.started\"");
    line(&host, "\"call.finished\"");
    line(&host, "\"approval_required\"");
    line(&host, "\"upstream.down\"");
    host.close(DEADLINE).expect("it ends");
    let told = host
        .stderr()
        .into_iter()
        .find(|line| line.contains("not-for-the-log"));
    assert_eq!(told, None);
}
