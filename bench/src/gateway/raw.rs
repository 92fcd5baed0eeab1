//! The raw pass-throughs: the cost of a proxy that reads nothing and keeps nothing.
//!
//! Over HTTP it is as lean as the gateway's own libraries allow: the same server and pooled client
//! on the same kind of runtime, bodies streamed as they come, no delay of small packets.

mod bridge;

use std::{
    net::SocketAddr,
    process::{Command, Stdio},
};

use anyhow::bail;
use clap::Args;
use hyper::{
    Request, Response, Uri,
    body::Incoming,
    http::uri::{Authority, Scheme},
    service::service_fn,
};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::net::TcpListener;

use super::start::runtime;

/// How the pass-through is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Pass HTTP on to this address
    #[arg(long, requires = "listen")]
    to: Option<SocketAddr>,
    /// Listen here instead of standard input
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Pass on to the standard input of this command
    #[arg(last = true)]
    command: Vec<String>,
}

/// Runs until the other side ends.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    match (options.listen, options.to) {
        (Some(listen), Some(to)) => runtime()?.block_on(pass_http(listen, to)),
        (Some(listen), None) => runtime()?.block_on(bridge::pass(listen, &options.command)),
        (None, _) => pass_stdio(&options.command),
    }
}

async fn pass_http(listen: SocketAddr, to: SocketAddr) -> anyhow::Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build(connector);
    let to: Authority = to.to_string().parse()?;
    let listener = TcpListener::bind(listen).await?;
    eprintln!("listening http://{}/mcp", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let (client, to) = (client.clone(), to.clone());
        let service = service_fn(move |request| pass(client.clone(), request, to.clone()));
        tokio::spawn(async move {
            // A client that goes away ends its connection; the next one has its own.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}

/// Streams both bodies; only the address changes.
async fn pass(
    client: Client<HttpConnector, Incoming>,
    mut request: Request<Incoming>,
    to: Authority,
) -> anyhow::Result<Response<Incoming>> {
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(Scheme::HTTP);
    parts.authority = Some(to);
    *request.uri_mut() = Uri::from_parts(parts)?;
    Ok(client.request(request).await?)
}

/// A pipe in each direction, and a thread for each.
fn pass_stdio(command: &[String]) -> anyhow::Result<()> {
    let [program, words @ ..] = command else {
        bail!("a command is needed");
    };
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (mut stdin, mut stdout) = (child.stdin.take(), child.stdout.take());
    let forward = std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        stdin.as_mut().map(|stdin| copy(&mut input, stdin))
    });
    if let Some(stdout) = &mut stdout {
        copy(stdout, &mut std::io::stdout().lock())?;
    }
    child.wait()?;
    drop(forward);
    Ok(())
}

/// Copies and flushes what each read gave.
fn copy(from: &mut impl std::io::Read, to: &mut impl std::io::Write) -> std::io::Result<()> {
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let n = from.read(&mut buffer)?;
        if n == 0 {
            return Ok(());
        }
        to.write_all(&buffer[..n])?;
        to.flush()?;
    }
}
