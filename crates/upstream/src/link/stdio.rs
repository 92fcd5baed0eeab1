//! Newline-delimited messages over a child's standard streams.

use bytes::BytesMut;
use callgate_wire::{Cut, LineCutter, Pieces};
use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::mpsc,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Link, LinkEnded, Parcel, Sent, Ticket};
use crate::{inbound::Inbound, outgoing::Message};

/// Queued messages; beyond this, senders wait.
const QUEUE: usize = 64;
/// The size up to which queued lines are combined into one write, in bytes.
const CHUNK: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct StdioLink {
    queue: mpsc::Sender<Queued>,
    closing: CancellationToken,
}

#[derive(Debug)]
struct Queued {
    message: Pieces,
    /// Lets the caller of a request withdraw it; `None` for messages that are always written.
    ticket: Option<Ticket>,
}

impl Queued {
    /// The message, unless it was withdrawn. From here on it counts as sent.
    fn taken(self) -> Option<Pieces> {
        let is_wanted = self.ticket.is_none_or(|ticket| ticket.take());
        is_wanted.then_some(self.message)
    }
}

impl StdioLink {
    pub(crate) fn start<W>(writer: W, tasks: &TaskTracker) -> Self
    where
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let (queue, messages) = mpsc::channel(QUEUE);
        let closing = CancellationToken::new();
        tasks.spawn(write_lines(writer, messages, closing.clone()));
        Self { queue, closing }
    }
}

impl Link for StdioLink {
    fn send(&self, parcel: Parcel) -> BoxFuture<'_, Result<Sent, LinkEnded>> {
        Box::pin(async move {
            let ticket = parcel.awaits.map(|_| Ticket::default());
            let queued = Queued {
                message: parcel.message.into_pieces(),
                ticket: ticket.clone(),
            };
            let sent = self.queue.send(queued).await;
            sent.map(|()| ticket.map_or(Sent::OnItsWay, Sent::Queued))
                .map_err(|_| LinkEnded)
        })
    }

    fn give_up(&self, _id: u64, cancelled: Message) {
        // Dropped if the queue is full: a server that does not read its input would block the caller.
        let _ = self.queue.try_send(Queued {
            message: cancelled.into_pieces(),
            ticket: None,
        });
    }

    fn close(&self) {
        self.closing.cancel();
    }
}

/// Reads until the stream ends.
pub(crate) async fn read_lines<R>(mut stream: R, mut cutter: LineCutter, inbound: Inbound)
where
    R: AsyncRead + Unpin,
{
    loop {
        while let Some(cut) = cutter.cut() {
            match cut {
                Cut::Line(line) => inbound.message(line, None).await,
                Cut::TooLong(ends) => inbound.too_long(&ends.rejected()).await,
            }
        }
        match stream.read_buf(cutter.buffer()).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

/// Writes whole lines; queued ones are combined into one write.
async fn write_lines<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut messages: mpsc::Receiver<Queued>,
    closing: CancellationToken,
) {
    let mut buffer = BytesMut::new();
    loop {
        // Queued messages first, then the close: the cancellation of a call is often the last message.
        let message = tokio::select! {
            biased;
            message = messages.recv() => message,
            () = closing.cancelled() => return,
        };
        let Some(queued) = message else { return };
        queued
            .taken()
            .into_iter()
            .for_each(|message| push_line(&mut buffer, message));
        while buffer.len() < CHUNK
            && let Ok(queued) = messages.try_recv()
        {
            queued
                .taken()
                .into_iter()
                .for_each(|message| push_line(&mut buffer, message));
        }
        if buffer.is_empty() {
            continue;
        }
        let written = async {
            writer.write_all(&buffer).await?;
            writer.flush().await
        };
        // A server that does not read would block the write, so closing interrupts it.
        tokio::select! {
            biased;
            written = written => if written.is_err() { return },
            () = closing.cancelled() => return,
        }
        buffer.clear();
    }
}

fn push_line(buffer: &mut BytesMut, message: Pieces) {
    buffer.reserve(message.len() + 1);
    for piece in message {
        let start = buffer.len();
        buffer.extend_from_slice(&piece);
        // Raw line breaks in valid JSON stand only between tokens, where a space is equivalent. In a line they
        // would end the message early.
        for at in memchr::memchr2_iter(b'\n', b'\r', &piece) {
            buffer[start + at] = b' ';
        }
    }
    buffer.extend_from_slice(b"\n");
}
