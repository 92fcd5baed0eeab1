//! What a decision costs: an empty policy, many plain rules, expressions and paths, in the same run.

use std::{collections::HashMap, hint::black_box, sync::Arc, time::Instant};

use anyhow::{Result, anyhow};
use bytes::Bytes;
use callgate_gate::{
    Attempt, Builtin, Call, CallId, CallerIdentity, CompileContext, Door, Facts, Host, Layer,
    PathBase, Policy, RealPath, Rules, ServerName, Source, Target, Tool, Transport, decide,
};
use callgate_wire::{Era, Frame, Strictness};
use clap::Args;

use crate::gateway::stats::Figure;

/// How often and how long to measure.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Rounds; the ways take turns in each
    #[arg(long, default_value_t = 9)]
    rounds: usize,
    /// Decisions per round
    #[arg(long, default_value_t = 100_000)]
    decisions: u32,
}

struct Way {
    name: &'static str,
    policy: Policy,
    call: Call,
    facts: Facts,
    figures: Vec<f64>,
}

/// Measures and prints nanoseconds per decision: what a call needs, and its verdict.
pub(crate) fn run(options: &Options) -> Result<()> {
    let mut ways = ways()?;
    for _ in 0..options.rounds {
        for way in &mut ways {
            let start = Instant::now();
            for _ in 0..options.decisions {
                let needs = way.policy.needs(black_box(&way.call));
                black_box(needs);
                let verdict = decide(way.call.clone(), &way.policy, &way.facts);
                black_box(&verdict);
            }
            let each = start.elapsed().as_secs_f64() * 1e9 / f64::from(options.decisions);
            way.figures.push(each);
        }
    }
    println!(
        "{:<52} {:>9} {:>9} {:>9}",
        "policy", "median ns", "lowest", "highest"
    );
    for way in &ways {
        let Figure { value, low, high } = Figure::median_of(&way.figures);
        let name = way.name;
        println!("{name:<52} {:>9.0} {low:>9.0} {high:>9.0}", value);
    }
    Ok(())
}

fn ways() -> Result<Vec<Way>> {
    let small = r#"{"repo":"acme/site","title":"a title","n":5}"#;
    let path = r#"{"path":"src/main.rs"}"#;
    let mixed = plain_rules(500);
    let expressions = "version: '1'\nrules:\n  - scope: mcp_tool\n    deny: [{pattern: 'gh:*', when: 'args.repo.startsWith(\"evil/\")'}]\n    \
                       require_approval: [{pattern: '*:*', when: 'tool.destructive || args.n > 100'}]\n    \
                       allow: [{pattern: 'gh:*', when: 'args.repo.startsWith(\"acme/\") && has(args.title)'}]\n";
    let one = "version: '1'\nrules:\n  - scope: mcp_tool\n    allow: [{pattern: 'gh:*', when: 'args.repo.startsWith(\"acme/\")'}]\n";
    let files = "version: '1'\nrules:\n  - {scope: mcp_tool, allow: [{pattern: '*:*'}]}\n  - {scope: filesystem, deny: [{paths: ['/etc/**', '~/.ssh/**']}], allow: [{paths: ['./**']}]}\n\
                 tool_scope_map: [{pattern: 'gh:*', scope: filesystem}]\n";
    let allow_all = Policy::new(Builtin::AllowAll, HashMap::new());
    Ok(vec![
        Way::of("empty: built-in allow-all", allow_all, small)?,
        Way::of(
            "500 plain rules, the last of them allows",
            compiled(&mixed)?,
            small,
        )?,
        Way::of(
            "500 plain rules, each for any server",
            compiled(&any_server(500))?,
            small,
        )?,
        Way::of("100 plain rules", compiled(&plain_rules(100))?, small)?,
        Way::of("one candidate with an expression", compiled(one)?, small)?,
        Way::of(
            "three candidates with expressions",
            compiled(expressions)?,
            small,
        )?,
        Way::of("paths in the scope filesystem", compiled(files)?, path)?,
    ])
}

/// Rules as people write them: exact names, whole servers, verbs of any server.
pub(crate) fn plain_rules(count: usize) -> String {
    let mut text = "version: '1'\nrules:\n  - scope: mcp_tool\n    deny:\n".to_owned();
    for at in 0..count - 1 {
        let pattern = match at % 3 {
            0 => format!("server{at}:tool_{at}"),
            1 => format!("server{at}:*"),
            _ => format!("*:verb{at}_*"),
        };
        text.push_str(&format!("      - {{pattern: '{pattern}'}}\n"));
    }
    text.push_str("    allow: [{pattern: '*:*'}]\n");
    text
}

fn any_server(count: usize) -> String {
    let mut text = "version: '1'\nrules:\n  - scope: mcp_tool\n    deny:\n".to_owned();
    for at in 0..count - 1 {
        text.push_str(&format!("      - {{pattern: '*:verb{at}_*'}}\n"));
    }
    text.push_str("    allow: [{pattern: '*:*'}]\n");
    text
}

pub(crate) fn compiled(text: &str) -> Result<Policy> {
    let ground = ground();
    let around = CompileContext {
        ground: &ground,
        real: &|_| None,
    };
    let rules = Rules::read(text, around).map_err(|problems| anyhow!("{problems:?}"))?;
    let layers = vec![Layer::Rules(Arc::new(rules))];
    Ok(Policy::of(layers, HashMap::new()).ground(ground, HashMap::new()))
}

fn ground() -> PathBase {
    PathBase {
        home: Some("/people/u".to_owned()),
        folder: "/srv/repo".to_owned(),
    }
}

impl Way {
    fn of(name: &'static str, policy: Policy, arguments: &str) -> Result<Self> {
        let call = call(arguments)?;
        let paths = policy.needs(&call).paths;
        let at = |path: String| (path.clone(), RealPath::At(path));
        let facts = Facts {
            real_paths: paths.into_iter().map(at).collect(),
            ..Facts::default()
        };
        Ok(Self {
            name,
            policy,
            call,
            facts,
            figures: Vec::new(),
        })
    }
}

pub(crate) fn call(arguments: &str) -> Result<Call> {
    let server = ServerName::new("gh")?;
    let descriptor =
        Bytes::from_static(br#"{"name":"create_issue","annotations":{"destructiveHint":false}}"#);
    let tool = Tool::from_descriptor(&server, descriptor)?;
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"gh__create_issue","arguments":{arguments}}}}}"#
    );
    let identity = CallerIdentity {
        tenant: "local".to_owned(),
        principal: "user".to_owned(),
        agent: "claude".to_owned(),
        session: "s".to_owned(),
        grant: callgate_gate::Grant::default(),
    };
    Ok(Call {
        attempt: Attempt {
            id: CallId(ulid::Ulid::nil()),
            parent: None,
            via: None,
            host: Arc::new(Host {
                identity,
                client_info: None,
                capabilities: "{}".to_owned(),
                era: Era::Handshake,
            }),
            door: Door {
                source: Source::Mcp,
                transport: Transport::Stdio,
            },
            frame: Frame::parse(line.into(), Strictness::Full)?,
            declared: None,
        },
        target: Target::Tool(Arc::new(tool)),
    })
}
