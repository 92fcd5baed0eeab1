//! A scripted model on loopback, to probe agents without a real model: it implements the agents' four wire APIs,
//! follows a script, and records which tools it was offered.

mod anthropic;
mod chat;
mod gemini;
mod responses;

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

/// The largest request that is read.
const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// One round of the script.
#[derive(Debug, Clone)]
pub enum Turn {
    /// The model answers with text, which ends the task.
    Say(String),
    Call(Vec<Scripted>),
}

/// A call in a script.
#[derive(Debug, Clone)]
pub struct Scripted {
    pub tool: ScriptedTool,
    pub arguments: Value,
}

/// A tool in a script.
#[derive(Debug, Clone)]
pub enum ScriptedTool {
    /// One of our tools, under the name that the agent offers it by.
    Ours(String),
    /// A native tool by its exact name, even if it is not offered.
    Native(String),
}

/// A tool that an agent offered.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferedTool {
    /// The group of the tool, for agents that group tools.
    pub namespace: Option<String>,
    pub name: String,
}

/// A model that follows a script.
#[derive(Debug)]
pub struct ScriptedModel {
    pub address: SocketAddr,
    stage: Arc<ScriptState>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct ScriptState {
    script: Vec<Turn>,
    next: AtomicUsize,
    offered: Mutex<Vec<Vec<OfferedTool>>>,
    requests: Mutex<Vec<Value>>,
}

/// A call with the agent's name for the tool.
#[derive(Debug, Clone)]
struct ResolvedCall {
    tool: OfferedTool,
    arguments: Value,
    id: String,
}

/// One round with the agent's names for the tools.
#[derive(Debug)]
enum ResolvedTurn {
    Say(String),
    Call(Vec<ResolvedCall>),
}

impl ScriptedModel {
    /// Listens on loopback.
    pub async fn start(script: Vec<Turn>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let stage = Arc::new(ScriptState {
            script,
            next: AtomicUsize::new(0),
            offered: Mutex::default(),
            requests: Mutex::default(),
        });
        let serving = tokio::spawn(serve(listener, stage.clone()));
        Ok(Self {
            address,
            stage,
            _serving: AbortOnDropHandle::new(serving),
        })
    }

    /// The tools that were offered in each round, in order.
    pub fn offered(&self) -> Vec<Vec<OfferedTool>> {
        let offered = self.stage.offered.lock();
        offered.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The requests so far, in order.
    pub fn requests(&self) -> Vec<Value> {
        let requests = self.stage.requests.lock();
        requests.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(listener: TcpListener, stage: Arc<ScriptState>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            return;
        };
        let stage = stage.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let stage = stage.clone();
                async move { Ok::<_, Infallible>(answer(&stage, request).await) }
            });
            let connection = hyper::server::conn::http1::Builder::new();
            // An agent may close its connection at any time.
            let _ = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(stage: &ScriptState, request: Request<Incoming>) -> Response<Full<Bytes>> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let body = Limited::new(body, MAX_REQUEST_BYTES).collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let mut requests = stage
        .requests
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    requests.push(body.clone());
    drop(requests);
    let (kind, text) = if path.ends_with("/messages") {
        anthropic::answer(stage, &body)
    } else if path.ends_with("/responses") {
        responses::answer(stage, &body)
    } else if path.ends_with("/chat/completions") {
        chat::answer(stage, &body)
    } else if path.contains("enerateContent") {
        gemini::answer(stage, &body, path.contains(":stream"))
    } else {
        ("application/json", elsewhere(&path))
    };
    Response::builder()
        .header(header::CONTENT_TYPE, kind)
        .body(Full::new(Bytes::from(text)))
        .unwrap_or_default()
}

/// Answers to the agents' other requests.
fn elsewhere(path: &str) -> String {
    if path.ends_with("/count_tokens") {
        r#"{"input_tokens":1}"#.to_owned()
    } else if path.ends_with(":countTokens") {
        r#"{"totalTokens":1}"#.to_owned()
    } else {
        r#"{"object":"list","data":[],"models":[]}"#.to_owned()
    }
}

impl ScriptState {
    /// The model's next round. A request without tools does not advance the script: agents also ask for titles and
    /// summaries.
    fn next(&self, offered: Vec<OfferedTool>) -> ResolvedTurn {
        if offered.is_empty() {
            return ResolvedTurn::Say("ok".to_owned());
        }
        let at = self.next.fetch_add(1, Ordering::AcqRel);
        let mut all = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(offered.clone());
        match self.script.get(at) {
            None => ResolvedTurn::Say("the script is over".to_owned()),
            Some(Turn::Say(text)) => ResolvedTurn::Say(text.clone()),
            Some(Turn::Call(calls)) => {
                let named = calls.iter().enumerate().map(|(number, call)| ResolvedCall {
                    tool: name(&call.tool, &offered),
                    arguments: call.arguments.clone(),
                    id: format!("call_{at}_{number}"),
                });
                ResolvedTurn::Call(named.collect())
            }
        }
    }
}

fn name(tool: &ScriptedTool, offered: &[OfferedTool]) -> OfferedTool {
    match tool {
        ScriptedTool::Native(name) => OfferedTool {
            namespace: None,
            name: name.clone(),
        },
        ScriptedTool::Ours(name) => {
            let is_it = |tool: &&OfferedTool| match &tool.namespace {
                Some(group) => group.contains("callgate") && tool.name == *name,
                None => {
                    let prefixed = tool.name.contains("callgate");
                    tool.name == *name || prefixed && tool.name.ends_with(&format!("_{name}"))
                }
            };
            let found = offered.iter().find(is_it).cloned();
            found.unwrap_or_else(|| OfferedTool {
                namespace: None,
                name: name.clone(),
            })
        }
    }
}

/// A server-sent event with a name.
fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}
