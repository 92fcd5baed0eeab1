//! The provider: a recorded permit in, a reply out.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use callgate_call::{Exchange, Failure, InHouse, Provider, Reply};
use callgate_gate::{BuiltinTool, Listing, Permit, ServerName, Target};
use callgate_record::{Effect, Recorded};
use callgate_wire::{Id, RpcError, Strictness, message};
use futures_util::future::BoxFuture;

use crate::{
    Roots,
    answer::{Done, ToolFailed, failure},
    arguments::Arguments,
    descriptors,
    tools::{bash, edit, glob, grep, read, write},
};

/// The built-in tools over some roots.
#[derive(Debug, Clone)]
pub struct Builtins {
    place: Workplace,
    shell: bash::Shell,
}

/// What file tools work with.
#[derive(Debug, Clone)]
pub(crate) struct Workplace {
    pub(crate) roots: Roots,
    /// Held while a file is changed: of two edits at once none is lost.
    pub(crate) changing: Arc<Mutex<()>>,
    /// Set when nobody waits any more.
    pub(crate) given_up: Arc<AtomicBool>,
}

impl Builtins {
    /// The tools over `roots`. Commands are started below `warden_program` with the environment `env`
    /// and nothing else.
    pub fn new(roots: Roots, warden_program: PathBuf, env: Vec<(String, String)>) -> Self {
        Self {
            place: Workplace {
                roots,
                changing: Arc::default(),
                given_up: Arc::default(),
            },
            shell: bash::Shell {
                warden_program,
                env,
            },
        }
    }

    /// The folder that relative paths start from.
    pub fn root(&self) -> &Path {
        self.place.roots.first()
    }

    async fn answer(&self, tool: BuiltinTool, arguments: Bytes, exchange: &Exchange) -> Answered {
        let run: FileTool = match tool {
            BuiltinTool::Bash => {
                return bash::run(&self.shell, &self.place.roots, &arguments, exchange).await;
            }
            BuiltinTool::Edit => edit::run,
            BuiltinTool::Glob => glob::run,
            BuiltinTool::Grep => grep::run,
            BuiltinTool::Read => read::run,
            BuiltinTool::Write => write::run,
        };
        let given_up = Arc::new(AtomicBool::new(false));
        let place = Workplace {
            given_up: given_up.clone(),
            ..self.place.clone()
        };
        // Files may be on a disk that is slow, and a search takes its time.
        let working =
            tokio::task::spawn_blocking(move || with(tool, &arguments, |all| run(&place, all)));
        tokio::select! {
            done = working => match done {
                Ok(done) => Answered::Done(done),
                Err(_) => Answered::Broken,
            },
            () = exchange.cancelled.cancelled() => {
                given_up.store(true, Ordering::Release);
                Answered::Cancelled
            }
        }
    }
}

/// How a tool ended.
#[derive(Debug)]
pub(crate) enum Answered {
    /// With an answer, of a failure perhaps.
    Done(Done),
    /// Nobody waits for the answer any more.
    Cancelled,
    /// It broke.
    Broken,
}

type FileTool = fn(&Workplace, Arguments<'_>) -> Done;

/// Reads the arguments of `tool` and hands them to `run`.
pub(crate) fn with<T>(
    tool: BuiltinTool,
    arguments: &Bytes,
    run: impl FnOnce(Arguments<'_>) -> Result<T, ToolFailed>,
) -> Result<T, ToolFailed> {
    let json = callgate_wire::Json::validate(arguments, Strictness::Envelope)
        .map_err(|_| crate::arguments::ArgumentError::NotAnObject)?;
    run(Arguments::new(tool, Some(json))?)
}

impl Provider for Builtins {
    fn forward(
        &self,
        call: Recorded<Permit>,
        exchange: Exchange,
    ) -> BoxFuture<'_, Result<Reply, Failure>> {
        Box::pin(async move {
            let call = call.into_call();
            let frame = &call.attempt.frame;
            let id = frame.id().cloned().unwrap_or_else(|| Id::number(0));
            let Target::Tool(tool) = &call.target else {
                return Reply::in_house(unknown(&id, "method not found"));
            };
            let Some(tool) = BuiltinTool::named(&tool.name) else {
                return Reply::in_house(unknown(&id, "there is no such tool"));
            };
            let arguments = frame.param("arguments").map(|json| frame.share(json));
            let arguments = arguments.unwrap_or_else(|| Bytes::from_static(b"{}"));
            match self.answer(tool, arguments, &exchange).await {
                Answered::Done(Ok(answer)) => Reply::of_tool(&call, &answer),
                Answered::Done(Err(failed)) => Reply::of_tool(&call, &failure(&failed)),
                Answered::Cancelled => Err(Failure::Cancelled {
                    effect: Effect::Unknown,
                }),
                Answered::Broken => Err(Failure::Broken),
            }
        })
    }
}

impl InHouse for Builtins {
    fn server(&self) -> ServerName {
        ServerName::builtin()
    }

    fn listing(&self) -> Listing {
        Listing {
            listed: true,
            tools: Some(descriptors::tools()),
            ..Listing::unknown(ServerName::builtin())
        }
    }
}

fn unknown(id: &Id, what: &str) -> Bytes {
    message::error(Some(id), &RpcError::new(RpcError::METHOD_NOT_FOUND, what))
}
