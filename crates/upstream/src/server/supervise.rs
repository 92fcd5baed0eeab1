//! Keeping one server running: connects, lists, pauses, and what is said about each.

use std::{convert::Infallible, sync::atomic::Ordering, time::Duration};

use callgate_call::events::upstreams::{ProxyConnect, UpstreamDown, UpstreamOff, UpstreamUp};
use callgate_gate::Offers;
use callgate_record::RecordType;
use callgate_wire::Era;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Server, ServerStatus, adoption::Adoption, relist::Fresh};
use crate::{
    Launch, Profile,
    eras::open_in_either,
    lane::{Lane, LaneError},
    lists::Lists,
    news::Change,
};

/// Pauses before the attempts to reach a server again; the last one repeats.
const BACKOFF_SECONDS: [u64; 5] = [1, 2, 5, 30, 60];

impl Server {
    /// Keeps the server running until it is retired or `shutdown` fires; then ends its processes.
    pub(crate) async fn run(&self, shutdown: CancellationToken) {
        tokio::select! {
            () = self.supervise(&self.retired) => {}
            () = async { shutdown.cancelled().await; self.retired.cancel(); std::future::pending().await } => {}
        }
    }

    async fn supervise(&self, shutdown: &CancellationToken) {
        let mut failures = 0;
        // What is listed from memory leaves the list like a server that went away.
        let mut down_since = self.state.borrow().listed.then(Instant::now);
        while !shutdown.is_cancelled() {
            let profile = self.profile();
            let opened = tokio::select! {
                opened = self.open(&profile) => opened,
                never = self.unlist_when_due(down_since) => match never {},
                () = shutdown.cancelled() => break,
            };
            match opened {
                Ok((lane, fresh)) => {
                    failures = 0;
                    self.up(&lane, fresh);
                    let lane = self.attend(lane, shutdown).await;
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

    /// Starts the server in someone's name, and asks for its lists.
    pub(super) async fn open(&self, profile: &Profile) -> Result<(Lane, Vec<Fresh>), LaneError> {
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
        self.repeat(&lane.connection, &lane.profile).await;
        let offers = Offers::of(&lane.introduction.capabilities);
        match self.ask(&lane.connection, &Lists::ALL, offers).await {
            Ok(fresh) => {
                lane.hear();
                Ok((lane, fresh))
            }
            Err(error) => {
                let last_words = lane.last_words();
                lane.close().await;
                Err(LaneError::Handshake { error, last_words })
            }
        }
    }

    /// Stays with a live server: lists again when it says so, gives way to a host's process, returns
    /// when it is gone.
    async fn attend(&self, mut lane: Lane, shutdown: &CancellationToken) -> Lane {
        let mut adoption = self.adoption.subscribe();
        loop {
            tokio::select! {
                () = lane.connection.ended().cancelled() => return lane,
                () = shutdown.cancelled() => return lane,
                said = self.news.next() => self.look_again(said).await,
                profile = self.adopter(&mut adoption) => {
                    // A stateless connection is every host's already.
                    if lane.profile.era == Era::Stateless {
                        self.adoption.send_replace(Adoption::Settled);
                    } else if let Some((adopting, fresh)) = self.adopt(&profile).await {
                        self.settle(&adopting, fresh);
                        let own = std::mem::replace(&mut lane, adopting);
                        self.adoption.send_replace(Adoption::Settled);
                        own.close().await;
                    } else {
                        self.adoption.send_replace(Adoption::Settled);
                    }
                }
            }
        }
    }

    /// Asks again for what was said to have changed, over the connection that it was said over.
    async fn look_again(&self, said: Vec<(Profile, Change)>) {
        for (profile, change) in said {
            let Some(connection) = self.connection_of(&profile) else {
                continue;
            };
            let wanted = match change {
                Change::Lists(lists) => vec![lists],
                Change::Session => {
                    self.repeat(&connection, &profile).await;
                    Lists::ALL.to_vec()
                }
            };
            let offers = self.state.borrow().offers();
            match self.ask(&connection, &wanted, offers).await {
                Ok(fresh) => self.relisted(fresh),
                Err(error) => self.complain(&[error.to_string()]),
            }
        }
    }

    fn up(&self, lane: &Lane, fresh: Vec<Fresh>) {
        let (server, transport) = (&self.spec.name, self.spec.launch.transport());
        let count = |fresh: &Fresh| match fresh {
            Fresh::Tools(tools) => tools.list.tools.len(),
            Fresh::Prompts(_) | Fresh::Resources(..) => 0,
        };
        let tools = fresh.iter().map(count).sum();
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
        self.settle(lane, fresh);
    }

    /// Makes a process the primary.
    fn settle(&self, lane: &Lane, fresh: Vec<Fresh>) {
        let offers = Offers::of(&lane.introduction.capabilities);
        self.has_tasks.store(offers.task_calls, Ordering::Relaxed);
        self.set_primary(Some((lane.profile.clone(), lane.connection.clone())));
        self.state.send_modify(|state| {
            state.capabilities = Some(lane.introduction.capabilities.clone());
            state.instructions = lane.introduction.instructions.clone();
            state.pid = lane.pid();
        });
        self.relisted(fresh);
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
        self.events.emit(UpstreamOff {
            server: &self.spec.name,
            is_switched_off: self.spec.launch == Launch::SwitchedOff,
            reason,
        });
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
