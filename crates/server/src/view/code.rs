//! The `code` view: one tool, `run`, whose scripts can use every pack. A script runs in a worker process. Each call that it
//! makes comes back here and takes the path like any other call, as a child of the script's record.

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
use callgate_code::{Form, Limits, Pool, Program, Script, ScriptEnd, cleaned};
use callgate_gate::Host;
use callgate_wire::{Frame, RpcError, methods, quote};
use futures_util::future::BoxFuture;

use super::{Interpreted, RequestOrigin, ViewSettings};
use crate::Gateway;
use held::{CannotResume, HeldRun};
use inner::RunCalls;
use packs::Packs;

/// The view's only tool.
pub(crate) const RUN: &str = "run";
/// Larger results are formatted on a blocking thread, so that they do not delay calls.
const QUICK_BYTES: usize = 64 * 1024;

/// The source of local packs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PackSource {
    None,
    /// The files in this folder at the start of each run.
    Folder(PathBuf),
    /// Exactly these files with these contents: what was trusted must not change afterwards.
    Read(Vec<(PathBuf, Vec<u8>)>),
}

/// The configuration of the `code` view.
#[derive(Debug, Clone, PartialEq)]
pub struct CodeSettings {
    /// The limits of a run.
    pub limits: Limits,
    /// Results longer than this, in characters, become a handle.
    pub inline_chars: usize,
    pub packs: PackSource,
    /// The folder for held runs. Without one, a held run cannot be resumed.
    pub runs: Option<PathBuf>,
    /// The program of the workers. Without one, scripts cannot run.
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

/// The view's worker pool, created on first use.
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

/// The instructions for models in the answer to `initialize`.
pub(crate) const INSTRUCTIONS: &str = "Everything is called from Python with the tool `run`. Each server is a pack: `wix.list_sites()`. Find tools with `tools.search(\"what you want\")` or `proxy.list_tools(server=\"wix\")`, see parameters with `tools.describe(\"wix.list_sites\")`, then do the whole task in as few runs as you can: loop, filter and combine in the script, and return only what you need.";

/// The tool list, whose description names the current packs.
pub(super) async fn list(gateway: &Gateway, host: &Host) -> String {
    gateway.path.providers().first_connect(None).await;
    let settings = gateway.views.settings();
    // A host that lists the tools usually runs a script next, so a worker is started now.
    if let Some(pool) = gateway.views.code.pool(&settings.code) {
        pool.warm(settings.code.limits.memory_bytes);
    }
    let packs = Packs::of(gateway, host, local::read(&settings.code.packs));
    let description = format!(
        "Run Python over all connected servers. {}\n\
         Call tools as pack.tool(key=value): exact name or snake_case, arguments by name. Results are values: `sites[0].name` and `sites[0][\"name\"]` both work. A failed call raises.\n\
         The result is the last expression, or a top-level `return`, else the names you assigned; printed text comes before it. Concurrent calls: `await asyncio.gather(a.x(), b.y())`.\n\
         Find tools: tools.search(\"query\"), tools.describe(\"pack.tool\"), proxy.list_servers(), proxy.list_tools(server=\"name\"). A large result becomes a handle: read_result(handle, offset=0, limit=100, search=\"regex\").\n\
         Modules: json, re, datetime, math, collections, itertools, asyncio. No file, network or shell access except through packs.\n\
         Example: sites = wix.list_sites(); [s.name for s in sites if s.active]",
        packs.summary()
    );
    let schema = r#"{"type":"object","properties":{"command":{"type":"string","description":"The script"},"resume":{"type":"string","description":"Instead of a script: the id of a held run, once it is approved"}}}"#;
    format!(
        r#"{{"tools":[{{"name":"{RUN}","description":{},"inputSchema":{schema}}}]}}"#,
        quote(&description)
    )
}

pub(crate) struct Run {
    pub(crate) frame: Frame,
    asked: Result<RunInput, String>,
}

enum RunInput {
    Command(String),
    Resume(String),
}

/// Interprets a request in this view.
pub(super) fn take(frame: Frame) -> Interpreted {
    if frame.method() != Some(methods::TOOLS_CALL) {
        return Interpreted::Call {
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
        // Goes to the path all the same, which records the attempt before it answers with this error.
        let error = RpcError::new(RpcError::INVALID_PARAMS, text);
        return Interpreted::Call {
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
        (_, Some(id)) if !id.is_empty() => Ok(RunInput::Resume(id)),
        (Some(command), _) => Ok(RunInput::Command(command)),
        (None, _) => Err("`command` is required: the script, as text".to_owned()),
    };
    Interpreted::Run(Box::new(Run { frame, asked }))
}

impl Run {
    /// The work of the run, for a known host.
    pub(crate) fn work(
        self,
        gateway: Gateway,
        at: RequestOrigin,
    ) -> impl FnOnce(ScriptRun) -> BoxFuture<'static, ScriptRunEnd> + Send + 'static {
        move |script_run| Box::pin(run(gateway, at, script_run, self.asked))
    }
}

async fn run(
    gateway: Gateway,
    at: RequestOrigin,
    script_run: ScriptRun,
    asked: Result<RunInput, String>,
) -> ScriptRunEnd {
    let settings = gateway.views.settings();
    let code = &settings.code;
    let Some(pool) = gateway.views.code.pool(code) else {
        return reply::fault("cannot run scripts: no worker program is configured");
    };
    let owner = at.host.identity.owner().to_string();
    let held = match asked {
        Err(wrong) => return reply::fault(&wrong),
        Ok(RunInput::Command(command)) => {
            HeldRun::new(&script_run, &owner, cleaned(&command), now_us())
        }
        // Taken and not only read, so that a run that is resumed twice at once continues once.
        Ok(RunInput::Resume(id)) => match held::take(code.runs.as_deref(), &id, &owner).await {
            Ok(held) => held,
            Err(CannotResume(text)) => return reply::fault(&text),
        },
    };
    gateway.path.providers().first_connect(None).await;
    let packs = Packs::of(&gateway, &at.host, local::read(&code.packs));
    let script = Script {
        source: held.source.clone(),
        packs: packs.names(),
        local: packs.local().to_vec(),
        owner,
        // The clock of the first start: a script that branches on the time must take the same path again.
        now_us: held.now_us,
    };
    let inner = RunCalls::new(gateway.clone(), at, script_run, packs, held);
    let ended = pool.run(script, &code.limits, &inner).await;
    answered(inner, settings, ended).await
}

/// The result for the host of a run that ended.
async fn answered(inner: RunCalls, settings: Arc<ViewSettings>, ended: ScriptEnd) -> ScriptRunEnd {
    let code = &settings.code;
    match ended {
        ScriptEnd::Done {
            printed,
            value,
            names,
            form,
        } => {
            let given = reply::ScriptOutput {
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
            shaped.unwrap_or_else(|_| {
                reply::fault("the result could not be formatted; return less data")
            })
        }
        ScriptEnd::Failed {
            printed,
            message,
            line,
        } => reply::failed(&inner, code, &printed, &message, line),
        ScriptEnd::Stopped => {
            let (held, held_calls) = inner.held();
            let id = held::store(code.runs.as_deref(), held).await;
            reply::held(id.as_deref(), &held_calls)
        }
    }
}

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or_default()
    })
}
