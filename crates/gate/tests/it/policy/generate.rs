//! Policies and calls out of a small world, in which rules meet calls often.

use std::collections::{BTreeMap, BTreeSet};

use callgate_testkit::policy::{Case, Expr};
use proptest::{prelude::*, sample::select};
use serde_json::{Map, Value, json};

/// A policy and the expressions in it.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) policy: Value,
    pub(crate) expressions: BTreeMap<String, Expr>,
}

const KINDS: [&str; 4] = ["deny", "require_approval", "confirm", "allow"];
const TOOL_PATTERNS: [&str; 13] = [
    "*:*",
    "fs:*",
    "*:read_*",
    "fs:read_file",
    "*:delete_*",
    "net:*",
    "s*:run",
    "*:note",
    "db:*",
    "*:write_file",
    "fs:*_file",
    "*:*e_*",
    "FS:Read_*",
];
const PATHS: [&str; 8] = [
    "/etc/**",
    "~/.ssh/**",
    "./**",
    "/tmp/*",
    "**/passwd",
    "**",
    "/srv/repo/src/*",
    "link/**",
];
const DOMAINS: [&str; 6] = ["x.com", "*.x.com", "*", "Y.org", "a.*", "private"];
const COMMANDS: [&str; 5] = ["rm -rf *", "ls*", "*", "cat *", "* *"];
const TEXTS: [&str; 4] = ["*", "*secret*", "hello", "/*"];
const PATH_VALUES: [&str; 15] = [
    "/etc/passwd",
    "/etc/../etc/passwd",
    "%2Fetc%2Fpasswd",
    "%252Fetc%252Fpasswd",
    "~/.ssh/id",
    "src/a",
    "./src/b",
    "link/passwd",
    "link/../src/a",
    "../x",
    "/srv/repo/src/a",
    "/tmp/x",
    "a b",
    "/tmp/a/b",
    "--out=/etc/x",
];

/// A policy file.
pub(crate) fn policy() -> impl Strategy<Value = Written> {
    let scopes = prop::sample::subsequence(
        vec![
            "mcp_tool",
            "filesystem",
            "shell",
            "network",
            "data",
            "notes",
            "cost",
        ],
        1..=7,
    );
    let agents = prop::option::weighted(0.3, (select(vec!["ci-*", "bot"]), any::<bool>(), sets()));
    let open = prop::bool::weighted(0.6);
    let all = (scopes, sets(), maps(), agents, open);
    all.prop_map(|(scopes, mut sets, map, agents, open)| {
        if open {
            // Where every name is allowed, the other scopes decide.
            sets.retain(|set| set.scope != "mcp_tool");
            sets.push(Set::open());
        }
        let mut expressions = BTreeMap::new();
        // Without rules for tools nothing is allowed, which is dull to compare.
        let scopes: BTreeSet<&str> = scopes.into_iter().chain(["mcp_tool"]).collect();
        let chosen = |sets: Vec<Set>, expressions: &mut BTreeMap<String, Expr>| -> Vec<Value> {
            let sets = sets.into_iter().filter(|set| scopes.contains(set.scope));
            sets.filter_map(|set| set.written(expressions)).collect()
        };
        let mut policy = json!({"version": "1", "rules": chosen(sets, &mut expressions)});
        if !map.is_empty() {
            policy["tool_scope_map"] = map.into();
        }
        if let Some((name, replaces, sets)) = agents {
            let own: Vec<Value> = chosen(sets, &mut expressions).into_iter().take(2).collect();
            if !own.is_empty() {
                let mode = if replaces { "replace" } else { "merge" };
                policy["agents"] = json!({name: {"override": own, "override_mode": mode}});
            }
        }
        Written {
            policy,
            expressions,
        }
    })
}

/// A call and the world around it.
pub(crate) fn case() -> impl Strategy<Value = Case> {
    let identity = (select(vec!["anonymous", "ci-1", "bot"]), any::<bool>());
    let tools = vec![
        ("fs", "read_file"),
        ("fs", "write_file"),
        ("fs", "delete_file"),
        ("fs", "Delete_File"),
        ("fs", "move_file"),
        ("fs", "chmod"),
        ("sh", "run"),
        ("net", "fetch"),
        ("db", "note"),
        ("fs", "note"),
    ];
    let hints = select(vec![None, Some(true), Some(false)]);
    let met = prop::collection::btree_set(select(vec!["read_*", "fs:*"]), 0..=2);
    let used = prop::collection::btree_set(select(vec!["mcp_tool", "filesystem", "notes"]), 0..=1);
    let cost = select(vec![
        None,
        None,
        Some(0.25),
        Some(0.75),
        Some(1.5),
        Some(-0.5),
    ]);
    let spent = select(vec![0.0, 19.5]);
    (
        identity,
        select(tools),
        (hints.clone(), hints),
        arguments(),
        (met, used),
        (cost, spent),
    )
        .prop_map(
            |(identity, (server, tool), hints, arguments, (met, used), (cost, spent))| Case {
                server: server.into(),
                tool: tool.into(),
                destructive: hints.0,
                read_only: hints.1,
                arguments,
                agent: identity.0.into(),
                vouched_for: identity.1,
                met: met.into_iter().map(str::to_owned).collect(),
                used_up: used.into_iter().map(str::to_owned).collect(),
                cost,
                spent,
                links: [("/srv/repo/link".to_owned(), "/etc".to_owned())].into(),
            },
        )
}

/// A rule set as it is drawn; what is the same for all scopes is drawn for all.
#[derive(Debug, Clone)]
struct Set {
    scope: &'static str,
    rules: Vec<Drawn>,
    rate: bool,
}

#[derive(Debug, Clone)]
struct Drawn {
    kind: &'static str,
    field: usize,
    second: usize,
    action: Option<&'static str>,
    when: Option<Expr>,
    condition: Option<&'static str>,
}

fn sets() -> impl Strategy<Value = Vec<Set>> {
    let scopes = [
        "mcp_tool",
        "filesystem",
        "shell",
        "network",
        "data",
        "notes",
        "cost",
    ];
    let set = move |scope: &'static str| {
        let rules = prop::collection::vec(drawn(), 1..5);
        (rules, prop::bool::weighted(0.15)).prop_map(move |(rules, rate)| Set {
            scope,
            rules,
            rate,
        })
    };
    scopes.map(set).into_iter().collect::<Vec<_>>()
}

fn drawn() -> impl Strategy<Value = Drawn> {
    (
        prop_oneof![select(KINDS.to_vec()), Just("allow")],
        0..100_usize,
        0..100_usize,
        prop::option::weighted(0.3, select(vec!["read", "write", "delete"])),
        prop::option::weighted(0.3, expression()),
        prop::option::weighted(0.1, select(vec!["read_*", "fs:*"])),
    )
        .prop_map(|(kind, field, second, action, when, condition)| Drawn {
            kind,
            field,
            second,
            action,
            when,
            condition,
        })
}

impl Set {
    /// Every tool is allowed by its name.
    fn open() -> Self {
        let rule = Drawn {
            kind: "allow",
            field: 0,
            second: 0,
            action: None,
            when: None,
            condition: None,
        };
        Self {
            scope: "mcp_tool",
            rules: vec![rule],
            rate: false,
        }
    }

    fn written(self, expressions: &mut BTreeMap<String, Expr>) -> Option<Value> {
        let scope = self.scope;
        if scope == "cost" {
            let limits =
                json!({"max_per_action": 1.0, "max_per_session": 20.0, "alert_threshold": 0.5});
            return Some(json!({"scope": "cost", "limits": limits}));
        }
        let mut set = json!({"scope": scope});
        for rule in self.rules {
            let kind = rule.kind;
            let mut list = set[kind].as_array().cloned().unwrap_or_default();
            list.push(rule.written(scope, expressions));
            set[kind] = list.into();
        }
        if self.rate {
            set["rate_limit"] = json!({"max_requests": 3, "window": "1m"});
        }
        Some(set)
    }
}

impl Drawn {
    fn written(self, scope: &str, expressions: &mut BTreeMap<String, Expr>) -> Value {
        let mut rule = Map::new();
        let pick = |from: &[&str]| from[self.field % from.len()].to_owned();
        match scope {
            "filesystem" => {
                let second = PATHS[self.second % PATHS.len()];
                rule.insert("paths".into(), json!([pick(&PATHS), second]));
                if let Some(action) = self.action {
                    rule.insert("action".into(), action.into());
                }
            }
            "network" => {
                rule.insert("domains".into(), json!([pick(&DOMAINS)]));
            }
            "shell" => {
                rule.insert("pattern".into(), pick(&COMMANDS).into());
            }
            "data" => {
                rule.insert("pattern".into(), pick(&TEXTS).into());
            }
            _ => {
                rule.insert("pattern".into(), pick(&TOOL_PATTERNS).into());
            }
        }
        if let Some(when) = self.when {
            rule.insert("when".into(), when.to_string().into());
            expressions.insert(when.to_string(), when);
        }
        if let Some(pattern) = self.condition {
            let condition = json!([{"require_prior": pattern, "time_window": "1h"}]);
            rule.insert("conditions".into(), condition);
        }
        Value::Object(rule)
    }
}

fn maps() -> impl Strategy<Value = Vec<Value>> {
    let all = vec![
        ("fs:note", "notes"),
        ("fs:*", "filesystem"),
        ("sh:*", "shell"),
        ("net:*", "network"),
        ("*:note", "notes"),
        ("db:*", "data"),
    ];
    prop::sample::subsequence(all, 2..=6).prop_map(|map| {
        let entry = |(pattern, scope)| json!({"pattern": pattern, "scope": scope});
        map.into_iter().map(entry).collect()
    })
}

/// An expression whose parts can hold, fail to hold, or fail.
fn expression() -> impl Strategy<Value = Expr> {
    let leaf = prop_oneof![
        Just(Expr::Destructive),
        Just(Expr::ReadOnly),
        Just(Expr::AgentIs("ci-1".into())),
        Just(Expr::Has("repo".into())),
        Just(Expr::ArgIs("repo".into(), "acme/x".into())),
        Just(Expr::ArgStarts("repo".into(), "acme/".into())),
        Just(Expr::ArgOver("n".into(), 3)),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            inner.clone().prop_map(|a| Expr::Not(Box::new(a))),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Expr::And(Box::new(a), Box::new(b))),
            (inner.clone(), inner).prop_map(|(a, b)| Expr::Or(Box::new(a), Box::new(b))),
        ]
    })
}

fn arguments() -> impl Strategy<Value = Value> {
    let path = || select(PATH_VALUES.to_vec()).prop_map(Value::from);
    let few = |of: Vec<&'static str>| select(of).prop_map(Value::from);
    let member = prop_oneof![
        4 => path().prop_map(|value| ("path", value)),
        1 => path().prop_map(|value| ("Path", value)),
        1 => prop::collection::vec(path(), 0..3).prop_map(|value| ("paths", value.into())),
        1 => path().prop_map(|value| ("source", value)),
        1 => path().prop_map(|value| ("destination", value)),
        1 => path().prop_map(|value| ("x", value)),
        1 => path().prop_map(|value| ("inner", json!({"path": value}))),
        1 => few(vec!["hello", "a secret", "/etc/passwd", "../x"]).prop_map(|v| ("content", v)),
        2 => few(vec!["acme/x", "acme/y", "other"]).prop_map(|value| ("repo", value)),
        2 => select(vec![1, 5, 9_007_199_254_740_993_i64]).prop_map(|n| ("n", n.into())),
        2 => few(vec!["rm -rf /", "rm  -rf  /", "ls", "cat x"]).prop_map(|v| ("command", v)),
        2 => few(vec!["https://x.com/a", "http://A.X.com:80/", "https://u@y.org/", "http://a@b@c/", "https:x.com", "//y.org/a", "http://[::ffff:10.0.0.1]/"])
            .prop_map(|value| ("url", value)),
        1 => few(vec!["X.COM.", "y.org", "a.b"]).prop_map(|value| ("Host", value)),
    ];
    prop::collection::vec(member, 0..4).prop_map(|members| {
        let members = members
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value));
        Value::Object(members.collect())
    })
}
