//! Probing an agent: what is reported, and what is kept for later steps.

use callgate_agent::{AgentKind, StepFailed, Verdict, probe};
use callgate_testkit::agents::AgentScript;

use crate::stage::{Stage, isolated};

#[tokio::test]
async fn an_agent_that_never_calls_the_probe_model_is_not_isolated() {
    for kind in AgentKind::PROGRAMS {
        let stage = Stage::new();
        stage.script(isolated(*kind));
        let work = stage.path("work");
        let report = probe(&stage.context, *kind, &work).await.unwrap();
        assert_eq!(report.verdict, Verdict::Coexists, "{kind}");
        assert!(report.offered.is_empty() && !report.reached, "{kind}");
        let (warden, env) = (&stage.context.warden_program, &stage.context.env);
        let kept = stage
            .context
            .verdicts
            .of_installed(warden, *kind, env)
            .await;
        assert_eq!(kept, Some(Verdict::Coexists), "{kind}");
    }
}

#[tokio::test]
async fn a_probe_sends_only_the_task_as_prompt() {
    let stage = Stage::new();
    stage.script(AgentScript {
        version: "9.9.9".to_owned(),
        ..isolated(AgentKind::Codex)
    });
    let work = stage.path("work");
    probe(&stage.context, AgentKind::Codex, &work)
        .await
        .unwrap();
    let given = stage.given();
    let task = stage.task();
    assert!(task.ends_with("\n\nDo what the script says."), "{task}");
    assert!(given.has(&["-c", r#"model_provider="step""#]));
}

#[tokio::test]
async fn a_probe_uses_no_login_of_the_user() {
    for (kind, variable) in [
        (AgentKind::Claude, "CLAUDE_CODE_USE_BEDROCK"),
        (AgentKind::Gemini, "GOOGLE_GENAI_USE_VERTEXAI"),
    ] {
        let stage = Stage::with_env(&[(variable, "1"), ("OPENAI_API_KEY", "users")]);
        stage.file("home/.gemini/oauth_creds.json", "{}");
        stage.script(isolated(kind));
        let work = stage.path("work");
        probe(&stage.context, kind, &work).await.unwrap();
        let given = stage.given();
        assert_eq!(given.variable(variable), None, "{kind}");
        assert_eq!(given.variable("OPENAI_API_KEY"), None, "{kind}");
        assert_eq!(given.0["home"].get(".gemini/oauth_creds.json"), None);
    }
}

#[tokio::test]
async fn agents_without_a_program_cannot_be_probed() {
    let stage = Stage::new();
    let work = stage.path("work");
    let failed = probe(&stage.context, AgentKind::OpenAiCompatible, &work).await;
    let failed = failed.unwrap_err();
    assert!(matches!(failed, StepFailed::NotStarted { .. }), "{failed}");
}
