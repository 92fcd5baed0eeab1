//! Policies are swapped under running calls.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use callgate_call::{AskFailed, CallPath, Caller, Providers, Reading, Received, Telemetry};
use callgate_gate::{
    CallerIdentity, CompileContext, Door, Host, Layer, PathBase, Policy, Rules, Source, Transport,
};
use callgate_wire::{Frame, Strictness};
use futures_util::future::BoxFuture;

use crate::memory::{nowhere, plan, stdio};

/// How often another policy is taken over; a soak sets more by `CALLGATE_POLICY_SWAPS`.
const SWAPS: usize = 500;

#[derive(Debug)]
struct Silent;

impl Caller for Silent {
    fn notify(&self, _: bytes::Bytes) {}

    fn ask(&self, _: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async { Err(AskFailed::NoWay) })
    }
}

/// A policy under which `env` is allowed by a rule of its own, and `fail` denied by one.
fn policy(at: usize) -> Policy {
    let text = format!(
        "version: '1'\nrules: [{{scope: mcp_tool, deny: [{{pattern: 's:fail', message: 'policy {at}'}}], allow: [{{pattern: 's:*'}}]}}]"
    );
    let ground = PathBase {
        home: None,
        folder: "/".into(),
    };
    let around = CompileContext {
        ground: &ground,
        real: &|_| None,
    };
    let rules = Rules::read(&text, around).unwrap();
    Policy::of(vec![Layer::Rules(Arc::new(rules))], Default::default())
}

async fn call(path: &CallPath, id: usize, tool: &str) -> String {
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"s__{tool}","arguments":{{}}}}}}"#
    );
    let host = Host {
        identity: CallerIdentity {
            tenant: "local".into(),
            principal: "p".into(),
            agent: "a".into(),
            session: "s".into(),
            grant: callgate_gate::Grant::default(),
        },
        client_info: None,
        capabilities: "{}".into(),
        era: callgate_wire::Era::Handshake,
    };
    let received = Received {
        frame: Frame::parse(line.into(), Strictness::Full).unwrap(),
        host: Arc::new(host),
        door: Door {
            source: Source::Mcp,
            transport: Transport::Stdio,
        },
        trace: None,
        reading: Reading::Plain,
    };
    let answer = path.start(received, Arc::new(Silent)).answer().await;
    String::from_utf8_lossy(&answer.expect("it is answered").into_bytes()).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_swapped_under_load_drop_and_misjudge_no_call() {
    let swaps = std::env::var("CALLGATE_POLICY_SWAPS").ok();
    let swaps = swaps.map_or(SWAPS, |swaps| swaps.parse().expect("a number"));
    let folder = tempfile::tempdir().unwrap();
    let launch = stdio(&[]);
    let mut plan = plan(folder.path(), launch);
    plan.policy = policy(0);
    let (fleet, recorder) = crate::memory::start_with(plan.clone(), nowhere());
    fleet.first_connect(None).await;
    let path = CallPath::new(fleet.clone(), recorder, Telemetry::default());
    let stop = Arc::new(AtomicBool::new(false));
    let load = |from: usize| {
        let (path, stop) = (path.clone(), stop.clone());
        tokio::spawn(async move {
            let mut calls = 0;
            while !stop.load(Ordering::Acquire) {
                calls += 1;
                let fine = call(&path, from + calls, "env").await;
                assert!(
                    fine.contains(r#""result""#) && !fine.contains("[callgate]"),
                    "{fine}"
                );
                let denied = call(&path, from + calls, "fail").await;
                assert!(denied.contains("Rule: deny:mcp_tool:s:fail"), "{denied}");
            }
            calls
        })
    };
    let loads = [load(0), load(1_000_000)];
    for at in 1..=swaps {
        plan.policy = policy(at);
        fleet.apply(plan.clone());
        // What is decided from now on is decided by this one.
        if at % 100 == 0 {
            let denied = call(&path, 5_000_000 + at, "fail").await;
            assert!(denied.contains(&format!("policy {at}\\n")), "{denied}");
        }
    }
    stop.store(true, Ordering::Release);
    let mut calls = 0;
    for load in loads {
        calls += load.await.expect("every call is right");
    }
    println!("{swaps} policies, {calls} calls");
    assert!(calls > 0);
    fleet.shutdown().await;
}
