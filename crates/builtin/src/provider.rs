//! The provider: a recorded permit in, a reply out.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use callgate_call::{Exchange, Failure, LocalProvider, Provider, Reply};
use callgate_gate::{BuiltinTool, Listing, Permit, ServerName, Target};
use callgate_record::{Effect, Recorded};
use callgate_wire::{Id, RpcError, Strictness, message};
use futures_util::future::BoxFuture;

use crate::{
    Pages, Roots, Shape,
    answer::{FileToolResult, ToolFailed, failure},
    arguments::Arguments,
    descriptors,
    tools::{bash, edit, glob, grep, read, write},
};

/// The built-in tools over some roots.
#[derive(Debug, Clone)]
pub struct Builtins {
    file_tools: FileTools,
    shell: bash::Shell,
    both_spellings: bool,
}

/// The state that file tools share.
#[derive(Debug, Clone)]
pub(crate) struct FileTools {
    pub(crate) roots: Roots,
    /// Held while a file is changed, so that concurrent edits of one file are not lost.
    pub(crate) changing: Arc<Mutex<()>>,
    /// Set when the call is cancelled: a blocking task cannot be aborted, so walks poll this.
    pub(crate) is_cancelled: Arc<AtomicBool>,
    pub(crate) pages: Pages,
}

impl Builtins {
    /// The tools over `roots`. Commands run below `warden_program`, with `env` as their whole environment.
    pub fn new(roots: Roots, warden_program: PathBuf, env: Vec<(String, String)>) -> Self {
        Self {
            file_tools: FileTools {
                roots,
                changing: Arc::default(),
                is_cancelled: Arc::default(),
                pages: Pages::default(),
            },
            both_spellings: false,
            shell: bash::Shell {
                warden_program,
                env,
            },
        }
    }

    /// The tools as this host needs them.
    #[must_use]
    pub fn shaped(mut self, shape: Shape) -> Self {
        self.file_tools.pages = shape.pages.within_bounds();
        self.both_spellings = shape.both_spellings;
        self
    }

    /// The folder that relative paths start from.
    pub fn root(&self) -> &Path {
        self.file_tools.roots.first()
    }

    async fn answer(&self, tool: BuiltinTool, arguments: Bytes, exchange: &Exchange) -> ToolEnd {
        let run: FileTool = match tool {
            BuiltinTool::Bash => {
                return bash::run(&self.shell, &self.file_tools.roots, &arguments, exchange).await;
            }
            BuiltinTool::Edit => edit::run,
            BuiltinTool::Glob => glob::run,
            BuiltinTool::Grep => grep::run,
            BuiltinTool::Read => read::run,
            BuiltinTool::Write => write::run,
        };
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let tools = FileTools {
            is_cancelled: is_cancelled.clone(),
            ..self.file_tools.clone()
        };
        // File I/O and searches block, so they run outside of the async workers.
        let working =
            tokio::task::spawn_blocking(move || with(tool, &arguments, |all| run(&tools, all)));
        tokio::select! {
            done = working => match done {
                Ok(done) => ToolEnd::Finished(done),
                Err(_) => ToolEnd::Broken,
            },
            () = exchange.cancelled.cancelled() => {
                is_cancelled.store(true, Ordering::Release);
                ToolEnd::Cancelled
            }
        }
    }
}

/// How a tool ended.
#[derive(Debug)]
pub(crate) enum ToolEnd {
    /// With a result, possibly a failure.
    Finished(FileToolResult),
    /// The caller cancelled the call.
    Cancelled,
    /// The tool's task panicked.
    Broken,
}

type FileTool = fn(&FileTools, Arguments<'_>) -> FileToolResult;

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
                return Reply::local(unknown(&id, "method not found"));
            };
            let Some(tool) = BuiltinTool::named(&tool.name) else {
                return Reply::local(unknown(&id, "unknown tool"));
            };
            let arguments = frame.param("arguments").map(|json| frame.share(json));
            let arguments = arguments.unwrap_or_else(|| Bytes::from_static(b"{}"));
            match self.answer(tool, arguments, &exchange).await {
                ToolEnd::Finished(Ok(answer)) => Reply::of_tool(&call, &answer),
                ToolEnd::Finished(Err(failed)) => Reply::of_tool(&call, &failure(&failed)),
                ToolEnd::Cancelled => Err(Failure::Cancelled {
                    effect: Effect::Unknown,
                }),
                ToolEnd::Broken => Err(Failure::Broken),
            }
        })
    }
}

impl LocalProvider for Builtins {
    fn server(&self) -> ServerName {
        ServerName::builtin()
    }

    fn listing(&self) -> Listing {
        Listing {
            listed: true,
            tools: Some(descriptors::tools(self.both_spellings)),
            ..Listing::unknown(ServerName::builtin())
        }
    }
}

fn unknown(id: &Id, what: &str) -> Bytes {
    message::error(Some(id), &RpcError::new(RpcError::METHOD_NOT_FOUND, what))
}
