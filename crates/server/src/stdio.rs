//! The stdio door: one host on standard input and output. It writes only frames.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use callgate_call::Caller;
use callgate_gate::{Door, Role, Source, Transport, View};
use callgate_wire::{
    Cut, Frame, FrameError, FrameKind, LineCutter, Pieces, Rejected, RpcError, Strictness, message,
    methods,
};
use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::broadcast,
    task::JoinHandle,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Gateway, Principal, StepDoor,
    answering::Answering,
    batch,
    outlet::Outlet,
    queue::{Receiver, Sender, queue},
    session::{RequestContext, Session},
    step::SHUTDOWN,
};

/// Frames are combined into one write up to this size.
const CHUNK: usize = 64 * 1024;
/// How long a host's notification may wait to be forwarded; then it is dropped.
const FRESH: Duration = Duration::from_secs(1);
/// How long pending calls may still be answered after the host closed its side or the gateway stops.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct StdioDoor {
    gateway: Gateway,
    frame_bytes: usize,
    principal: String,
    session_id: String,
    step: Option<StepDoor>,
}

/// Why the door closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StdioEnd {
    /// The host closed standard input.
    Eof,
    /// The gateway is shutting down.
    Stopped,
    /// Writing to the host failed.
    Broken,
}

/// One host's connection, as the door's tasks share it.
#[derive(Debug, Clone)]
struct HostConnection {
    gateway: Gateway,
    session: Arc<Session>,
    messages: Sender,
    outlet: Arc<dyn Caller>,
    tasks: TaskTracker,
    /// The task that forwards the host's previous notification.
    forwarding: Arc<Mutex<Option<JoinHandle<()>>>>,
    /// Set when the host is an agent in one of the gateway's own steps.
    step: Option<StepDoor>,
    /// Fires when the agent has sent `shutdown`.
    shutdown: CancellationToken,
}

impl StdioDoor {
    /// A door for the local user.
    pub fn new(gateway: Gateway, frame_bytes: usize, principal: &str, session_id: String) -> Self {
        Self {
            gateway,
            frame_bytes,
            principal: principal.to_owned(),
            session_id,
            step: None,
        }
    }

    /// Serves an agent in one of the gateway's own steps.
    #[must_use]
    pub fn for_step(mut self, step: StepDoor) -> Self {
        self.step = Some(step);
        self
    }

    /// Serves the host until it disconnects or `stop` fires.
    pub async fn serve<R, W>(self, reader: R, writer: W, stop: CancellationToken) -> StdioEnd
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let door = Door {
            source: match self.step {
                Some(_) => Source::Agent,
                None => Source::Mcp,
            },
            transport: Transport::Stdio,
        };
        let principal = Arc::new(Principal::new(&self.principal, Role::Agent));
        let session = Session::new(self.gateway.clone(), door, principal, self.session_id);
        let session = Arc::new(session.closing(stop.clone()));
        let (messages, queue) = queue(self.gateway.inflight.clone());
        let broken = CancellationToken::new();
        let writing = tokio::spawn(write_frames(writer, queue, broken.clone()));
        let outlet = Arc::new(Outlet::new(messages.clone(), session.asks.clone()));
        let gateway = self.gateway;
        let connection = HostConnection {
            gateway,
            session,
            messages,
            outlet,
            tasks: TaskTracker::new(),
            forwarding: Arc::default(),
            step: self.step,
            shutdown: CancellationToken::new(),
        };
        let announcing = tokio::spawn(announce(connection.clone()));
        let end = tokio::select! {
            () = connection.read(reader, LineCutter::new(self.frame_bytes)) => StdioEnd::Eof,
            () = connection.shutdown.cancelled() => StdioEnd::Eof,
            () = stop.cancelled() => StdioEnd::Stopped,
            () = broken.cancelled() => StdioEnd::Broken,
        };
        connection.tasks.close();
        match end {
            StdioEnd::Eof | StdioEnd::Stopped => {
                let _ = tokio::time::timeout(LAST_ANSWERS, connection.tasks.wait()).await;
            }
            // No grace period: answers cannot be written any more.
            StdioEnd::Broken => {}
        }
        // Ended before the tasks are awaited: this cancels calls that outlived the grace period, and their
        // tasks finish only then.
        connection.session.end();
        announcing.abort();
        let _ = announcing.await;
        let tasks = connection.tasks.clone();
        // The writer ends when the last sender is gone. This one would keep it waiting.
        drop(connection);
        tasks.wait().await;
        let _ = tokio::time::timeout(LAST_ANSWERS, writing).await;
        end
    }
}

impl HostConnection {
    async fn read<R: AsyncRead + Unpin>(&self, mut reader: R, mut cutter: LineCutter) {
        loop {
            while let Some(cut) = cutter.cut() {
                match cut {
                    Cut::Line(line) => self.line(line).await,
                    Cut::TooLong(ends) => {
                        let text = "the frame is over the limit (`limits.frame_mib`)";
                        let error = RpcError::new(RpcError::INVALID_REQUEST, text);
                        self.refuse(&error, &ends.rejected()).await;
                    }
                }
            }
            match reader.read_buf(cutter.buffer()).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }

    async fn line(&self, line: Bytes) {
        let line = self.within_budget(line).await;
        match Frame::parse(line.clone(), Strictness::Full) {
            Ok(frame) => self.frame(frame),
            Err(FrameError::Batch) => self.batch(line).await,
            Err(error) => {
                let rejected = Rejected::of(&line);
                self.refuse(&error.to_rpc(), &rejected).await;
            }
        }
    }

    /// Waits for room in the memory budget. The door reads nothing meanwhile, so the pipe applies backpressure to the host.
    async fn within_budget(&self, line: Bytes) -> Bytes {
        let budget = &self.gateway.inflight;
        // While a question to the host is open, its line is read even above the budget: it may be the answer
        // that lets a call finish and free memory. Waiting here would deadlock.
        tokio::select! {
            biased;
            room = budget.take(line.len()) => room.hold(line),
            () = self.session.asks.any() => budget.hold(line),
        }
    }

    fn frame(&self, frame: Frame) {
        match frame.kind() {
            FrameKind::Request if self.is_shutdown(&frame) => self.shut_down(&frame),
            FrameKind::Request => {
                // A step reports whether its agent fetched the tool list, so the flag is set only after the answer is
                // queued.
                let list = frame.method() == Some(methods::TOOLS_LIST);
                let step = self.step.clone().filter(|_| list);
                // Started here and not in the task: a cancellation in the next line must find the call registered.
                let answering = self.answer(frame);
                let messages = self.messages.clone();
                self.tasks.spawn(async move {
                    if let Some(answer) = answering.await
                        && messages.send(answer.into_bytes()).await.is_ok()
                        && let Some(step) = step
                    {
                        step.list_served();
                    }
                });
            }
            FrameKind::Notification => self.forward_notification(self.session.notified(frame)),
            FrameKind::Result | FrameKind::Error => self.session.asks.resolve(frame),
        }
    }

    fn is_shutdown(&self, request: &Frame) -> bool {
        self.step.is_some() && request.method() == Some(SHUTDOWN)
    }

    fn shut_down(&self, request: &Frame) {
        let answer = request.id().map(|id| message::result(id, "{}"));
        let (messages, shutdown) = (self.messages.clone(), self.shutdown.clone());
        self.tasks.spawn(async move {
            if let Some(answer) = answer {
                let _ = messages.send(answer).await;
            }
            shutdown.cancel();
        });
    }

    /// Forwards a notification after the previous one, so that servers see them in order while the door keeps reading.
    /// Best effort: a notification that waits longer than `FRESH` is dropped.
    fn forward_notification(&self, forwarding: BoxFuture<'static, ()>) {
        let mut last = self
            .forwarding
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // A chain of tasks instead of a queue: each waits for the one before, and memory is bounded because
        // every link times out.
        let before = last.take();
        let in_turn = async move {
            if let Some(before) = before {
                let _ = before.await;
            }
            forwarding.await;
        };
        *last = Some(self.tasks.spawn(async move {
            if tokio::time::timeout(FRESH, in_turn).await.is_err() {
                crate::log::notification_to_server_dropped();
            }
        }));
    }

    /// Starts a request. After `initialize`, servers can also ask the host outside of calls.
    fn answer(&self, request: Frame) -> Answering {
        let introduced = self.session.host().is_some();
        let step = self.step.as_ref();
        if let (Some(id), Some(false)) = (request.id(), step.map(|step| step.admits(&request))) {
            let error = RpcError::new(
                RpcError::INTERNAL,
                "the budget of this step has no room for another call",
            );
            return Answering::at_once(id, Err(error.with_data(r#"{"effect":"none"}"#)));
        }
        let context = RequestContext {
            view: match step {
                // Steps always use the direct view: the agent's prompt lists its tools.
                Some(_) => View::Direct,
                None => self.gateway.views.default_view(),
            },
            caller: self.outlet.clone(),
            trace: step.and_then(|step| step.trace.clone()),
        };
        let answering = self.session.answer(request, context);
        if let (false, Some(host)) = (introduced, self.session.host()) {
            let path = &self.gateway.path;
            let resident = path.resident(host.clone(), self.session.door(), self.outlet.clone());
            path.providers().attach(host.clone(), Some(resident));
        }
        answering
    }

    /// Answers a batch with one batch, when all of its requests are answered.
    async fn batch(&self, line: Bytes) {
        let messages = match batch::parse(&self.session, line) {
            Ok(messages) => messages,
            Err(error) => {
                let rejected = Rejected::default();
                return self.refuse(&error.to_rpc(), &rejected).await;
            }
        };
        let connection = self.clone();
        self.tasks.spawn(async move {
            if let Some(answers) = messages
                .answered_by(|frame| connection.batched(frame))
                .await
            {
                let _ = connection.messages.send(answers).await;
            }
        });
    }

    async fn batched(&self, frame: Frame) -> Option<Bytes> {
        match frame.kind() {
            FrameKind::Request => self.answer(frame).await.map(Pieces::into_bytes),
            FrameKind::Notification | FrameKind::Result | FrameKind::Error => {
                self.frame(frame);
                None
            }
        }
    }

    async fn refuse(&self, error: &RpcError, rejected: &Rejected) {
        self.gateway.frame_error(Transport::Stdio, &error.message);
        let answer = message::error(rejected.answered_id(), error);
        let _ = self.messages.send(answer).await;
    }
}

/// Forwards server announcements to a host that has initialized.
async fn announce(connection: HostConnection) {
    let mut announcements = connection.gateway.path.providers().subscribe();
    loop {
        match announcements.recv().await {
            Ok(announced) => {
                let host = connection.session.host();
                let wanted = host.is_some_and(|host| announced.is_for(host));
                if wanted && connection.messages.send(announced.frame).await.is_err() {
                    return;
                }
            }
            // Announcements are hints (a list changed), so losing some is better than holding all of them for a
            // host that does not read.
            Err(broadcast::error::RecvError::Lagged(missed)) => {
                crate::log::announcements_dropped(missed);
            }
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

/// Writes one frame per line. Waiting frames are combined into one write.
async fn write_frames<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut queue: Receiver,
    broken: CancellationToken,
) {
    let mut buffer = BytesMut::new();
    while let Some(frame) = queue.recv().await {
        // An empty message is a keep-alive. A pipe needs none: its end is noticed without traffic.
        if frame.is_empty() {
            continue;
        }
        push_line(&mut buffer, &frame);
        while buffer.len() < CHUNK
            && let Some(frame) = queue.try_recv()
        {
            push_line(&mut buffer, &frame);
        }
        let written = async {
            writer.write_all(&buffer).await?;
            writer.flush().await
        };
        if written.await.is_err() {
            broken.cancel();
            return;
        }
        buffer.clear();
    }
}

/// Appends a frame as one line. Raw line breaks in JSON can only be whitespace between tokens, so a space is equivalent.
fn push_line(buffer: &mut BytesMut, frame: &[u8]) {
    let start = buffer.len();
    buffer.extend_from_slice(frame);
    for byte in buffer[start..]
        .iter_mut()
        .filter(|byte| matches!(byte, b'\n' | b'\r'))
    {
        *byte = b' ';
    }
    buffer.extend_from_slice(b"\n");
}
