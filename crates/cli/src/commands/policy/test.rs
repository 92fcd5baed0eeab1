//! `callgate policy test`: runs the test cases of a policy file.

use std::{
    collections::{BTreeSet, HashMap},
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use callgate_gate::{Facts, Kind, Layer, Policy};
use serde::Deserialize;
use serde_json::{Value, json};
use serde_saphyr::Spanned;

use super::{
    calls::{self, Caller, Described},
    named_or_configured,
};
use callgate_config::{PolicyFile, ground};

use crate::{args::Shared, exit::Failed, print::outln};

/// The suffix of a file with cases.
const ENDING: &str = ".tests.yaml";

/// A file with cases.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    tests: Vec<Spanned<Case>>,
}

/// A call and its expected verdict.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The name of the case, for its report.
    name: String,
    /// The tool as `server:tool`.
    call: String,
    #[serde(default)]
    args: serde_json::Map<String, Value>,
    #[serde(default)]
    agent: Option<String>,
    /// Whether the agent's name is that of its token.
    #[serde(default)]
    vouched_for: bool,
    /// The tool's annotations, as its server would list them.
    #[serde(default)]
    annotations: serde_json::Map<String, Value>,
    /// The cost that the call declares.
    #[serde(default)]
    cost: Option<f64>,
    #[serde(default)]
    given: Given,
    expect: Expected,
    /// The rule that must decide.
    #[serde(default)]
    rule: Option<String>,
}

/// What is known besides the call.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Given {
    /// Patterns of earlier calls, as conditions name them, that were made.
    prior: BTreeSet<String>,
    /// Scopes whose rate limit is used up.
    used_up: BTreeSet<String>,
    /// What the session has spent.
    spent: f64,
    /// Where links lead: from a path to another.
    links: HashMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Expected {
    Allow,
    Confirm,
    RequireApproval,
    Deny,
}

/// How a case went.
struct Outcome {
    name: String,
    line: u64,
    expected: String,
    said: String,
    passed: bool,
}

pub(super) fn run(shared: &Shared, file: Option<PathBuf>) -> Result<ExitCode, Failed> {
    let (policy_file, cases_file) = pair(named_or_configured(shared, file)?);
    let read = PolicyFile::read(&policy_file)?;
    let cases = read_cases(&cases_file)?;
    let home = ground(policy_file.parent().unwrap_or(Path::new("")));
    let policy = Policy::of(vec![Layer::Rules(Arc::clone(&read.rules))], HashMap::new())
        .ground(home.clone(), HashMap::new());
    let outcomes: Result<Vec<Outcome>, Failed> = cases
        .tests
        .iter()
        .map(|case| judged(&policy, case, &home))
        .collect();
    let outcomes = outcomes?;
    let failed = outcomes.iter().filter(|outcome| !outcome.passed).count();
    report(&outcomes, &cases_file, shared.json);
    if failed > 0 {
        let count = outcomes.len();
        return Err(Failed::user(format!("{failed} of {count} cases failed")));
    }
    Ok(ExitCode::SUCCESS)
}

/// The policy and its cases, whichever of them was named.
fn pair(named: PathBuf) -> (PathBuf, PathBuf) {
    let text = named.display().to_string();
    if let Some(stem) = text.strip_suffix(ENDING) {
        return (PathBuf::from(format!("{stem}.yaml")), named);
    }
    let stem = text
        .strip_suffix(".yaml")
        .or_else(|| text.strip_suffix(".yml"));
    let cases = format!("{}{ENDING}", stem.unwrap_or(&text));
    (named, PathBuf::from(cases))
}

fn read_cases(file: &Path) -> Result<Cases, Failed> {
    let shown = file.display();
    let text = fs::read_to_string(file).map_err(|error| {
        Failed::config(format!("cases `{shown}`: {error}"))
            .help("put the cases beside the policy: `policy.tests.yaml` beside `policy.yaml`")
    })?;
    let cases: Cases = serde_saphyr::from_str(&text)
        .map_err(|error| Failed::config(format!("cases `{shown}`: {error}")))?;
    if cases.tests.is_empty() {
        return Err(Failed::config(format!(
            "cases `{shown}`: the file has no cases"
        )));
    }
    Ok(cases)
}

fn judged(
    policy: &Policy,
    case: &Spanned<Case>,
    home: &callgate_gate::PathBase,
) -> Result<Outcome, Failed> {
    let line = case.referenced.line();
    let case = &case.value;
    let call = calls::made(&Described {
        tool: &case.call,
        arguments: &Value::Object(case.args.clone()).to_string(),
        annotations: &Value::Object(case.annotations.clone()).to_string(),
        identity: Caller::named(
            case.agent.as_deref().unwrap_or("anonymous"),
            case.vouched_for,
        ),
        cost: case.cost,
    })?;
    let needs = policy.needs(&call);
    let absolute = |path: &String| match path.strip_prefix("./") {
        Some(rest) => format!("{}/{rest}", home.folder),
        None => path.clone(),
    };
    let links = case.given.links.iter();
    let links = links
        .map(|(from, to)| (absolute(from), absolute(to)))
        .collect();
    let facts = Facts {
        real_paths: calls::told_paths(&needs, &links),
        met: needs
            .prior
            .into_iter()
            .filter(|prior| case.given.prior.contains(&prior.pattern))
            .collect(),
        used_up: needs
            .rates
            .into_iter()
            .filter(|rate| case.given.used_up.contains(&rate.scope))
            .collect(),
        spent: case.given.spent,
        ..Facts::default()
    };
    let (kind, rule) = calls::verdict(policy, &call, &facts);
    let is_right_rule = case.rule.as_ref().is_none_or(|expected| *expected == rule);
    let expected = match &case.rule {
        Some(expected) => format!("{} by {expected}", case.expect.as_str()),
        None => case.expect.as_str().to_owned(),
    };
    Ok(Outcome {
        name: case.name.clone(),
        line,
        expected,
        said: format!("{} by {rule}", kind.as_str()),
        passed: case.expect.is(kind) && is_right_rule,
    })
}

fn report(outcomes: &[Outcome], file: &Path, as_json: bool) {
    if as_json {
        let all: Vec<Value> = outcomes
            .iter()
            .map(|outcome| {
                json!({
                    "name": outcome.name, "line": outcome.line, "passed": outcome.passed,
                    "expected": outcome.expected, "said": outcome.said,
                })
            })
            .collect();
        outln!("{}", json!({"file": file, "tests": all}));
        return;
    }
    for outcome in outcomes {
        let word = if outcome.passed { "ok    " } else { "FAILED" };
        outln!("{word} {}", outcome.name);
        if !outcome.passed {
            outln!("       {}:{}", file.display(), outcome.line);
            outln!("       expected {}", outcome.expected);
            outln!("       actual   {}", outcome.said);
        }
    }
}

impl Expected {
    fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Confirm => "confirm",
            Self::RequireApproval => "require_approval",
            Self::Deny => "deny",
        }
    }

    fn is(self, kind: Kind) -> bool {
        self.as_str() == kind.as_str()
    }
}
