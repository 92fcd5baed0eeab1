//! One process of a plugin, and the connection to it.

use std::{io, time::Duration};

use callgate_boxes::OpenBox;
use callgate_process::{CloseTimes, Ending, Process};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader},
    process::ChildStdout,
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Status, transport::Channel};

use super::{PluginSpec, START_TIMEOUT};
use crate::{
    PluginError,
    certificate::Identity,
    connect::connect,
    handshake::{Handshake, HandshakeError, MAX_LINE_BYTES},
    proto::{
        go::{
            Empty, StdioRequest, grpc_controller_client::GrpcControllerClient,
            grpc_stdio_client::GrpcStdioClient,
        },
        health::{
            HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
        },
        v1::{
            ExecuteRequest, ExecuteResponse, GetInfoRequest, InitRequest, ListOperationsRequest,
            OperationSchema, ShutdownRequest, operation_service_client::OperationServiceClient,
            plugin_service_client::PluginServiceClient,
        },
    },
};

/// A larger response fails the call.
const MAX_ANSWER_BYTES: usize = 16 * 1024 * 1024;
/// The time limit for each step of shutting down: the `Shutdown` calls, and draining each stream.
const STEP_TIMEOUT: Duration = Duration::from_secs(1);
/// The time from `Shutdown` to SIGTERM, and from there to SIGKILL.
const CLOSE_TIMES: CloseTimes = CloseTimes {
    after_eof: Duration::from_millis(500),
    after_term: Duration::from_secs(2),
};
/// How much of a plugin's stderr is kept for error messages.
const STDERR_BYTES: usize = 4 * 1024;
/// The prefix of the private folders.
const PREFIX: &str = "callgate-plugin-";
/// The gRPC service whose health is checked.
const SERVICE: &str = "plugin";

/// Why an operation has no response.
#[derive(Debug)]
pub(crate) enum ExecuteFailed {
    /// The plugin exited, or the connection broke. The operation may have run.
    Gone(String),
    /// The response exceeds the limit.
    TooLarge,
    /// The plugin returned a gRPC error.
    Status(String),
}

/// What a process has for itself, which ends after it.
#[derive(Debug)]
struct Place {
    open_box: Option<OpenBox>,
    folder: TempDir,
}

/// One process of a plugin.
#[derive(Debug)]
pub(crate) struct PluginProcess {
    channel: Channel,
    ended: CancellationToken,
    stop: CancellationToken,
    watching: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

impl PluginProcess {
    /// Starts the process, reads its handshake, connects and calls `Init`.
    pub(crate) async fn start(spec: &PluginSpec) -> Result<Self, PluginError> {
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir()?;
        let identity = Identity::make()?;
        let open_box = spec.open_box(folder.path()).map_err(io::Error::other)?;
        let started = spec.process(identity.pem(), folder.path(), open_box.as_ref());
        let process = Process::spawn_for(&started, folder.path());
        let mut process = process.map_err(io::Error::other)?;
        // go-plugin hosts give a plugin no stdin.
        drop(process.take_stdin());
        let stderr = tokio::spawn(tail(process.take_stderr()));
        let stdout = process.take_stdout().map(BufReader::new);
        let starting = timeout(START_TIMEOUT, begin(spec, stdout, &mut process, &identity)).await;
        let failed = match starting {
            Ok(Ok((channel, stdout))) => {
                let place = Place { open_box, folder };
                return Ok(Self::watched(channel, process, (stdout, stderr), place));
            }
            Ok(Err(error)) => error,
            Err(_) => PluginError::Slow(START_TIMEOUT),
        };
        let ending = process.close(CLOSE_TIMES).await;
        if let Some(open_box) = open_box {
            open_box.close().await;
        }
        let stderr = timeout(STEP_TIMEOUT, stderr).await;
        let stderr = stderr.ok().and_then(Result::ok).unwrap_or_default();
        Err(match failed {
            PluginError::EndedEarly { .. } => PluginError::EndedEarly {
                how: describe(&ending),
                stderr,
            },
            other => other,
        })
    }

    fn watched(
        channel: Channel,
        process: Process,
        (stdout, stderr): (BufReader<ChildStdout>, JoinHandle<String>),
        place: Place,
    ) -> Self {
        let (ended, stop) = (CancellationToken::new(), CancellationToken::new());
        let watching = watch(
            process,
            (stdout, stderr),
            channel.clone(),
            (ended.clone(), stop.clone()),
            place,
        );
        Self {
            channel,
            ended,
            stop,
            watching: tokio::sync::Mutex::new(Some(tokio::spawn(watching))),
        }
    }

    /// Waits a moment for the end of a process whose connection broke, so that the next call starts another one.
    pub(crate) async fn settled(&self) {
        let _ = timeout(STEP_TIMEOUT, self.ended.cancelled()).await;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    pub(crate) async fn operations(&self) -> Result<Vec<OperationSchema>, PluginError> {
        let mut client = OperationServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_ANSWER_BYTES);
        let asking = client.list_operations(ListOperationsRequest {});
        let listed = timeout(START_TIMEOUT, asking).await;
        let listed = listed.map_err(|_| PluginError::Slow(START_TIMEOUT))?;
        let listed = listed.map_err(|status| refused("ListOperations", &status))?;
        Ok(listed.into_inner().operations)
    }

    pub(crate) async fn execute(
        &self,
        request: Request<ExecuteRequest>,
    ) -> Result<ExecuteResponse, ExecuteFailed> {
        let mut client = OperationServiceClient::new(self.channel.clone())
            .max_decoding_message_size(MAX_ANSWER_BYTES);
        let answer = tokio::select! {
            answer = client.execute(request) => answer,
            () = self.ended.cancelled() => {
                return Err(ExecuteFailed::Gone("the plugin exited during the call".to_owned()));
            }
        };
        answer
            .map(tonic::Response::into_inner)
            .map_err(|status| match status.code() {
                Code::OutOfRange => ExecuteFailed::TooLarge,
                Code::Unavailable | Code::Cancelled => ExecuteFailed::Gone(status_text(&status)),
                // With a source it is a broken connection, not the plugin's own status.
                Code::Unknown | Code::Internal if std::error::Error::source(&status).is_some() => {
                    ExecuteFailed::Gone(status_text(&status))
                }
                _ => ExecuteFailed::Status(status_text(&status)),
            })
    }

    /// Asks the plugin to shut down, then ends its process.
    pub(crate) async fn stop(&self) {
        if !self.has_ended() {
            let mut own = PluginServiceClient::new(self.channel.clone());
            let mut controller = GrpcControllerClient::new(self.channel.clone());
            // Errors do not matter: a plugin that is dead or does not answer is killed below.
            let _ = timeout(STEP_TIMEOUT, async {
                let _ = own.shutdown(ShutdownRequest {}).await;
                let _ = controller.shutdown(Empty {}).await;
            })
            .await;
        }
        self.stop.cancel();
        if let Some(watching) = self.watching.lock().await.take()
            && watching.await.is_err()
        {
            crate::log::watching_failed();
        }
    }
}

/// From the handshake line to a finished `Init`.
async fn begin(
    spec: &PluginSpec,
    stdout: Option<BufReader<ChildStdout>>,
    process: &mut Process,
    identity: &Identity,
) -> Result<(Channel, BufReader<ChildStdout>), PluginError> {
    let ended = || PluginError::EndedEarly {
        how: String::new(),
        stderr: String::new(),
    };
    let mut stdout = stdout.ok_or_else(ended)?;
    let line = tokio::select! {
        line = first_line(&mut stdout) => line?,
        _ = process.wait() => None,
    };
    let handshake = Handshake::read(&line.ok_or_else(ended)?)?;
    let channel = connect(&handshake, identity).await?;
    check_health(&channel).await?;
    let mut client = PluginServiceClient::new(channel.clone());
    let info = client.get_info(GetInfoRequest {}).await;
    let info = info
        .map_err(|status| refused("GetInfo", &status))?
        .into_inner();
    crate::log::started(&spec.name, &info.version);
    let config = spec.config.iter();
    let config = config.map(|(key, value)| (key.clone(), value.to_string().into_bytes()));
    let request = InitRequest {
        config: config.collect(),
    };
    let begun = client.init(request).await;
    begun.map_err(|status| refused("Init", &status))?;
    Ok((channel, stdout))
}

/// The first line; `None` if the program exited without one.
async fn first_line(stdout: &mut BufReader<ChildStdout>) -> Result<Option<String>, PluginError> {
    let mut line = Vec::new();
    let mut limited = stdout.take(MAX_LINE_BYTES);
    limited.read_until(b'\n', &mut line).await?;
    let text = String::from_utf8_lossy(&line);
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(text.into_owned())),
        Some(_) => Err(HandshakeError::Line(text.chars().take(80).collect()).into()),
    }
}

/// A plugin without the health service counts as healthy; any status other than `SERVING` fails the start.
async fn check_health(channel: &Channel) -> Result<(), PluginError> {
    let request = HealthCheckRequest {
        service: SERVICE.to_owned(),
    };
    let checked = HealthClient::new(channel.clone()).check(request).await;
    match checked {
        Ok(answer) if answer.get_ref().status() == ServingStatus::Serving => Ok(()),
        Ok(_) => Err(PluginError::NotServing),
        Err(status) if status.code() == Code::Unimplemented => Ok(()),
        Err(status) => Err(PluginError::Unreachable(status_text(&status))),
    }
}

/// Drains the streams of a process until it exits or is stopped, so that a full pipe never blocks it.
async fn watch(
    mut process: Process,
    (stdout, stderr): (BufReader<ChildStdout>, JoinHandle<String>),
    channel: Channel,
    (ended, stop): (CancellationToken, CancellationToken),
    place: Place,
) {
    let draining = tokio::spawn(drain(stdout));
    // go-plugin sends what a plugin prints over gRPC, too; without a reader the plugin would block.
    let listening = tokio::spawn(listen(channel));
    let stopped = tokio::select! {
        _ = process.wait() => false,
        () = stop.cancelled() => true,
    };
    ended.cancel();
    if stopped {
        process.close(CLOSE_TIMES).await;
    }
    listening.abort();
    let _ = timeout(STEP_TIMEOUT, draining).await;
    let _ = timeout(STEP_TIMEOUT, stderr).await;
    if let Some(open_box) = place.open_box {
        open_box.close().await;
    }
    if let Err(error) = place.folder.close() {
        crate::log::folder_not_removed(&error);
    }
}

async fn drain(mut stream: BufReader<ChildStdout>) {
    let mut piece = vec![0; STDERR_BYTES];
    while let Ok(1..) = stream.read(&mut piece).await {}
}

async fn listen(channel: Channel) {
    let mut client = GrpcStdioClient::new(channel);
    let Ok(stream) = client.stream_stdio(StdioRequest {}).await else {
        return;
    };
    let mut stream = stream.into_inner();
    while let Ok(Some(piece)) = stream.message().await {
        let text = String::from_utf8_lossy(&piece.data);
        crate::log::output(text.trim_end());
    }
}

/// The tail of a plugin's stderr.
async fn tail<R: AsyncRead + Unpin>(stream: Option<R>) -> String {
    let Some(mut stream) = stream else {
        return String::new();
    };
    let mut kept = Vec::new();
    let mut piece = vec![0; STDERR_BYTES];
    while let Ok(length @ 1..) = stream.read(&mut piece).await {
        kept.extend_from_slice(&piece[..length]);
        let over = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..over);
    }
    callgate_process::stderr_tail::sanitise(&String::from_utf8_lossy(&kept))
}

fn describe(ending: &Ending) -> String {
    match ending {
        Ending::NotStarted { message } => message.clone(),
        Ending::Exited { code } => format!("exit code {code}"),
        Ending::WardenKilled { signal } => format!("signal {signal}"),
        Ending::Unknown => "cause unknown".to_owned(),
    }
}

fn refused(what: &'static str, status: &Status) -> PluginError {
    PluginError::Refused {
        what,
        reason: status_text(status),
    }
}

/// A status as text. The message is the plugin's, so it is untrusted.
fn status_text(status: &Status) -> String {
    match status.message() {
        "" => status.code().to_string(),
        text => text.to_owned(),
    }
}
