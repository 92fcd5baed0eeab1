//! A scripted model on loopback, for looking at an agent without a real one: it speaks the four wire APIs
//! of the agents, says what its script says, and notes which tools it was offered.

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

/// Largest request that is read.
const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// What the model does in one round.
#[derive(Debug, Clone)]
pub enum Turn {
    /// It says something, and is done.
    Say(String),
    /// It calls tools.
    Call(Vec<Scripted>),
}

/// A call in a script.
#[derive(Debug, Clone)]
pub struct Scripted {
    /// Which tool.
    pub tool: ScriptedTool,
    /// Its arguments.
    pub arguments: Value,
}

/// A tool in a script.
#[derive(Debug, Clone)]
pub enum ScriptedTool {
    /// One of ours, under whatever name the agent offers it.
    Ours(String),
    /// One of the agent's own by its exact name, whether it is offered or not.
    Native(String),
}

/// A tool as an agent offered it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offered {
    /// What it is grouped under, with agents that group.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

/// A model that follows a script.
#[derive(Debug)]
pub struct ScriptedModel {
    /// Where it listens.
    pub address: SocketAddr,
    stage: Arc<Stage>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Debug)]
struct Stage {
    script: Vec<Turn>,
    next: AtomicUsize,
    offered: Mutex<Vec<Vec<Offered>>>,
    requests: Mutex<Vec<Value>>,
}

/// A call with the name that the agent knows it by.
#[derive(Debug, Clone)]
struct Named {
    tool: Offered,
    arguments: Value,
    id: String,
}

/// One round in the agent's own words.
#[derive(Debug)]
enum Line {
    Say(String),
    Call(Vec<Named>),
}

impl ScriptedModel {
    /// Listens on loopback.
    pub async fn start(script: Vec<Turn>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let stage = Arc::new(Stage {
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
    pub fn offered(&self) -> Vec<Vec<Offered>> {
        let offered = self.stage.offered.lock();
        offered.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What it was asked so far, in order.
    pub fn requests(&self) -> Vec<Value> {
        let requests = self.stage.requests.lock();
        requests.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(listener: TcpListener, stage: Arc<Stage>) {
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
            // An agent that goes away is no failure.
            let _ = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(stage: &Stage, request: Request<Incoming>) -> Response<Full<Bytes>> {
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

/// What agents ask besides.
fn elsewhere(path: &str) -> String {
    if path.ends_with("/count_tokens") {
        r#"{"input_tokens":1}"#.to_owned()
    } else if path.ends_with(":countTokens") {
        r#"{"totalTokens":1}"#.to_owned()
    } else {
        r#"{"object":"list","data":[],"models":[]}"#.to_owned()
    }
}

impl Stage {
    /// What the model says next. A request without tools is not part of the task: agents also ask for
    /// titles and summaries.
    fn next(&self, offered: Vec<Offered>) -> Line {
        if offered.is_empty() {
            return Line::Say("ok".to_owned());
        }
        let at = self.next.fetch_add(1, Ordering::AcqRel);
        let mut all = self.offered.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(offered.clone());
        match self.script.get(at) {
            None => Line::Say("the script is over".to_owned()),
            Some(Turn::Say(text)) => Line::Say(text.clone()),
            Some(Turn::Call(calls)) => {
                let named = calls.iter().enumerate().map(|(number, call)| Named {
                    tool: name(&call.tool, &offered),
                    arguments: call.arguments.clone(),
                    id: format!("call_{at}_{number}"),
                });
                Line::Call(named.collect())
            }
        }
    }
}

fn name(tool: &ScriptedTool, offered: &[Offered]) -> Offered {
    match tool {
        ScriptedTool::Native(name) => Offered {
            namespace: None,
            name: name.clone(),
        },
        ScriptedTool::Ours(name) => {
            let is_it = |tool: &&Offered| match &tool.namespace {
                Some(group) => group.contains("callgate") && tool.name == *name,
                None => {
                    let prefixed = tool.name.contains("callgate");
                    tool.name == *name || prefixed && tool.name.ends_with(&format!("_{name}"))
                }
            };
            let found = offered.iter().find(is_it).cloned();
            found.unwrap_or_else(|| Offered {
                namespace: None,
                name: name.clone(),
            })
        }
    }
}

/// An event of a stream that names its events.
fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}
