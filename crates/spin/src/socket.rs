//! A socket that looks for an answer to what it wrote.
//!
//! The runtime learns that there is something to read when a thread of it has gone to sleep and was woken. So
//! a look reads from the socket itself, past the runtime.

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

/// How long a look is: a fast server's answer, and a fast host's next request, take half of it.
const MOMENT: Duration = Duration::from_micros(100);
/// After so many looks the thread sleeps, and sees what else there is.
const IN_A_ROW: u32 = 8;
/// What one look can read.
const ROOM: usize = 16 * 1024;

/// A socket that looks a moment before its reader sleeps.
#[derive(Debug)]
pub struct SpinningSocket {
    socket: TcpStream,
    streak: Arc<SoleActivity>,
    place: u64,
    look: Spin,
    in_a_row: u32,
    /// Whether something was written since the last read, so that an answer may come.
    awaits: bool,
}

impl SpinningSocket {
    /// A socket that looks while it is the only one of `streak` at work.
    pub fn new(socket: TcpStream, streak: Arc<SoleActivity>) -> Self {
        Self {
            socket,
            place: streak.place(),
            streak,
            look: Spin::new(MOMENT),
            in_a_row: 0,
            awaits: false,
        }
    }

    /// Reads what comes within a moment.
    fn look(&mut self, buffer: &mut ReadBuf<'_>) -> Option<io::Result<()>> {
        self.in_a_row += 1;
        if self.in_a_row > IN_A_ROW {
            self.in_a_row = 0;
            return None;
        }
        let socket = &self.socket;
        self.look.until(|| {
            let mut room = [MaybeUninit::uninit(); ROOM];
            let room = &mut room[..buffer.remaining().min(ROOM)];
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

    /// Notes what became of a write. While not all of it is written, no answer is awaited.
    fn wrote(&mut self, written: &Poll<io::Result<usize>>) {
        if !self.awaits && written.is_ready() {
            self.streak.turn(self.place);
        }
        self.awaits = written.is_ready();
    }
}

impl AsyncRead for SpinningSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let awaits = std::mem::take(&mut this.awaits);
        if awaits
            && buffer.remaining() > 0
            && this.streak.is_of(this.place)
            && let Some(read) = this.look(buffer)
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
        far.look.pays = true;
        (near, far)
    }

    fn looked(socket: &mut SpinningSocket) -> bool {
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        let read = socket.look(&mut buffer);
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
        assert!(!read_looked(&mut socket), "one turn is no streak");
        for _ in 0..20 {
            socket.wrote(&written);
            socket.awaits = false;
        }
        assert!(!read_looked(&mut socket), "it awaits nothing");
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
