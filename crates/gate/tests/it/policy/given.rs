//! Policies, calls and facts that the tests start from.

use std::{collections::HashMap, sync::Arc};

use callgate_gate::{
    Call, CallerIdentity, CompileContext, Facts, Layer, Mode, PathBase, Policy, Problem, RealPath,
    Rules, Target, Tool, Verdict, decide,
};
use callgate_testkit::policy::{Case, arguments};
use callgate_wire::{Frame, Strictness, quote};

use crate::given;

/// The folder that relative paths start from.
pub(crate) const FOLDER: &str = "/srv/repo";
/// The home folder.
pub(crate) const HOME: &str = "/people/u";

/// What paths mean in these tests.
pub(crate) fn ground() -> PathBase {
    PathBase {
        home: Some(HOME.into()),
        folder: FOLDER.into(),
    }
}

/// Reads a policy file.
pub(crate) fn read(text: &str) -> Result<Rules, Vec<Problem>> {
    let ground = ground();
    Rules::read(
        text,
        CompileContext {
            ground: &ground,
            real: &|_| None,
        },
    )
}

/// A policy over a file that is right.
pub(crate) fn policy(text: &str) -> Policy {
    let rules = read(text).unwrap_or_else(|problems| {
        let shown: Vec<String> = problems
            .iter()
            .map(|p| p.shown("policy", "policy.yaml", text))
            .collect();
        panic!("{}\n{text}", shown.join("\n"))
    });
    of(rules)
}

/// A policy over rules that were read.
pub(crate) fn of(rules: Rules) -> Policy {
    Policy::of(vec![Layer::Rules(Arc::new(rules))], HashMap::new())
        .mode(Mode::Strict)
        .ground(ground(), HashMap::new())
}

/// A call as a case describes it.
pub(crate) fn call(case: &Case) -> Call {
    let hint = |name: &str, hint: Option<bool>| hint.map(|hint| format!("{name:?}:{hint}"));
    let hints: Vec<String> = [
        hint("destructiveHint", case.destructive),
        hint("readOnlyHint", case.read_only),
    ]
    .into_iter()
    .flatten()
    .collect();
    let descriptor = format!(
        r#"{{"name":{},"annotations":{{{}}}}}"#,
        quote(&case.tool),
        hints.join(",")
    );
    let tool = given::described(&case.server, &descriptor);
    let meta = match case.cost {
        Some(cost) => format!(r#","_meta":{{"dev.callgate/est_cost":{cost}}}"#),
        None => String::new(),
    };
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x","arguments":{}{meta}}}}}"#,
        case.arguments
    );
    with(tool, line, case)
}

fn with(tool: Tool, line: String, case: &Case) -> Call {
    let mut call = given::call(Target::Tool(Arc::new(tool)));
    call.attempt.frame = Frame::parse(line.into(), Strictness::Full).expect("it is a frame");
    let principal = if case.vouched_for {
        case.agent.clone()
    } else {
        "token".into()
    };
    let mut host = (*call.attempt.host).clone();
    host.identity = CallerIdentity {
        tenant: "local".into(),
        principal,
        agent: case.agent.clone(),
        session: "s1".into(),
        grant: callgate_gate::Grant::default(),
    };
    call.attempt.host = Arc::new(host);
    call
}

/// What would be found out about a call in the world of the case.
pub(crate) fn facts(policy: &Policy, call: &Call, case: &Case) -> Facts {
    let needs = policy.needs(call);
    let real = |asked: &String| {
        let plain = arguments::absolute(asked, FOLDER, HOME).expect("only plain paths are asked");
        (
            asked.clone(),
            RealPath::At(arguments::real(&plain, &case.links)),
        )
    };
    Facts {
        real_paths: needs.paths.iter().map(real).collect(),
        met: needs
            .prior
            .into_iter()
            .filter(|prior| case.met.contains(&prior.pattern))
            .collect(),
        used_up: needs
            .rates
            .into_iter()
            .filter(|rate| case.used_up.contains(&rate.scope))
            .collect(),
        spent: case.spent,
        ..Facts::default()
    }
}

/// The verdict on a call and the rule that gave it.
pub(crate) fn said(policy: &Policy, case: &Case) -> (String, String) {
    let call = call(case);
    let facts = facts(policy, &call, case);
    answer(decide(call, policy, &facts))
}

/// A verdict as words.
pub(crate) fn answer(verdict: Verdict) -> (String, String) {
    let (kind, ruling) = match &verdict {
        Verdict::Permit(permit) => ("allow", permit.ruling()),
        Verdict::Hold(hold) if hold.ruling().rule.starts_with("confirm") => {
            ("confirm", hold.ruling())
        }
        Verdict::Hold(hold) => ("require_approval", hold.ruling()),
        Verdict::Deny(denied) => ("deny", denied.ruling()),
    };
    (kind.to_owned(), ruling.rule.clone())
}

/// A call with these arguments of a server that says nothing about its tool.
pub(crate) fn case(server: &str, tool: &str, arguments: &str) -> Case {
    Case {
        server: server.into(),
        tool: tool.into(),
        destructive: None,
        read_only: None,
        arguments: serde_json::from_str(arguments).expect("it is JSON"),
        agent: "anonymous".into(),
        vouched_for: false,
        met: Default::default(),
        used_up: Default::default(),
        cost: None,
        spent: 0.0,
        links: [("/srv/repo/link".to_owned(), "/etc".to_owned())].into(),
    }
}
