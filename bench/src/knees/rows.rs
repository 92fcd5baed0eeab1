//! What is measured in this process.

use std::{hint::black_box, path::Path};

use anyhow::{Context, Result, bail};
use callgate_call::{Events, events::gateway::GatewayStarted};
use callgate_gate::{
    CallId, Digest, Naming, Operation, Role, ServerName, Tool, decide,
    pins::{Accepted, Lock, PinMode, Pins},
};
use callgate_record::{Approvals, AskOutcome, HeldCallExcerpt, NewToken, Question, Tokens};
use callgate_store::{ApprovalStore, TokenFile};
use serde_json::json;

use crate::{gateway::processes::Family, policy};

/// Runs something, and returns the CPU time of this process meanwhile in microseconds, divided by `times`.
fn cpu_us(times: usize, act: impl FnOnce() -> Result<()>) -> Result<f64> {
    let own = Family::of(std::process::id());
    let before = own.cpu_times();
    act()?;
    Ok(own.cpu_times().seconds_since(&before) * 1e6 / times as f64)
}

/// A folder in memory, where syncs cost nothing.
fn folder() -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    Ok(match memory.is_dir() {
        true => tempfile::tempdir_in(memory)?,
        false => tempfile::tempdir()?,
    })
}

pub(super) fn reading_rules(rules: usize) -> Result<f64> {
    let text = policy::plain_rules(rules);
    cpu_us(1, || policy::compiled(&text).map(drop))
}

pub(super) fn deciding(rules: usize) -> Result<f64> {
    const CALLS: usize = 20_000;
    let policy = policy::compiled(&policy::plain_rules(rules))?;
    let call = policy::call(r#"{"repo":"acme/site"}"#)?;
    let facts = callgate_gate::Facts::default();
    cpu_us(CALLS, || {
        for _ in 0..CALLS {
            black_box(policy.needs(black_box(&call)));
            let _ = black_box(decide(call.clone(), &policy, &facts));
        }
        Ok(())
    })
}

/// Servers with tools of equal names, as many servers have, accepted at first sight.
pub(super) fn sorting_tools(servers: usize) -> Result<f64> {
    let server = |at: usize| -> Result<Vec<Tool>> {
        let name = ServerName::new(&format!("up{at}"))?;
        let tool = |n: usize| {
            let text = format!(
                r#"{{"name":"find_{n}","description":"Finds things; `find_{n}` takes what to find","inputSchema":{{"type":"object"}}}}"#
            );
            Ok(Tool::from_descriptor(&name, text.into())?)
        };
        (0..5).map(tool).collect()
    };
    let servers = (0..servers).map(server).collect::<Result<Vec<_>>>()?;
    let mut lock = Lock::default();
    for tool in servers.iter().flatten() {
        lock.accept_tool(tool, Accepted::AtFirstSight);
    }
    let pins = Pins {
        mode: PinMode::Tofu,
        only_tightens: false,
        lock,
    };
    cpu_us(1, || {
        let sorted = black_box(pins.sort(&servers, &Naming::default()));
        match sorted.quarantined.as_slice() {
            [] => Ok(()),
            held => bail!("{} tools were quarantined", held.len()),
        }
    })
}

pub(super) fn asking(pending: usize) -> Result<f64> {
    const ASKED: usize = 50;
    let folder = folder()?;
    let store = ApprovalStore::new(folder.path(), None);
    let ask = |at: usize| -> Result<()> {
        let call = CallId(ulid::Ulid::generate());
        match store.ask(&question(at, call), call, jiff::Timestamp::now())? {
            AskOutcome::Pending { is_new: true, .. } => Ok(()),
            other => bail!("question {at}: {other:?}"),
        }
    };
    (0..pending).try_for_each(ask)?;
    cpu_us(ASKED, || (pending..pending + ASKED).try_for_each(ask))
}

fn question(at: usize, record_id: CallId) -> Question {
    Question {
        asking: HeldCallExcerpt {
            record_id,
            tenant: "local".to_owned(),
            // A caller may have a hundred open questions.
            principal: format!("agent-{}", at / 50),
            agent: "bench".to_owned(),
            session_id: String::new(),
            server: "up".to_owned(),
            tool: "delete".to_owned(),
            arguments: "{}".to_owned(),
            arguments_bytes: 2,
            arguments_whole: true,
            others: None,
            definition: None,
            rule: "require_approval:mcp_tool:*:*".to_owned(),
            reason: "it deletes".to_owned(),
            checks: Vec::new(),
            flags: Vec::new(),
        },
        sealed: vec![7; 500],
        joins: false,
        binding: Digest::of(&at.to_le_bytes()),
        named: None,
        expire_after: jiff::SignedDuration::from_hours(1),
        valid_for: jiff::SignedDuration::from_mins(5),
    }
}

pub(super) fn finding_a_token(tokens: usize) -> Result<f64> {
    const REQUESTS: usize = 5_000;
    let folder = folder()?;
    let now = jiff::Timestamp::now();
    // Written at once: making each with `create` writes the file as often.
    let issued = (0..tokens).map(|at| {
        let new = NewToken {
            name: format!("token-{at}"),
            role: Role::Agent,
            servers: None,
            view: None,
            ceiling: Operation::Destructive,
            tenant: "local".to_owned(),
            expires_at: None,
        };
        new.issue(now)
    });
    let issued = issued.collect::<std::result::Result<Vec<_>, _>>()?;
    let all: Vec<_> = issued.iter().map(|(token, _)| token).collect();
    let text = json!({"form": 1, "tokens": all}).to_string();
    std::fs::write(folder.path().join("tokens.json"), text)?;
    let digests: Vec<Digest> = issued
        .iter()
        .map(|(_, secret)| Digest::of(secret.as_bytes()))
        .collect();
    let file = TokenFile::new(folder.path());
    file.holder(&digests[0], now)?.context("it is known")?;
    cpu_us(REQUESTS, || {
        for at in 0..REQUESTS {
            let digest = &digests[at * 7919 % digests.len()];
            file.holder(digest, now)?.context("it is known")?;
        }
        Ok(())
    })
}

/// What an event costs until all listeners have it, while events arrive all the time.
pub(super) fn telling_listeners(listeners: usize) -> Result<f64> {
    const EVENTS: usize = 400;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let events = Events::default();
    runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..listeners {
            let mut listener = events.listen(None);
            tasks.spawn(async move {
                let mut heard = 0;
                while heard < EVENTS {
                    let mut bytes = Vec::new();
                    for delivery in listener.next().await {
                        heard += 1;
                        bytes.extend_from_slice(&delivery.frame);
                    }
                    black_box(bytes);
                }
            });
        }
        let own = Family::of(std::process::id());
        let before = own.cpu_times();
        for _ in 0..EVENTS {
            events.emit(GatewayStarted { version: "bench" });
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        while let Some(ended) = tasks.join_next().await {
            ended?;
        }
        Ok(own.cpu_times().seconds_since(&before) * 1e6 / EVENTS as f64)
    })
}
