//! A plugin on the raw protocol. What it offers and does wrong stands in `raw.json` beside its program.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::HeaderMap;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio_rustls::TlsAcceptor;

use super::messages::{
    Execute, Executed, Health, HealthCheck, Info, Init, Input, Nothing, Operation, Operations,
    Output,
};
use super::{COOKIE, framed, tls::Identity, unframed};

/// What the plugin offers and does wrong.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RawPlugin {
    /// Its operations: name, and inputs as `name:type[:default[:validation]]`.
    pub operations: Vec<(String, Vec<String>)>,
    /// Whether it ignores the host's certificate.
    pub plain: bool,
    /// Whether it serves on TCP instead of a socket.
    pub tcp: bool,
    /// What it does wrong.
    pub wrong: Wrong,
    /// Where it writes down what was executed and configured, a line each.
    pub log: PathBuf,
}

/// What a plugin does wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wrong {
    /// Nothing.
    #[default]
    No,
    /// It wants another cookie.
    Cookie,
    /// It speaks another handshake.
    CoreVersion,
    /// It speaks another protocol.
    AppVersion,
    /// Its first line is not a handshake.
    Line,
    /// It never says anything.
    Silent,
    /// It ends at once.
    Ends,
    /// It says that it does not serve.
    NotServing,
    /// It shows another certificate than it said it would.
    Certificate,
    /// It refuses its configuration.
    Init,
}

impl RawPlugin {
    /// Puts a plugin into a folder of plugins under its name, and gives the path of its program.
    ///
    /// # Panics
    /// When the folder cannot be written.
    pub fn install(&self, plugins: &Path, name: &str) -> PathBuf {
        let folder = plugins.join(name);
        fs::create_dir_all(&folder).expect("a fresh folder is writable");
        let program = folder.join(format!("awf-plugin-{name}"));
        let _ = fs::remove_file(&program);
        std::os::unix::fs::symlink(crate::bin("raw-plugin"), &program).expect("it is ours");
        let manifest = format!("name: {name}\nversion: 1.0.0\nawf_version: '>=0.1'\n");
        fs::write(folder.join("plugin.yaml"), manifest).expect("it is ours");
        let text = serde_json::to_string(self).expect("it is JSON");
        fs::write(folder.join("raw.json"), text).expect("it is ours");
        program
    }

    /// One that offers `echo`, `fail`, `crash`, `huge` and `wait`.
    pub fn with_all(log: PathBuf) -> Self {
        let operation = |name: &str, inputs: &[&str]| {
            let inputs = inputs.iter().map(|input| (*input).to_owned());
            (name.to_owned(), inputs.collect())
        };
        Self {
            operations: vec![
                operation("echo", &["text:string", "times:integer:3"]),
                operation("fail", &[]),
                operation("crash", &[]),
                operation("huge", &[]),
                operation("wait", &[]),
            ],
            log,
            ..Self::default()
        }
    }
}

/// The whole program.
pub fn main() -> Result<()> {
    let program = std::env::args().next().context("it has a path")?;
    let beside = Path::new(&program).with_file_name("raw.json");
    let raw: RawPlugin = serde_json::from_str(&fs::read_to_string(beside)?)?;
    let cookie = std::env::var(COOKIE.0).unwrap_or_default();
    if cookie != COOKIE.1 || raw.wrong == Wrong::Cookie {
        eprintln!("This binary is a plugin. These are not meant to be executed directly.");
        std::process::exit(1);
    }
    match raw.wrong {
        Wrong::Ends => std::process::exit(7),
        Wrong::Silent => std::thread::sleep(Duration::from_secs(600)),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(Arc::new(raw)))
}

async fn serve(raw: Arc<RawPlugin>) -> Result<()> {
    let client = std::env::var("PLUGIN_CLIENT_CERT")
        .ok()
        .filter(|_| !raw.plain);
    let (acceptor, shown) = match client {
        None => (None, String::new()),
        Some(pem) => {
            let identity = Identity::make()?;
            let shown = match raw.wrong {
                Wrong::Certificate => Identity::make()?.certificate,
                _ => identity.certificate.clone(),
            };
            let config = identity.server(from_pem(&pem)?)?;
            let shown = BASE64_STANDARD_NO_PAD.encode(&shown);
            (Some(TlsAcceptor::from(Arc::new(config))), shown)
        }
    };
    if raw.tcp {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        greet(&raw, "tcp", &listener.local_addr()?.to_string(), &shown)?;
        loop {
            let (stream, _) = listener.accept().await?;
            attend(stream, acceptor.clone(), raw.clone());
        }
    }
    let folder = std::env::var("PLUGIN_UNIX_SOCKET_DIR").unwrap_or_else(|_| "/tmp".to_owned());
    let socket = format!("{folder}/plugin{}", std::process::id());
    let listener = UnixListener::bind(&socket)?;
    greet(&raw, "unix", &socket, &shown)?;
    loop {
        let (stream, _) = listener.accept().await?;
        attend(stream, acceptor.clone(), raw.clone());
    }
}

fn greet(raw: &RawPlugin, network: &str, address: &str, certificate: &str) -> Result<()> {
    let line = match raw.wrong {
        Wrong::CoreVersion => format!("2|1|{network}|{address}|grpc|{certificate}"),
        Wrong::AppVersion => format!("1|9|{network}|{address}|grpc|{certificate}"),
        Wrong::Line => "listening on everything".to_owned(),
        _ => format!("1|1|{network}|{address}|grpc|{certificate}"),
    };
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{line}")?;
    stdout.flush()?;
    Ok(())
}

fn attend<S>(stream: S, acceptor: Option<TlsAcceptor>, raw: Arc<RawPlugin>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        let answering = service_fn(move |request| answer(request, raw.clone()));
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        // A connection that breaks is the host's matter.
        match acceptor {
            None => drop(
                server
                    .serve_connection(TokioIo::new(stream), answering)
                    .await,
            ),
            Some(acceptor) => {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let _ = server
                        .serve_connection(TokioIo::new(stream), answering)
                        .await;
                }
            }
        }
    });
}

type Body = BoxBody<Bytes, Infallible>;

async fn answer(request: Request<Incoming>, raw: Arc<RawPlugin>) -> Result<Response<Body>> {
    let path = request.uri().path().to_owned();
    if path == "/plugin.GRPCStdio/StreamStdio" {
        // It prints nothing, for ever.
        std::future::pending::<()>().await;
    }
    if let Some(parent) = request.headers().get("traceparent") {
        // Beside the log, which tests compare as a whole.
        let _ = std::fs::write(raw.log.with_extension("trace"), parent.as_bytes());
    }
    let body = request.into_body().collect().await?.to_bytes();
    let answered = match unframed(&body) {
        Ok(message) => act(&path, message, &raw).await,
        Err(_) => Err((13, "the body is wrong".to_owned())),
    };
    let mut trailers = HeaderMap::new();
    let body = match answered {
        Ok(message) => {
            trailers.insert("grpc-status", "0".parse()?);
            Bytes::from(framed(&message))
        }
        Err((code, text)) => {
            trailers.insert("grpc-status", code.to_string().parse()?);
            trailers.insert("grpc-message", text.parse()?);
            Bytes::new()
        }
    };
    let body = Full::new(body).with_trailers(std::future::ready(Some(Ok(trailers))));
    let response = Response::builder().header("content-type", "application/grpc");
    Ok(response.body(body.boxed())?)
}

type Answered = Result<Vec<u8>, (u8, String)>;

async fn act(path: &str, message: &[u8], raw: &RawPlugin) -> Answered {
    let bad = |_| (3, "the message is wrong".to_owned());
    match path {
        "/grpc.health.v1.Health/Check" => {
            let asked = HealthCheck::decode(message).map_err(bad)?;
            if asked.service != "plugin" {
                return Err((5, "unknown service".to_owned()));
            }
            let status = if raw.wrong == Wrong::NotServing { 2 } else { 1 };
            Ok(Health { status }.encode_to_vec())
        }
        "/plugin.GRPCController/Shutdown" => {
            note(raw, "shutdown");
            tokio::spawn(async {
                // The answer goes out first.
                tokio::task::yield_now().await;
                std::process::exit(0);
            });
            Ok(Nothing {}.encode_to_vec())
        }
        "/plugin.v1.PluginService/GetInfo" => Ok(Info {
            name: "raw".to_owned(),
            version: "1.0.0".to_owned(),
            description: "raw".to_owned(),
            capabilities: vec!["operations".to_owned()],
        }
        .encode_to_vec()),
        "/plugin.v1.PluginService/Init" => {
            let init = Init::decode(message).map_err(bad)?;
            if raw.wrong == Wrong::Init {
                return Err((3, "no such setting".to_owned()));
            }
            let config = as_json(&init.config);
            if !init.config.is_empty() {
                note(raw, &format!("init {config}"));
            }
            Ok(Nothing {}.encode_to_vec())
        }
        "/plugin.v1.PluginService/Shutdown" => Ok(Nothing {}.encode_to_vec()),
        "/plugin.v1.OperationService/ListOperations" => Ok(Operations {
            operations: raw.operations.iter().map(operation).collect(),
        }
        .encode_to_vec()),
        "/plugin.v1.OperationService/Execute" => {
            let execute = Execute::decode(message).map_err(bad)?;
            executed(raw, execute).await
        }
        _ => Err((12, "unknown method".to_owned())),
    }
}

async fn executed(raw: &RawPlugin, execute: Execute) -> Answered {
    let Execute { operation, inputs } = execute;
    let given = as_json(&inputs);
    note(raw, &format!("execute {operation} {given}"));
    let ok = |output: String, data| Executed {
        success: true,
        output,
        data,
        error: String::new(),
    };
    let done = match operation.as_str() {
        "fail" => Executed {
            error: "it was asked to fail".to_owned(),
            ..Executed::default()
        },
        "crash" => std::process::exit(9),
        "huge" => ok("x".repeat(20 * 1024 * 1024), HashMap::new()),
        "wait" => std::future::pending().await,
        _ => ok(given, inputs),
    };
    Ok(done.encode_to_vec())
}

fn as_json(documents: &HashMap<String, Vec<u8>>) -> String {
    let mut members: Vec<String> = documents
        .iter()
        .map(|(name, raw)| format!("{name:?}:{}", String::from_utf8_lossy(raw)))
        .collect();
    members.sort();
    format!("{{{}}}", members.join(","))
}

fn operation((name, inputs): &(String, Vec<String>)) -> Operation {
    let input = |text: &String| {
        let mut parts = text.split(':').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        Input {
            name: next(),
            r#type: next(),
            required: text.matches(':').count() == 1,
            default: next(),
            validation: next(),
            description: String::new(),
        }
    };
    Operation {
        name: name.clone(),
        description: format!("Does {name}."),
        inputs: inputs.iter().map(input).collect(),
        outputs: vec![Output {
            name: "text".to_owned(),
            r#type: "string".to_owned(),
            description: "what was given".to_owned(),
        }],
    }
}

fn note(raw: &RawPlugin, line: &str) {
    if raw.log.as_os_str().is_empty() {
        return;
    }
    let file = fs::File::options().create(true).append(true).open(&raw.log);
    if let Ok(mut file) = file {
        let _ = writeln!(file, "{line}");
    }
}

pub(super) fn from_pem(text: &str) -> Result<Vec<u8>> {
    let lines: Vec<&str> = text.lines().collect();
    let [first, body @ .., last] = lines.as_slice() else {
        bail!("no PEM");
    };
    if *first != "-----BEGIN CERTIFICATE-----" || *last != "-----END CERTIFICATE-----" {
        bail!("no certificate");
    }
    Ok(BASE64_STANDARD.decode(body.concat())?)
}
