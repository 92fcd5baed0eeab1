//! Streams whose bytes are counted, and the end of connections on which no byte moves.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, sleep_until},
};

/// When a byte last moved on one client's connection.
#[derive(Debug, Clone)]
pub(crate) struct Activity {
    start: Instant,
    last_ms: Arc<AtomicU64>,
}

impl Activity {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            last_ms: Arc::default(),
        }
    }

    /// Waits until no byte has moved for `limit`.
    pub(crate) async fn idle(&self, limit: Duration) {
        loop {
            let until = self.last() + limit;
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }

    /// Whether no byte has moved for `limit`.
    pub(crate) fn is_idle(&self, limit: Duration) -> bool {
        self.last() + limit <= Instant::now()
    }

    fn last(&self) -> Instant {
        self.start + Duration::from_millis(self.last_ms.load(Ordering::Relaxed))
    }

    fn note(&self) {
        let passed = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.store(passed, Ordering::Relaxed);
    }
}

/// The bytes of one stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByteCounts {
    read: Arc<AtomicU64>,
    written: Arc<AtomicU64>,
}

impl ByteCounts {
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }
}

/// A stream that counts.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    activity: Activity,
    bytes: ByteCounts,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S, activity: Activity) -> Self {
        Self {
            stream,
            activity,
            bytes: ByteCounts::default(),
        }
    }

    pub(crate) fn bytes(&self) -> ByteCounts {
        self.bytes.clone()
    }

    fn note_write(&self, written: &Poll<io::Result<usize>>) {
        if let Poll::Ready(Ok(count)) = written
            && *count > 0
        {
            self.bytes
                .written
                .fetch_add(*count as u64, Ordering::Relaxed);
            self.activity.note();
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        let count = buffer.filled().len() - before;
        if count > 0 {
            self.bytes.read.fetch_add(count as u64, Ordering::Relaxed);
            self.activity.note();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_write(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.note_write(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
