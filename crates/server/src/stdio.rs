//! The stdio door: one host on standard input and output. Nothing but frames is written.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use callgate_call::Caller;
use callgate_gate::{Door, Role, Source, Transport, View};
use callgate_wire::{
    Cut, Frame, FrameError, FrameKind, LineCutter, Pieces, RpcError, Strictness, message, methods,
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

/// How much is written at once.
const CHUNK: usize = 64 * 1024;
/// How long a notification of the host may wait to be passed on to servers.
const FRESH: Duration = Duration::from_secs(1);
/// After the host closed its side or we were told to stop, how long last calls may still be
/// answered.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// The stdio door.
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
    /// The gateway was told to stop.
    Stopped,
    /// Nobody reads our answers.
    Broken,
}

/// What a door's tasks share.
#[derive(Debug, Clone)]
struct ApprovalService {
    gateway: Gateway,
    session: Arc<Session>,
    messages: Sender,
    outlet: Arc<dyn Caller>,
    tasks: TaskTracker,
    /// The host's last notification, while it is being passed on.
    telling: Arc<Mutex<Option<JoinHandle<()>>>>,
    /// Where the host is an agent in one of our own steps.
    step: Option<StepDoor>,
    /// Fires when the host has said goodbye.
    goodbye: CancellationToken,
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

    /// The same for an agent in one of our own steps.
    #[must_use]
    pub fn for_step(mut self, step: StepDoor) -> Self {
        self.step = Some(step);
        self
    }

    /// Serves the host until it goes away or `stop` fires.
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
        let approval_service = ApprovalService {
            gateway,
            session,
            messages,
            outlet,
            tasks: TaskTracker::new(),
            telling: Arc::default(),
            step: self.step,
            goodbye: CancellationToken::new(),
        };
        let announcing = tokio::spawn(announce(approval_service.clone()));
        let end = tokio::select! {
            () = approval_service.read(reader, LineCutter::new(self.frame_bytes)) => StdioEnd::Eof,
            () = approval_service.goodbye.cancelled() => StdioEnd::Eof,
            () = stop.cancelled() => StdioEnd::Stopped,
            () = broken.cancelled() => StdioEnd::Broken,
        };
        approval_service.tasks.close();
        match end {
            StdioEnd::Eof | StdioEnd::Stopped => {
                let _ = tokio::time::timeout(LAST_ANSWERS, approval_service.tasks.wait()).await;
            }
            StdioEnd::Broken => {}
        }
        approval_service.session.end();
        announcing.abort();
        let _ = announcing.await;
        let tasks = approval_service.tasks.clone();
        drop(approval_service);
        tasks.wait().await;
        let _ = tokio::time::timeout(LAST_ANSWERS, writing).await;
        end
    }
}

impl ApprovalService {
    async fn read<R: AsyncRead + Unpin>(&self, mut reader: R, mut cutter: LineCutter) {
        loop {
            while let Some(cut) = cutter.cut() {
                match cut {
                    Cut::Line(line) => self.line(line).await,
                    Cut::TooLong { .. } => {
                        let text = "the frame is over the limit (`limits.frame_mib`)";
                        self.refuse(&RpcError::new(RpcError::INVALID_REQUEST, text))
                            .await;
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
        let line = self.counted(line).await;
        match Frame::parse(line.clone(), Strictness::Full) {
            Ok(frame) => self.frame(frame),
            Err(FrameError::Batch) => self.batch(line).await,
            Err(error) => self.refuse(&error.to_rpc()).await,
        }
    }

    /// Waits for room, and so reads nothing more: what the host sends next stays with the host.
    ///
    /// Only while the host is asked something it is read in any case, because its answer may be
    /// what makes room.
    async fn counted(&self, line: Bytes) -> Bytes {
        let budget = &self.gateway.inflight;
        tokio::select! {
            biased;
            room = budget.take(line.len()) => room.hold(line),
            () = self.session.asks.any() => budget.hold(line),
        }
    }

    fn frame(&self, frame: Frame) {
        match frame.kind() {
            FrameKind::Request if self.says_goodbye(&frame) => self.let_go(&frame),
            FrameKind::Request => {
                let list = frame.method() == Some(methods::TOOLS_LIST);
                let step = self.step.clone().filter(|_| list);
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
            FrameKind::Notification => self.tell(self.session.notified(frame)),
            FrameKind::Result | FrameKind::Error => self.session.asks.resolve(frame),
        }
    }

    fn says_goodbye(&self, request: &Frame) -> bool {
        self.step.is_some() && request.method() == Some(SHUTDOWN)
    }

    fn let_go(&self, request: &Frame) {
        let answer = request.id().map(|id| message::result(id, "{}"));
        let (messages, goodbye) = (self.messages.clone(), self.goodbye.clone());
        self.tasks.spawn(async move {
            if let Some(answer) = answer {
                let _ = messages.send(answer).await;
            }
            goodbye.cancel();
        });
    }

    /// Passes a notification on when the one before it has been: a server sees them in the order
    /// they came, and the door does not wait for a server. Best effort, while it is fresh.
    fn tell(&self, telling: BoxFuture<'static, ()>) {
        let mut last = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.take();
        let in_turn = async move {
            if let Some(before) = before {
                let _ = before.await;
            }
            telling.await;
        };
        *last = Some(self.tasks.spawn(async move {
            if tokio::time::timeout(FRESH, in_turn).await.is_err() {
                crate::log::notification_to_server_dropped();
            }
        }));
    }

    /// Takes a request. A host that has just introduced itself can be asked from now on.
    fn answer(&self, request: Frame) -> Answering {
        let introduced = self.session.host().is_some();
        let step = self.step.as_ref();
        let context = RequestContext {
            view: match step {
                // An agent was told of its tools, and of no way to search for them.
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

    /// A batch is answered by a batch, once all of its requests are.
    async fn batch(&self, line: Bytes) {
        let messages = match batch::take_apart(&self.session, line) {
            Ok(messages) => messages,
            Err(error) => return self.refuse(&error.to_rpc()).await,
        };
        let approval_service = self.clone();
        self.tasks.spawn(async move {
            if let Some(answers) = messages
                .answered_by(|frame| approval_service.batched(frame))
                .await
            {
                let _ = approval_service.messages.send(answers).await;
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

    async fn refuse(&self, error: &RpcError) {
        self.gateway.frame_error(Transport::Stdio, &error.message);
        let _ = self.messages.send(message::error(None, error)).await;
    }
}

/// Passes announcements on to a host that introduced itself.
async fn announce(approval_service: ApprovalService) {
    let mut announcements = approval_service.gateway.path.providers().subscribe();
    loop {
        match announcements.recv().await {
            Ok(announced) => {
                let host = approval_service.session.host();
                let wanted = host.is_some_and(|host| announced.is_for(host));
                if wanted
                    && approval_service
                        .messages
                        .send(announced.frame)
                        .await
                        .is_err()
                {
                    return;
                }
            }
            Err(broadcast::error::RecvError::Lagged(missed)) => {
                crate::log::announcements_dropped(missed);
            }
            Err(broadcast::error::RecvError::Closed) => return,
        }
    }
}

/// Writes whole frames, one a line; several that wait are written at once.
async fn write_frames<W: AsyncWrite + Unpin>(
    mut writer: W,
    mut queue: Receiver,
    broken: CancellationToken,
) {
    let mut buffer = BytesMut::new();
    while let Some(frame) = queue.recv().await {
        // Nothing is a sign of life, which this transport has no need of.
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

/// Raw line breaks in a frame stand between tokens, where a space means the same.
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
