//! The echo upstream: `echo {text}` answers with the same text; as many other tools as asked for.

use std::{
    convert::Infallible,
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use callgate_wire::{Frame, FrameKind, Id, Strictness, message, methods};
use clap::Args;
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, StatusCode, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

/// How the echo upstream is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Serve HTTP on this address instead of stdio
    #[arg(long)]
    http: Option<SocketAddr>,
    /// How many tools to list
    #[arg(long, default_value_t = 1)]
    tools: usize,
    /// Tools with words in their names and several parameters, as in everyday catalogs
    #[arg(long)]
    everyday: bool,
    /// How long a call takes, over stdio
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
}

/// Runs until standard input ends, or for ever over HTTP.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    // Once, so that a list costs no more than sending it.
    let list: Arc<str> = if options.everyday {
        crate::search::catalog(options.tools).into()
    } else {
        list(options.tools).into()
    };
    match options.http {
        None => serve_stdio(&list, Duration::from_millis(options.delay_ms)),
        Some(address) => super::start::runtime()?.block_on(serve_http(address, list)),
    }
}

fn serve_stdio(list: &str, delay: Duration) -> anyhow::Result<()> {
    let mut input = BufReader::with_capacity(256 * 1024, std::io::stdin().lock());
    let mut output = std::io::stdout().lock();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        line.pop();
        let frame = Frame::parse(Bytes::from(std::mem::take(&mut line)), Strictness::Envelope)?;
        if frame.method() == Some(methods::TOOLS_CALL) && !delay.is_zero() {
            std::thread::sleep(delay);
        }
        if let Some(answer) = answer(&frame, list) {
            // In one write, so that the reader is woken once.
            let mut whole = answer.to_vec();
            whole.push(b'\n');
            output.write_all(&whole)?;
            output.flush()?;
        }
    }
    Ok(())
}

async fn serve_http(address: SocketAddr, list: Arc<str>) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).await?;
    eprintln!("listening http://{}/mcp", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let list = list.clone();
        let service = service_fn(move |request| respond(request, list.clone()));
        tokio::spawn(async move {
            // A client that goes away ends its connection; the next one has its own.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    list: Arc<str>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let status = |status| {
        let mut response = Response::new(Full::default());
        *response.status_mut() = status;
        Ok(response)
    };
    if request.method() != hyper::Method::POST {
        return status(StatusCode::METHOD_NOT_ALLOWED);
    }
    let Ok(body) = request.into_body().collect().await else {
        return status(StatusCode::BAD_REQUEST);
    };
    let Ok(frame) = Frame::parse(body.to_bytes(), Strictness::Envelope) else {
        return status(StatusCode::BAD_REQUEST);
    };
    match answer(&frame, &list) {
        Some(answer) => {
            let mut response = Response::new(Full::new(answer));
            let json = hyper::header::HeaderValue::from_static("application/json");
            response
                .headers_mut()
                .insert(hyper::header::CONTENT_TYPE, json);
            Ok(response)
        }
        None => status(StatusCode::ACCEPTED),
    }
}

fn answer(frame: &Frame, list: &str) -> Option<Bytes> {
    if frame.kind() != FrameKind::Request {
        return None;
    }
    let id: &Id = frame.id()?;
    let result = match frame.method()? {
        methods::INITIALIZE => {
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}"#
                .to_owned()
        }
        methods::TOOLS_LIST => list.to_owned(),
        methods::TOOLS_CALL => {
            let text = frame.param("arguments").and_then(|arguments| arguments.get("text"));
            let text = text.map_or("\"\"", |text| text.as_text());
            format!(r#"{{"content":[{{"type":"text","text":{text}}}]}}"#)
        }
        _ => "{}".to_owned(),
    };
    Some(message::result(id, &result))
}

fn list(tools: usize) -> String {
    let one = |at: usize| {
        let name = if at == 0 {
            "echo".to_owned()
        } else {
            format!("tool_{at}")
        };
        format!(
            r#"{{"name":"{name}","description":"Does what number {at} does, and says so in a sentence of some length","inputSchema":{{"type":"object","properties":{{"text":{{"type":"string","description":"What to say"}},"count":{{"type":"integer"}}}},"required":["text"]}},"annotations":{{"readOnlyHint":true}}}}"#
        )
    };
    let all: Vec<String> = (0..tools).map(one).collect();
    format!(r#"{{"tools":[{}]}}"#, all.join(","))
}
