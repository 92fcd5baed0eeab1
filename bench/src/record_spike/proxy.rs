//! The two servers of the measurement: an upstream that echoes lines, and the proxy before it that records.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::ensure;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

use super::entry::{Entry, Moment};
use super::recorder::Recorder;

/// The upstream. Lives until dropped, on one thread of its own.
#[derive(Debug)]
pub(super) struct Echo {
    addr: SocketAddr,
    _runtime: Runtime,
}

/// The proxy, on two threads of its own.
#[derive(Debug)]
pub(super) struct Proxy {
    addr: SocketAddr,
    runtime: Runtime,
}

impl Echo {
    /// Starts the upstream on a free loopback port.
    pub(super) fn start() -> anyhow::Result<Self> {
        let runtime = runtime(1)?;
        let addr = serve(&runtime, echo)?;
        Ok(Echo {
            addr,
            _runtime: runtime,
        })
    }

    /// Where it listens.
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Proxy {
    /// Starts a proxy before `upstream` on a free loopback port.
    pub(super) fn start(upstream: SocketAddr, recorder: Arc<Recorder>) -> anyhow::Result<Self> {
        let runtime = runtime(2)?;
        let calls = Arc::new(AtomicU64::new(0));
        let addr = serve(&runtime, move |client| {
            relay(client, upstream, Arc::clone(&recorder), Arc::clone(&calls))
        })?;
        Ok(Proxy { addr, runtime })
    }

    /// Where it listens.
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Ends all its tasks, so that nothing holds the recorder any longer.
    pub(super) fn stop(self) {
        drop(self.runtime);
    }
}

/// A connection split into what is read by the line and what is written.
pub(super) struct Lines {
    reader: BufReader<OwnedReadHalf>,
    writer: OwnedWriteHalf,
}

impl Lines {
    /// Connects to `addr`.
    pub(super) async fn connect(addr: SocketAddr) -> anyhow::Result<Self> {
        Self::over(TcpStream::connect(addr).await?)
    }

    /// Sends `line`, which ends in its newline.
    pub(super) async fn send(&mut self, line: &[u8]) -> anyhow::Result<()> {
        Ok(self.writer.write_all(line).await?)
    }

    /// Replaces `line` by the next one; `false` at the end of the stream.
    pub(super) async fn next(&mut self, line: &mut Vec<u8>) -> anyhow::Result<bool> {
        line.clear();
        let read = self.reader.read_until(b'\n', line).await?;
        ensure!(
            read == 0 || line.ends_with(b"\n"),
            "the stream ended inside a line"
        );
        Ok(read > 0)
    }

    fn over(stream: TcpStream) -> anyhow::Result<Self> {
        stream.set_nodelay(true)?;
        let (reader, writer) = stream.into_split();
        let reader = BufReader::with_capacity(16 * 1024, reader);
        Ok(Lines { reader, writer })
    }
}

async fn echo(stream: TcpStream) -> anyhow::Result<()> {
    let mut client = Lines::over(stream)?;
    let mut line = Vec::new();
    while client.next(&mut line).await? {
        client.send(&line).await?;
    }
    Ok(())
}

async fn relay(
    client: TcpStream,
    upstream: SocketAddr,
    recorder: Arc<Recorder>,
    calls: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    let mut client = Lines::over(client)?;
    let mut upstream = Lines::connect(upstream).await?;
    let mut line = Vec::new();
    while client.next(&mut line).await? {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        recorder
            .record(|| Entry::new(Moment::AboutToForward, call, &line))
            .await?;
        upstream.send(&line).await?;
        ensure!(
            upstream.next(&mut line).await?,
            "the upstream hung up during a call"
        );
        recorder
            .record(|| Entry::new(Moment::Finished, call, &line))
            .await?;
        client.send(&line).await?;
    }
    Ok(())
}

fn runtime(workers: usize) -> anyhow::Result<Runtime> {
    Ok(Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_io()
        .build()?)
}

/// Accepts connections on `runtime` and handles each in a task; a failed one shows as a call without a reply.
fn serve<F, H>(runtime: &Runtime, handle: H) -> anyhow::Result<SocketAddr>
where
    H: Fn(TcpStream) -> F + Send + 'static,
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let addr = listener.local_addr()?;
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let handled = handle(stream);
            tokio::spawn(async move {
                if let Err(error) = handled.await {
                    eprintln!("error: a connection failed: {error:#}");
                }
            });
        }
    });
    Ok(addr)
}
