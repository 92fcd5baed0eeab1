//! The `code` view: one tool, `run`, that runs a script over every pack. The script runs in a worker; each call
//! that it makes comes back here and goes down the path like any other, below the script's own record.

mod arguments;
mod held;
mod inner;
mod introspect;
mod local;
mod packs;
mod reply;
mod value;

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::{SystemTime, UNIX_EPOCH},
};

use callgate_call::{Reading, ScriptRun, ScriptRunEnd};
use callgate_code::{Ended, Form, Limits, Pool, Program, Script, cleaned};
use callgate_gate::Host;
use callgate_wire::{Frame, RpcError, methods, quote};
use futures_util::future::BoxFuture;

use super::{AskedAt, Taken, ViewSettings};
use crate::Gateway;
use held::{HeldRun, Unresumed};
use inner::Inner;
use packs::Packs;

/// The name of the view's tool.
pub(crate) const RUN: &str = "run";
/// A larger result is put into its form beside the calls, which it would keep waiting.
const QUICK_BYTES: usize = 64 * 1024;

/// Where local packs come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackSource {
    /// There are none.
    None,
    /// Whatever is in this folder when a run begins.
    Folder(PathBuf),
    /// These files with these contents, and no others: they are what was trusted.
    Read(Vec<(PathBuf, Vec<u8>)>),
}

/// What the `code` view is told by the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeSettings {
    /// What a run may use.
    pub limits: Limits,
    /// A longer result becomes a handle.
    pub inline_chars: usize,
    /// The local packs.
    pub packs: PackSource,
    /// The folder where held runs are kept; without one a run that is held is over.
    pub runs: Option<PathBuf>,
    /// How a worker is started; without that nothing can be run.
    pub worker: Option<Program>,
}

impl Default for CodeSettings {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            inline_chars: 5000,
            packs: PackSource::None,
            runs: None,
            worker: None,
        }
    }
}

/// What the view keeps: its workers, from the first time that one is wanted.
#[derive(Debug, Default)]
pub(crate) struct Code {
    pool: OnceLock<Pool>,
}

impl Code {
    fn pool(&self, settings: &CodeSettings) -> Option<&Pool> {
        let program = settings.worker.clone()?;
        Some(self.pool.get_or_init(|| Pool::new(program)))
    }
}

/// What models are told about the view when they introduce themselves.
pub(crate) const INSTRUCTIONS: &str = "Everything is called from Python with the tool `run`. Each server is a pack: `wix.list_sites()`. Find tools with `tools.search(\"what you want\")` or `proxy.list_tools(server=\"wix\")`, see parameters with `tools.describe(\"wix.list_sites\")`, then do the whole task in as few runs as you can: loop, filter and combine in the script, and return only what you need.";

/// The view's tool, with the packs there are right now.
pub(super) async fn list(gateway: &Gateway, host: &Host) -> String {
    gateway.path.providers().first_connect(None).await;
    let settings = gateway.views.settings();
    if let Some(pool) = gateway.views.code.pool(&settings.code) {
        pool.warm(settings.code.limits.memory_bytes);
    }
    let packs = Packs::of(gateway, host, local::read(&settings.code.packs));
    let description = format!(
        "Run Python over all connected servers. {}\n\
         Call tools as pack.tool(key=value): exact name or snake_case, arguments by name. Results are values: `sites[0].name` and `sites[0][\"name\"]` both work. A failed call raises.\n\
         The result is the last expression, or a top-level `return`, else the names you assigned; printed text comes before it. Calls at once: `await asyncio.gather(a.x(), b.y())`.\n\
         Find tools: tools.search(\"query\"), tools.describe(\"pack.tool\"), proxy.list_servers(), proxy.list_tools(server=\"name\"). A large result becomes a handle: read_result(handle, offset=0, limit=100, search=\"regex\").\n\
         Modules: json, re, datetime, math, collections, itertools, asyncio. No files, network or shell but the packs.\n\
         Example: sites = wix.list_sites(); [s.name for s in sites if s.active]",
        packs.summary()
    );
    let schema = r#"{"type":"object","properties":{"command":{"type":"string","description":"The script"},"resume":{"type":"string","description":"Instead of a script: the id of a held run, once it is approved"}}}"#;
    format!(
        r#"{{"tools":[{{"name":"{RUN}","description":{},"inputSchema":{schema}}}]}}"#,
        quote(&description)
    )
}

/// A run that a request asks for.
pub(crate) struct Run {
    /// The request.
    pub(crate) frame: Frame,
    asked: Result<Asked, String>,
}

/// What is to be run.
enum Asked {
    Command(String),
    Resume(String),
}

/// What a request means in this view.
pub(super) fn take(frame: Frame) -> Taken {
    if frame.method() != Some(methods::TOOLS_CALL) {
        return Taken::Call {
            frame,
            reading: Reading::Plain,
            shape: None,
        };
    }
    let name = frame.param("name").and_then(|name| name.as_str());
    if name.as_deref() != Some(RUN) {
        let name = name.unwrap_or_default();
        let text = format!(
            "unknown tool `{name}`; the only tool is `run`, whose scripts call the others: run(command=\"...\")"
        );
        let error = RpcError::new(RpcError::INVALID_PARAMS, text);
        return Taken::Call {
            frame,
            reading: Reading::Nowhere(Box::new(error)),
            shape: None,
        };
    }
    let text = |key| {
        let value = frame.param("arguments")?.get(key)?;
        value.as_str().map(|text| text.into_owned())
    };
    let asked = match (text("command"), text("resume")) {
        (_, Some(id)) if !id.is_empty() => Ok(Asked::Resume(id)),
        (Some(command), _) => Ok(Asked::Command(command)),
        (None, _) => Err("`command` is required: the script, as text".to_owned()),
    };
    Taken::Run(Box::new(Run { frame, asked }))
}

impl Run {
    /// What is to be done, once it is known for whom.
    pub(crate) fn work(
        self,
        gateway: Gateway,
        at: AskedAt,
    ) -> impl FnOnce(ScriptRun) -> BoxFuture<'static, ScriptRunEnd> + Send + 'static {
        move |script_run| Box::pin(run(gateway, at, script_run, self.asked))
    }
}

async fn run(
    gateway: Gateway,
    at: AskedAt,
    script_run: ScriptRun,
    asked: Result<Asked, String>,
) -> ScriptRunEnd {
    let settings = gateway.views.settings();
    let code = &settings.code;
    let Some(pool) = gateway.views.code.pool(code) else {
        return reply::fault("scripts cannot be run here: there is no program for workers");
    };
    let owner = at.host.who.owner().to_string();
    let held = match asked {
        Err(wrong) => return reply::fault(&wrong),
        Ok(Asked::Command(command)) => {
            HeldRun::new(&script_run, &owner, cleaned(&command), now_us())
        }
        Ok(Asked::Resume(id)) => match held::take(code.runs.as_deref(), &id, &owner).await {
            Ok(held) => held,
            Err(Unresumed(text)) => return reply::fault(&text),
        },
    };
    gateway.path.providers().first_connect(None).await;
    let packs = Packs::of(&gateway, &at.host, local::read(&code.packs));
    let script = Script {
        source: held.source.clone(),
        packs: packs.names(),
        local: packs.local().to_vec(),
        owner,
        now_us: held.now_us,
    };
    let inner = Inner::new(gateway.clone(), at, script_run, packs, held);
    let ended = pool.run(script, &code.limits, &inner).await;
    answered(inner, settings, ended).await
}

/// What the host gets for a run that ended so.
async fn answered(inner: Inner, settings: Arc<ViewSettings>, ended: Ended) -> ScriptRunEnd {
    let code = &settings.code;
    match ended {
        Ended::Done {
            printed,
            value,
            names,
            form,
        } => {
            let given = reply::Given {
                printed,
                value,
                names,
                form: form.unwrap_or(Form::Raw),
            };
            if given.len() <= QUICK_BYTES {
                return reply::done(&inner, code, given);
            }
            let shaping =
                tokio::task::spawn_blocking(move || reply::done(&inner, &settings.code, given));
            let shaped = shaping.await;
            shaped.unwrap_or_else(|_| reply::fault("the result cannot be shown: return less"))
        }
        Ended::Failed {
            printed,
            message,
            line,
        } => reply::failed(&inner, code, &printed, &message, line),
        Ended::Stopped => {
            let (held, waits) = inner.held();
            let id = held::keep(code.runs.as_deref(), held).await;
            reply::held(id.as_deref(), &waits)
        }
    }
}

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or_default()
    })
}
