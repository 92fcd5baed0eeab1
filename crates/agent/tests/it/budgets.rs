//! Budgets of steps: a step that is over one ends with its reason, and makes no call beyond it.

use callgate_agent::{AgentKind, Budget, Outcome, Proxy, StepFailed};
use callgate_testkit::{ChatModel, ChatReply, agents::AgentScript};
use serde_json::json;

use crate::stage::{Stage, call, isolated};

fn reason(ended: Result<Outcome, StepFailed>) -> String {
    match ended {
        Err(StepFailed::OverBudget(why)) => why,
        other => panic!("not over its budget: {other:?}"),
    }
}

#[tokio::test]
async fn a_call_beyond_the_budget_is_not_made() {
    for kind in AgentKind::PROGRAMS {
        let stage = Stage::new();
        let calls = (1..=3).map(|n| call("Write", json!({"n": n}))).collect();
        stage.script(AgentScript {
            calls,
            ..isolated(*kind)
        });
        let mut step = stage.step(*kind, Proxy::Full);
        step.budget.calls = Some(2);
        let why = reason(stage.run(&step).await);
        let expected =
            "the budget of this step is used up: it allows 2 calls, and the agent made another";
        assert_eq!(why, expected, "{kind}");
        assert_eq!(
            stage.reached(),
            [json!({"n": 1}), json!({"n": 2})],
            "{kind}"
        );
    }
}

#[tokio::test]
async fn a_models_call_beyond_the_budget_is_not_made() {
    let stage = Stage::new();
    let wanted = [("Write", json!({"n": 1})), ("Write", json!({"n": 2}))];
    let model = ChatModel::start(vec![ChatReply::call(&wanted), ChatReply::say("done")]);
    let mut step = stage.step(AgentKind::OpenAiCompatible, Proxy::Full);
    step.options.model = Some("m".to_owned());
    step.options.base_url = Some(model.url.clone());
    step.budget.calls = Some(1);
    assert!(reason(stage.run(&step).await).contains("it allows 1 calls"));
    assert_eq!(stage.reached(), [json!({"n": 1})]);
}

#[tokio::test]
async fn a_step_that_reports_more_tokens_or_cost_than_its_budget_fails() {
    for (kind, budget, expected) in [
        (
            AgentKind::Codex,
            Budget {
                tokens: Some(119),
                ..Budget::default()
            },
            "it allows 119 tokens, and 120 were used",
        ),
        (
            AgentKind::Claude,
            Budget {
                cost_usd: Some(0.2),
                ..Budget::default()
            },
            "it allows $0.2, and $0.2500 was spent",
        ),
    ] {
        let stage = Stage::new();
        stage.script(isolated(kind));
        let mut step = stage.step(kind, Proxy::Full);
        step.budget = budget;
        let why = reason(stage.run(&step).await);
        assert!(why.ends_with(expected), "{kind}: {why}");
    }
}

#[tokio::test]
async fn a_cost_budget_for_an_agent_that_reports_no_cost_is_refused() {
    let stage = Stage::new();
    stage.script(isolated(AgentKind::Gemini));
    let mut step = stage.step(AgentKind::Gemini, Proxy::Full);
    step.budget.cost_usd = Some(1.0);
    let failed = stage.run(&step).await.unwrap_err();
    assert!(matches!(failed, StepFailed::Missing(_)), "{failed}");
}
