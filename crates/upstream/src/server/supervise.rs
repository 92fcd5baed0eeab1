//! Keeping one server running: connecting, listing, backing off, and the events about each.

use std::{convert::Infallible, sync::atomic::Ordering, time::Duration};

use callgate_call::events::upstreams::{ProxyConnect, UpstreamDown, UpstreamOff, UpstreamUp};
use callgate_gate::Offers;
use callgate_record::RecordType;
use callgate_wire::Era;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Server, ServerStatus, adoption::Adoption, relist::FetchedList};
use crate::{
    Launch, Profile,
    change_queue::Change,
    eras::open_in_either,
    lane::{Lane, LaneError},
    lists::Lists,
};

/// Pauses before the attempts to reach a server again; the last one repeats.
const BACKOFF_SECONDS: [u64; 5] = [1, 2, 5, 30, 60];

impl Server {
    /// Keeps the server running until it is retired or `shutdown` fires; then ends its processes.
    pub(crate) async fn run(&self, shutdown: CancellationToken) {
        // The second branch never completes: `supervise` has to run on until it has ended its processes.
        tokio::select! {
            () = self.supervise(&self.retired) => {}
            () = async { shutdown.cancelled().await; self.retired.cancel(); std::future::pending().await } => {}
        }
    }

    async fn supervise(&self, shutdown: &CancellationToken) {
        let mut failures = 0;
        // A server that is listed from saved definitions leaves the list like one that went down.
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
                    self.up(&lane, fresh).await;
                    let lane = self.serve_lane(lane, shutdown).await;
                    // Before the slow close below, so that no new call is sent to an ended connection.
                    self.set_primary(None);
                    let reason = lane.last_stderr_line().map_or_else(
                        || "the server disconnected".to_owned(),
                        |words| format!("the server disconnected; last stderr line: {words}"),
                    );
                    if !shutdown.is_cancelled() {
                        self.down(&reason);
                        down_since = Some(Instant::now());
                    }
                    lane.close().await;
                }
                // Retrying cannot help: a changed configuration replaces this server by another one.
                Err(LaneError::Off(reason)) => {
                    self.stopped(&reason).await;
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

    /// Starts the server for a profile and requests its lists.
    pub(super) async fn open(
        &self,
        profile: &Profile,
    ) -> Result<(Lane, Vec<FetchedList>), LaneError> {
        let profile = match (profile.era, &self.spec.launch) {
            // Some stdio servers exit when they are addressed in an era they do not speak, so the era is
            // probed first, in a process of its own.
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
                lane.listen_for_changes();
                Ok((lane, fresh))
            }
            Err(error) => {
                let last_stderr_line = lane.last_stderr_line();
                lane.close().await;
                Err(LaneError::Handshake {
                    error,
                    last_stderr_line,
                })
            }
        }
    }

    /// Serves a live connection until it ends: lists again when the server announces a change, and hands
    /// over to a host's process.
    async fn serve_lane(&self, mut lane: Lane, shutdown: &CancellationToken) -> Lane {
        let mut adoption = self.adoption.subscribe();
        loop {
            tokio::select! {
                () = lane.connection.ended().cancelled() => return lane,
                () = shutdown.cancelled() => return lane,
                announced = self.change_queue.next() => self.relist_changed(announced).await,
                profile = self.adopter(&mut adoption) => {
                    // Hosts of all capabilities share a stateless connection, so there is nothing to take over.
                    if lane.profile.era == Era::Stateless {
                        self.adoption.send_replace(Adoption::Settled);
                    } else if let Some((adopting, fresh)) = self.adopt(&profile).await {
                        // The new primary before the old one closes, so that calls always find a connection.
                        self.make_primary(&adopting, fresh).await;
                        let own = std::mem::replace(&mut lane, adopting);
                        self.adoption.send_replace(Adoption::Settled);
                        own.close().await;
                    } else {
                        // Hosts wait in `adopted` until this changes; they use lanes of their own instead.
                        self.adoption.send_replace(Adoption::Settled);
                    }
                }
            }
        }
    }

    /// Requests the changed lists again, over the connection that announced the change.
    async fn relist_changed(&self, announced: Vec<(Profile, Change)>) {
        for (profile, change) in announced {
            let Some(connection) = self.connection_of(&profile) else {
                continue;
            };
            let requested = match change {
                Change::Lists(lists) => vec![lists],
                // A new session knows no subscriptions and no log level.
                Change::Session => {
                    self.repeat(&connection, &profile).await;
                    Lists::ALL.to_vec()
                }
            };
            let offers = self.state.borrow().offers();
            match self.ask(&connection, &requested, offers).await {
                Ok(fresh) => self.apply_lists(fresh).await,
                Err(error) => self.log_complaints(&[error.to_string()]),
            }
        }
    }

    async fn up(&self, lane: &Lane, fresh: Vec<FetchedList>) {
        let (server, transport) = (&self.spec.name, self.spec.launch.transport());
        let count = |fresh: &FetchedList| match fresh {
            FetchedList::Tools(tools) => tools.list.tools.len(),
            FetchedList::Prompts(_) | FetchedList::Resources(..) => 0,
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
        self.make_primary(lane, fresh).await;
    }

    /// Makes this lane the primary.
    async fn make_primary(&self, lane: &Lane, fresh: Vec<FetchedList>) {
        let offers = Offers::of(&lane.introduction.capabilities);
        self.has_tasks.store(offers.task_calls, Ordering::Relaxed);
        self.set_primary(Some((lane.profile.clone(), lane.connection.clone())));
        self.state.send_modify(|state| {
            state.capabilities = Some(lane.introduction.capabilities.clone());
            state.instructions = lane.introduction.instructions.clone();
            state.pid = lane.pid();
        });
        self.apply_lists(fresh).await;
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
            // A server that was up stays degraded while it is listed; `unlist_when_due` makes it stopped.
            let was_up = state.status == ServerStatus::Degraded;
            state.status = if was_up {
                ServerStatus::Degraded
            } else {
                ServerStatus::Stopped
            };
            state.reason = Some(reason.to_owned());
        });
    }

    async fn stopped(&self, reason: &str) {
        self.events.emit(UpstreamOff {
            server: &self.spec.name,
            is_switched_off: self.spec.launch == Launch::SwitchedOff,
            reason,
        });
        self.state.send_modify(|state| {
            state.status = ServerStatus::Stopped;
            state.reason = Some(reason.to_owned());
        });
        (self.on_change)().await;
    }

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

    /// Removes a server from the list once it has been down for `listed_while_down`. Never returns, so that
    /// it can run beside a connect or a pause.
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
            (self.on_change)().await;
        }
        std::future::pending().await
    }
}
