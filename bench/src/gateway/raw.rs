//! The raw pass-through: what a proxy costs that looks at nothing and keeps nothing.

use std::{
    net::SocketAddr,
    process::{Command, Stdio},
};

use clap::Args;
use hyper::{Request, Response, body::Incoming, service::service_fn};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use tokio::net::TcpListener;

/// How the pass-through is run.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Pass HTTP on to this address
    #[arg(long, requires = "listen")]
    to: Option<SocketAddr>,
    /// Where to listen for it
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Pass standard input and output through to this command
    #[arg(last = true)]
    command: Vec<String>,
}

/// Runs until the other side ends.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    match (options.to, options.listen) {
        (Some(to), Some(listen)) => super::way::runtime()?.block_on(pass_http(listen, to)),
        _ => pass_stdio(&options.command),
    }
}

async fn pass_http(listen: SocketAddr, to: SocketAddr) -> anyhow::Result<()> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build(connector);
    let listener = TcpListener::bind(listen).await?;
    eprintln!("listening http://{}/mcp", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        socket.set_nodelay(true)?;
        let client = client.clone();
        let service = service_fn(move |request| pass(client.clone(), request, to));
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
    to: SocketAddr,
) -> anyhow::Result<Response<Incoming>> {
    let path = request.uri().path().to_owned();
    *request.uri_mut() = format!("http://{to}{path}").parse()?;
    Ok(client.request(request).await?)
}

/// A pipe in each direction, and a thread for each.
fn pass_stdio(command: &[String]) -> anyhow::Result<()> {
    let mut words = command.iter();
    let program = words
        .next()
        .ok_or_else(|| anyhow::anyhow!("a command is needed"))?;
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
