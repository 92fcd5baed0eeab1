//! A socket that spins for the answer to what it wrote.
//!
//! The runtime only learns of new data after one of its threads has slept and was woken. So a spin reads from the socket
//! directly and bypasses the runtime.

use std::{
    io::{self, IoSlice},
    mem::MaybeUninit,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use hyper_util::client::legacy::connect::{Connected, Connection};
use rustix::{
    io::Errno,
    net::{RecvFlags, recv},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

use crate::{SoleActivity, Spin};

/// The length of a spin: twice what a fast server's answer or a fast host's next request takes.
const SPIN_FOR: Duration = Duration::from_micros(100);
/// The limit of spins in a row. Then the thread sleeps, so that the runtime can serve other sockets.
const MAX_IN_A_ROW: u32 = 8;
/// The limit of one direct read.
const READ_BYTES: usize = 16 * 1024;

/// A socket that spins before its reader sleeps.
#[derive(Debug)]
pub struct SpinningSocket {
    socket: TcpStream,
    streak: Arc<SoleActivity>,
    place: u64,
    spin: Spin,
    in_a_row: u32,
    /// Whether something was written since the last read, so that an answer is expected.
    expects_answer: bool,
}

impl SpinningSocket {
    /// A socket that spins while it is the only active one of `streak`.
    pub fn new(socket: TcpStream, streak: Arc<SoleActivity>) -> Self {
        Self {
            socket,
            place: streak.place(),
            streak,
            spin: Spin::new(SPIN_FOR),
            in_a_row: 0,
            expects_answer: false,
        }
    }

    /// Spins for data; `None` when none came in time or the socket has spun too often in a row.
    fn spin(&mut self, buffer: &mut ReadBuf<'_>) -> Option<io::Result<()>> {
        self.in_a_row += 1;
        if self.in_a_row > MAX_IN_A_ROW {
            self.in_a_row = 0;
            return None;
        }
        let socket = &self.socket;
        self.spin.until(|| {
            let mut room = [MaybeUninit::uninit(); READ_BYTES];
            let room = &mut room[..buffer.remaining().min(READ_BYTES)];
            // Not through tokio: its readiness is stale until the runtime has polled the operating system. Taking data
            // past it is harmless, since the next tokio read gets `WouldBlock` and waits again.
            match recv(socket, room, RecvFlags::DONTWAIT) {
                Ok(((read, _), _)) => {
                    buffer.put_slice(read);
                    Some(Ok(()))
                }
                Err(Errno::AGAIN | Errno::INTR) => None,
                Err(error) => Some(Err(error.into())),
            }
        })
    }

    /// Tracks a write. While it is incomplete, no answer is expected.
    fn wrote(&mut self, written: &Poll<io::Result<usize>>) {
        if !self.expects_answer && written.is_ready() {
            self.streak.turn(self.place);
        }
        self.expects_answer = written.is_ready();
    }
}

impl AsyncRead for SpinningSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let expects_answer = std::mem::take(&mut this.expects_answer);
        if expects_answer
            && buffer.remaining() > 0
            && this.streak.is_of(this.place)
            && let Some(read) = this.spin(buffer)
        {
            return Poll::Ready(read);
        }
        Pin::new(&mut this.socket).poll_read(context, buffer)
    }
}

impl AsyncWrite for SpinningSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.wrote(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(context, pieces);
        self.wrote(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}

impl Connection for SpinningSocket {
    fn connected(&self) -> Connected {
        self.socket.connected()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use tokio::net::TcpListener;

    use super::*;

    /// A socket with something to read, in a streak of its own.
    async fn with_bytes() -> (std::net::TcpStream, SpinningSocket) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.write_all(&[7; 100]).unwrap();
        let (far, _) = listener.accept().await.unwrap();
        let mut far = SpinningSocket::new(far, Arc::default());
        far.spin.pays = true;
        (near, far)
    }

    fn looked(socket: &mut SpinningSocket) -> bool {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        let read = socket.spin(&mut buffer);
        assert_eq!(buffer.filled(), if read.is_some() { &[7][..] } else { &[] });
        read.is_some()
    }

    #[tokio::test]
    async fn spinning_yields_regularly() {
        let (_near, mut socket) = with_bytes().await;
        let looked: Vec<bool> = (0..18).map(|_| looked(&mut socket)).collect();
        let row = [true, true, true, true, true, true, true, true, false];
        assert_eq!(looked, [row, row].concat());
    }

    /// Whether a read looked, rather than asked the runtime at once.
    fn read_looked(socket: &mut SpinningSocket) -> bool {
        socket.in_a_row = 0;
        let mut byte = [0];
        let mut context = Context::from_waker(std::task::Waker::noop());
        let _ = Pin::new(&mut *socket).poll_read(&mut context, &mut ReadBuf::new(&mut byte));
        socket.in_a_row > 0
    }

    #[tokio::test]
    async fn only_the_sole_active_writer_spins() {
        let (_near, mut socket) = with_bytes().await;
        let streak = socket.streak.clone();
        let written = Poll::Ready(Ok(1));
        socket.wrote(&written);
        assert!(!read_looked(&mut socket), "one turn is not a streak");
        for _ in 0..20 {
            socket.wrote(&written);
            socket.expects_answer = false;
        }
        assert!(!read_looked(&mut socket), "it expects nothing");
        socket.wrote(&written);
        assert!(read_looked(&mut socket));
        assert!(!read_looked(&mut socket), "it has its answer");
        socket.wrote(&written);
        socket.wrote(&Poll::Pending);
        assert!(!read_looked(&mut socket), "not all is written");
        socket.wrote(&written);
        streak.turn(streak.place());
        assert!(!read_looked(&mut socket), "another one is at work");
    }
}
