//! Keeping one server running: connects, lists, pauses, and what is said about each.

use std::{convert::Infallible, time::Duration};

use callgate_call::events::upstreams::{ProxyConnect, UpstreamDown, UpstreamUp};
use callgate_record::RecordType;
use callgate_wire::Era;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Server, ServerStatus};
use crate::{
    Launch, Profile,
    definitions::Definitions,
    eras::open_in_either,
    handshake::{HandshakeError, ToolList, list_tools},
    lane::{Lane, LaneError},
};

/// Pauses before the attempts to reach a server again; the last one repeats.
const BACKOFF_SECONDS: [u64; 5] = [1, 2, 5, 30, 60];

impl Server {
    /// Keeps the server running until it is retired or `shutdown` fires; then ends its processes.
    pub(crate) async fn run(&self, profile: Profile, shutdown: CancellationToken) {
        tokio::select! {
            () = self.supervise(profile, &self.retired) => {}
            () = async { shutdown.cancelled().await; self.retired.cancel(); std::future::pending().await } => {}
        }
    }

    async fn supervise(&self, profile: Profile, shutdown: &CancellationToken) {
        let mut failures = 0;
        // What is listed from memory leaves the list like a server that went away.
        let mut down_since = self.state.borrow().listed.then(Instant::now);
        while !shutdown.is_cancelled() {
            let opened = tokio::select! {
                opened = self.open(&profile) => opened,
                never = self.unlist_when_due(down_since) => match never {},
                () = shutdown.cancelled() => break,
            };
            match opened {
                Ok((lane, list)) => {
                    failures = 0;
                    self.up(&lane, list);
                    self.attend(&lane, shutdown).await;
                    self.set_primary(None);
                    let reason = lane.last_words().map_or_else(
                        || "the server went away".to_owned(),
                        |words| format!("the server went away; it said: {words}"),
                    );
                    if !shutdown.is_cancelled() {
                        self.down(&reason);
                        down_since = Some(Instant::now());
                    }
                    lane.close().await;
                }
                Err(LaneError::Off(reason)) => {
                    self.stopped(&reason);
                    return;
                }
                Err(error) => {
                    self.unreachable(&error.to_string());
                }
            }
            self.pause(failures, down_since, shutdown).await;
            failures += 1;
        }
        self.lanes.close_all().await;
    }

    async fn open(&self, profile: &Profile) -> Result<(Lane, ToolList), LaneError> {
        let profile = match (profile.era, &self.spec.launch) {
            // A server that is asked what it does not know may end, so it is found out beforehand.
            (Era::Stateless, Launch::Stdio { .. }) => {
                let wiring = |profile: &Profile| (self.wiring)(profile);
                let found = self
                    .eras
                    .speaks_stateless(&self.spec, &self.supplies, wiring);
                let era = if found.await {
                    Era::Stateless
                } else {
                    Era::Handshake
                };
                Profile {
                    era,
                    ..profile.clone()
                }
            }
            (Era::Stateless | Era::Handshake, _) => profile.clone(),
        };
        let lane = open_in_either(&self.spec, &profile, &self.supplies, &*self.wiring).await?;
        if lane.profile.era == Era::Stateless {
            self.eras
                .note_stateless(&self.spec, &self.supplies, true)
                .await;
        }
        match self.list(&lane).await {
            Ok(list) => Ok((lane, list)),
            Err(error) => {
                let last_words = lane.last_words();
                lane.close().await;
                Err(LaneError::Handshake { error, last_words })
            }
        }
    }

    async fn list(&self, lane: &Lane) -> Result<ToolList, HandshakeError> {
        if lane.has_tools() {
            return list_tools(&lane.connection, &self.spec.name).await;
        }
        Ok(ToolList {
            tools: Vec::new(),
            extras: Vec::new(),
            complaints: Vec::new(),
        })
    }

    /// Stays with a live server: lists again when it says so, returns when it is gone.
    async fn attend(&self, lane: &Lane, shutdown: &CancellationToken) {
        let hearing = hear(lane);
        tokio::pin!(hearing);
        loop {
            tokio::select! {
                () = &mut hearing => return,
                () = lane.connection.ended().cancelled() => return,
                () = shutdown.cancelled() => return,
                () = self.tools_changed.notified() => match self.list(lane).await {
                    Ok(list) => self.relisted(list),
                    Err(error) => self.complain(&[error.to_string()]),
                },
            }
        }
    }

    fn up(&self, lane: &Lane, list: ToolList) {
        let (server, transport) = (&self.spec.name, self.spec.launch.transport());
        let tools = list.tools.len();
        self.events.emit(ProxyConnect {
            server,
            transport,
            outcome: Ok(tools),
        });
        self.events.emit(UpstreamUp {
            server,
            transport,
            tools,
        });
        self.recorder.event(
            RecordType::Server,
            "upstream.up",
            Some(self.spec.name.as_str()),
            None,
        );
        self.set_primary(Some((lane.profile.clone(), lane.connection.clone())));
        self.state.send_modify(|state| {
            state.capabilities = Some(lane.introduction.capabilities.clone());
            state.instructions = lane.introduction.instructions.clone();
            state.pid = lane.pid();
        });
        self.relisted(list);
    }

    fn relisted(&self, list: ToolList) {
        let changed = self.state.borrow().tools.as_ref() != Some(&list.tools);
        self.state.send_modify(|state| {
            state.listed = true;
            state.tools = Some(list.tools);
            state.extras = list.extras;
        });
        // Whoever waits for the first connect looks into the catalog next, so that comes first.
        (self.on_change)();
        self.state.send_modify(|state| {
            let faulty = !list.complaints.is_empty();
            state.status = if faulty {
                ServerStatus::Degraded
            } else {
                ServerStatus::Ok
            };
            state.reason = faulty.then(|| list.complaints.join("; "));
        });
        self.complain(&list.complaints);
        if changed {
            self.remember();
        }
    }

    /// Keeps what the server says for the next start.
    fn remember(&self) {
        let Some(folder) = &self.supplies.options.definitions_dir else {
            return;
        };
        let state = self.state.borrow().clone();
        let definitions = Definitions {
            capabilities: state.capabilities.unwrap_or_else(|| "{}".to_owned()),
            instructions: state.instructions,
            tools: state.tools.unwrap_or_default(),
            extras: state.extras,
        };
        definitions.save(folder, &self.spec.name, &self.spec.launch);
    }

    fn complain(&self, complaints: &[String]) {
        for complaint in complaints {
            tracing::warn!(server = %self.spec.name, complaint, "the tool list has a fault");
        }
    }

    fn down(&self, reason: &str) {
        self.events.emit(UpstreamDown {
            server: &self.spec.name,
            transport: self.spec.launch.transport(),
            reason,
        });
        self.recorder.event(
            RecordType::Server,
            "upstream.down",
            Some(self.spec.name.as_str()),
            Some(reason.to_owned()),
        );
        self.state.send_modify(|state| {
            state.status = ServerStatus::Degraded;
            state.reason = Some(reason.to_owned());
            state.pid = None;
        });
    }

    fn unreachable(&self, reason: &str) {
        self.events.emit(ProxyConnect {
            server: &self.spec.name,
            transport: self.spec.launch.transport(),
            outcome: Err(reason),
        });
        self.state.send_modify(|state| {
            let was_up = state.status == ServerStatus::Degraded;
            state.status = if was_up {
                ServerStatus::Degraded
            } else {
                ServerStatus::Stopped
            };
            state.reason = Some(reason.to_owned());
        });
    }

    fn stopped(&self, reason: &str) {
        if self.spec.launch == Launch::SwitchedOff {
            tracing::info!(server = %self.spec.name, reason, "server is off");
        } else {
            tracing::warn!(server = %self.spec.name, reason, "server is off");
        }
        self.state.send_modify(|state| {
            state.status = ServerStatus::Stopped;
            state.reason = Some(reason.to_owned());
        });
        (self.on_change)();
    }

    /// Waits before the next attempt.
    async fn pause(
        &self,
        failures: usize,
        down_since: Option<Instant>,
        shutdown: &CancellationToken,
    ) {
        let seconds = BACKOFF_SECONDS[failures.min(BACKOFF_SECONDS.len() - 1)];
        let wait = Duration::from_secs(seconds).min(self.supplies.options.reconnect_cap);
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
            never = self.unlist_when_due(down_since) => match never {},
        }
    }

    /// Takes a server that stays away out of the list, while it is waited for or being reached.
    async fn unlist_when_due(&self, down_since: Option<Instant>) -> Infallible {
        let listed = self.state.borrow().listed;
        if let Some(since) = down_since.filter(|_| listed) {
            tokio::time::sleep_until(since + self.supplies.options.listed_while_down).await;
            self.state.send_modify(|state| {
                state.listed = false;
                if state.status != ServerStatus::Starting {
                    state.status = ServerStatus::Stopped;
                }
            });
            (self.on_change)();
        }
        std::future::pending().await
    }
}

/// Hears of a server's changes; those of the handshake versions tell by themselves.
async fn hear(lane: &Lane) {
    match lane.profile.era {
        Era::Handshake => std::future::pending().await,
        Era::Stateless => {
            lane.connection
                .listen(&lane.introduction.capabilities)
                .await;
            lane.connection.ended().cancelled().await;
        }
    }
}
