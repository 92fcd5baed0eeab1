//! A pool of real workers, and packs that answer from here.

use std::{sync::Mutex, time::Duration};

use callgate_code::{
    CallReply, HostCall, HostCalls, Limits, LocalPack, Outcome, Pool, Program, Script, ScriptEnd,
};
use futures_util::future::BoxFuture;
use serde_json::{Value, json, value::to_raw_value};

/// 2026-11-15 12:00:00 UTC.
pub(crate) const NOW_US: i64 = 1_794_744_000_000_000;

pub(crate) fn pool() -> Pool {
    Pool::new(Program {
        path: env!("CARGO_BIN_EXE_callgate-worker").into(),
        args: Vec::new(),
    })
}

/// Answers the calls of scripts, and keeps them.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    pub(crate) calls: Mutex<Vec<HostCall>>,
    /// Calls of `slow` that are under way, and the most that were at once.
    pub(crate) slow: Mutex<(usize, usize)>,
}

impl Tools {
    pub(crate) fn names(&self) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        calls
            .iter()
            .map(|call| format!("{}.{}", call.pack, call.tool))
            .collect()
    }
}

impl HostCalls for Tools {
    fn call(&self, call: HostCall) -> BoxFuture<'_, CallReply> {
        self.calls.lock().unwrap().push(call.clone());
        let args: Vec<Value> = serde_json::from_str(call.args.get()).unwrap();
        let kwargs: Value = serde_json::from_str(call.kwargs.get()).unwrap();
        Box::pin(async move {
            let value = match (call.pack.as_str(), call.tool.as_str()) {
                ("wix", "list_sites") => json!([
                    {"id": "s1", "name": "Alpha", "size": 3, "items": [1, 2]},
                    {"id": "s2", "name": "Beta", "size": 5, "owner": {"email": "b@x.org"}},
                ]),
                ("wix", "echo") => {
                    json!({"args": args, "kwargs": kwargs, "raw": call.kwargs.get()})
                }
                ("notion", "search") => json!({"pages": [{"title": kwargs["query"]}]}),
                ("slow", "wait") => {
                    let ms = args[0].as_u64().unwrap();
                    {
                        let mut slow = self.slow.lock().unwrap();
                        slow.0 += 1;
                        slow.1 = slow.1.max(slow.0);
                    }
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    self.slow.lock().unwrap().0 -= 1;
                    json!(ms)
                }
                ("slow", "echo") => {
                    tokio::time::sleep(Duration::from_secs(600)).await;
                    json!(null)
                }
                ("hold", "ask") => return CallReply::Stop,
                (pack, tool) => {
                    return CallReply::Outcome(Outcome::Raised {
                        kind: "RuntimeError".to_owned(),
                        message: format!("{pack}.{tool} failed"),
                    });
                }
            };
            CallReply::Outcome(Outcome::Value(to_raw_value(&value).unwrap()))
        })
    }
}

pub(crate) fn script(source: &str) -> Script {
    let packs = [
        "wix", "notion", "slow", "hold", "bad", "proxy", "tools", "brave",
    ];
    let brave = "LIMIT = 2\n\ndef search(q, limit=LIMIT):\n    sites = wix.list_sites()\n    return [s.name for s in sites][:limit]\n";
    Script {
        source: callgate_code::cleaned(source),
        packs: packs.iter().map(|pack| (*pack).to_owned()).collect(),
        local: vec![LocalPack {
            name: "brave".to_owned(),
            source: brave.to_owned(),
        }],
        owner: "test".to_owned(),
        now_us: NOW_US,
    }
}

/// What a script gives: its printed text and its result, or its error with the line.
pub(crate) async fn run(pool: &Pool, source: &str, limits: &Limits) -> Result<String, String> {
    said(pool.run(script(source), limits, &Tools::default()).await)
}

pub(crate) fn said(ended: ScriptEnd) -> Result<String, String> {
    match ended {
        ScriptEnd::Done {
            printed,
            value,
            names,
            ..
        } => {
            let value = match value {
                Some(value) => value.get().to_owned(),
                None => {
                    let names = names
                        .iter()
                        .map(|(name, value)| format!("{name}={}", value.get()));
                    names.collect::<Vec<_>>().join(" ")
                }
            };
            Ok(format!("{printed}{value}"))
        }
        ScriptEnd::Failed { message, line, .. } => Err(format!(
            "{}: {message}",
            line.map_or("-".to_owned(), |line| line.to_string())
        )),
        ScriptEnd::Stopped => Err("stopped".to_owned()),
    }
}
