//! A guard gives the verdict that the gateway itself would give under the same policy.

use callgate_testkit::StdioHost;
use serde_json::{Value, json};

use crate::setup::Bed;
use crate::talk::stdio_as;

/// How many calls are compared; a soak compares more.
const CALLS: usize = 150;

const POLICY: &str = r#"version: "1"
rules:
  - scope: mcp_tool
    deny: [{pattern: "fs:drop_*"}, {pattern: "*:run", when: 'args.command.contains("rm ")'}]
    require_approval: [{pattern: "*:delete_*"}, {pattern: "*", when: 'tool.destructive && args.key != "x"'}]
    confirm: [{pattern: "fs:send_mail"}]
    allow: [{pattern: "fs:*", when: 'tool.read_only || size(args) < 4'}]
  - scope: filesystem
    deny: [{paths: ["/etc/**", "**/secret*"]}]
    require_approval: [{action: delete, paths: ["/**"]}, {action: write, paths: ["/srv/**"]}]
    allow: [{paths: ["/**"]}]
  - scope: shell
    deny: [{pattern: "sudo *"}]
    allow: [{pattern: "ls*"}, {pattern: "cat *"}]
  - scope: network
    deny: [{domains: ["evil.com", "*.evil.com"]}]
    allow: [{domains: ["*"]}]
  - scope: data
    deny: [{pattern: "*password*"}]
    allow: [{pattern: "*"}]
  - scope: notes
    require_approval: [{pattern: "fs:note", when: 'args.key == "b"'}]
    allow: [{pattern: "*"}]
  - scope: cost
    limits: {max_per_action: 1.0, max_per_session: 100000, alert_threshold: 0.5}
tool_scope_map:
  - {pattern: "fs:*_file", scope: filesystem}
  - {pattern: "fs:run", scope: shell}
  - {pattern: "fs:fetch", scope: network}
  - {pattern: "fs:send_mail", scope: data}
  - {pattern: "fs:note", scope: notes}
agents:
  "odd *": {override: [{scope: mcp_tool, deny: [{pattern: "fs:stat_file", when: 'args.key == "c"'}], allow: [{pattern: "fs:stat_file"}]}], override_mode: merge}
"#;

const TOOLS: [&str; 11] = [
    r#"{"name":"read_file","annotations":{"readOnlyHint":true}}"#,
    r#"{"name":"write_file"}"#,
    r#"{"name":"move_file","annotations":{"destructiveHint":false}}"#,
    r#"{"name":"delete_file"}"#,
    r#"{"name":"stat_file","annotations":{"readOnlyHint":true}}"#,
    r#"{"name":"drop_table"}"#,
    r#"{"name":"run","annotations":{"destructiveHint":true}}"#,
    r#"{"name":"fetch"}"#,
    r#"{"name":"send_mail"}"#,
    r#"{"name":"note"}"#,
    r#"{"name":"other","annotations":{"destructiveHint":true}}"#,
];

/// Numbers that look random and are the same each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).expect("it fits") % sides
    }

    fn of<'a>(&mut self, values: &[&'a str]) -> &'a str {
        values[self.roll(values.len())]
    }

    fn arguments(&mut self) -> Value {
        let mut arguments = json!({});
        let paths = [
            "/etc/passwd",
            "/etc/../etc/shadow",
            "/srv/a",
            "/tmp/x",
            "/tmp/secret.txt",
            "%2Fetc%2Fx",
            "relative",
            "../up",
            "/a\u{202e}b",
        ];
        let members: [(&str, &[&str]); 8] = [
            ("key", &["a", "b", "c", "x"]),
            ("path", &paths),
            ("destination", &paths),
            (
                "command",
                &[
                    "ls -l",
                    "cat /etc/passwd",
                    "sudo ls",
                    "rm -rf /",
                    "ls; rm x",
                ],
            ),
            (
                "url",
                &[
                    "https://evil.com/a",
                    "http://x.evil.com",
                    "https://ok.org",
                    "nonsense",
                ],
            ),
            ("text", &["hello", "my password is x"]),
            ("paths", &paths),
            ("deep", &paths),
        ];
        for (key, values) in members {
            if self.roll(3) == 0 {
                arguments[key] = match key {
                    "paths" => json!([self.of(values), self.of(values)]),
                    "deep" => json!({"inside": {"path": self.of(values)}}),
                    _ => self.of(values).into(),
                };
            }
        }
        if self.roll(4) == 0 {
            arguments["n"] =
                [json!(1), json!(1.5), json!(-3), json!(null), json!([])][self.roll(5)].clone();
        }
        arguments
    }
}

/// What came of a call, as far as both must agree: all but the approval's own id and address.
fn verdict(host: &mut StdioHost, line: &str) -> String {
    let answer = crate::talk::request(host, line);
    let text = answer["result"]["content"][0]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("no text: {answer}"));
    let kept = text
        .lines()
        .filter(|line| !line.starts_with("Approval ID: ") && !line.starts_with("Approve at: "));
    kept.collect::<Vec<_>>().join("\n")
}

fn config(more: &str) -> String {
    format!(
        "\
servers: {{fs: {{command: '@counter@', args: [--catalog, '@dir@/tools.json', --ledger, '@dir@/ledger']}}}}
policy: '@dir@/policy.yaml'
approvals: {{expire_after: 1ms}}
activity: {{retain: {{days: 1}}}}
{more}"
    )
}

fn bed(more: &str) -> Bed {
    let bed = Bed::new(&config(more));
    std::fs::write(bed.path("policy.yaml"), POLICY).expect("it is ours");
    let tools = format!("[{}]", TOOLS.join(","));
    std::fs::write(bed.path("tools.json"), tools).expect("it is ours");
    bed
}

#[test]
fn the_guard_and_the_local_policy_agree() {
    let calls = std::env::var("CALLGATE_GUARD_CALLS").ok();
    let calls = calls.map_or(CALLS, |calls| calls.parse().expect("a number"));
    let guard = bed("");
    let served = guard.serve();
    let url = served.url.replace("/mcp", "");
    let asks = bed(&format!(
        "guard: {{url: '{url}', api_key: {}}}\n",
        served.token
    ));
    let itself = bed("");
    // Hosts that cannot be asked: a confirmation is an approval for them, here as over there.
    let (mut asking, mut alone) = (stdio_as(&asks, Some("{}")), stdio_as(&itself, Some("{}")));
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut seen = std::collections::BTreeMap::<String, usize>::new();
    for number in 0..calls {
        let tool = serde_json::from_str::<Value>(TOOLS[dice.roll(TOOLS.len())]).expect("JSON");
        let mut params = json!({
            "name": format!("fs__{}", tool["name"].as_str().expect("a name")),
            "arguments": dice.arguments(),
        });
        if dice.roll(5) == 0 {
            let costs = [json!(0.1), json!(0.6), json!(2), json!(-1), json!("much")];
            params["_meta"] = json!({"dev.callgate/est_cost": costs[dice.roll(5)]});
        }
        let line =
            json!({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params});
        let line = line.to_string();
        let (there, here) = (verdict(&mut asking, &line), verdict(&mut alone, &line));
        assert_eq!(there, here, "call {number}: {line}");
        let kind = here.lines().next().unwrap_or_default();
        let kind = if kind.starts_with("[callgate]") {
            kind
        } else {
            "done"
        };
        *seen.entry(kind.to_owned()).or_default() += 1;
    }
    assert_eq!(seen.len(), 3, "each kind of verdict was met: {seen:?}");
    println!("{calls} calls, two gateways, the same verdicts: {seen:?}");
}
