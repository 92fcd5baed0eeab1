//! One configured server: kept running ([`supervise`]), listed, and called.

mod adoption;
mod following;
mod relist;
mod state;
mod supervise;

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use callgate_call::{Events, Exchange, Failure, Provider, Reply};
use callgate_gate::{Call, Host, Listing, Permit, Target};
use callgate_record::{Effect, Recorded, Recorder};
use callgate_wire::{
    Era, Json, Strictness,
    stateless::{TASKS_EXTENSION, declares_extension},
};
use futures_util::future::BoxFuture;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

pub use state::ServerStatus;
pub(crate) use state::State;

use crate::{
    Launch, Profile, ServerSpec,
    change_queue::ChangeQueue,
    connection::Connection,
    definitions::Definitions,
    eras::Eras,
    fleet::OnChange,
    lane::{Lane, SharedWiring},
    lanes::{LaneLease, LaneLeases, LaneUse, Lanes},
    levels::Levels,
    subscriptions::Subscriptions,
    supplies::Supplies,
    tasks::{TaskIdLocation, TaskMaker, TaskOwners},
};
use adoption::Adoption;

/// How often a retiring server is polled for calls in flight. A call that has looked the server up
/// but has not been counted yet starts within this time.
const RETIRE_GRACE: Duration = Duration::from_millis(50);

pub(crate) struct Server {
    pub(crate) spec: ServerSpec,
    supplies: Arc<Supplies>,
    recorder: Recorder,
    events: Events,
    wiring: SharedWiring,
    pub(crate) state: watch::Sender<State>,
    primary: Mutex<Option<(Profile, Connection)>>,
    /// Exclusive uses of the primary connection; shared ones are not counted.
    primary_leases: LaneLeases,
    lanes: Lanes,
    eras: Eras,
    /// Calls in flight, over all connections.
    calls_in_flight: AtomicUsize,
    retired: CancellationToken,
    /// The profile that the primary is started with.
    profile: Mutex<Profile>,
    adoption: watch::Sender<Adoption>,
    change_queue: Arc<ChangeQueue>,
    subscriptions: Arc<Subscriptions>,
    levels: Arc<Levels>,
    tasks: Arc<TaskOwners>,
    on_change: OnChange,
    /// Whether it is the only server, so that hosts see its own task ids.
    alone: bool,
    has_tasks: AtomicBool,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("name", &self.spec.name)
            .finish_non_exhaustive()
    }
}

/// Why a connection is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Call,
    /// A resource subscription or a task list: never needs a process of its own.
    Follow,
}

pub(crate) struct ServerParts {
    pub(crate) spec: ServerSpec,
    pub(crate) supplies: Arc<Supplies>,
    pub(crate) recorder: Recorder,
    pub(crate) events: Events,
    pub(crate) wiring: SharedWiring,
    pub(crate) profile: Profile,
    pub(crate) change_queue: Arc<ChangeQueue>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) levels: Arc<Levels>,
    pub(crate) tasks: Arc<TaskOwners>,
    pub(crate) on_change: OnChange,
    pub(crate) alone: bool,
}

impl Server {
    pub(crate) fn new(parts: ServerParts) -> Self {
        let ServerParts {
            spec,
            supplies,
            recorder,
            events,
            wiring,
            profile,
            change_queue,
            subscriptions,
            levels,
            tasks,
            on_change,
            alone,
        } = parts;
        let folder = supplies.options.definitions_dir.as_deref();
        let known = folder.and_then(|folder| Definitions::load(folder, &spec.name, &spec.launch));
        let state = State::starting(known);
        // The primary is one of the processes.
        let lanes = Lanes::new(supplies.options.processes_per_server.saturating_sub(1));
        Self {
            spec,
            supplies,
            recorder,
            events,
            wiring,
            state: watch::Sender::new(state),
            primary: Mutex::default(),
            primary_leases: LaneLeases::default(),
            lanes,
            eras: Eras::default(),
            calls_in_flight: AtomicUsize::new(0),
            retired: CancellationToken::new(),
            adoption: watch::Sender::new(Adoption::of(&profile)),
            profile: Mutex::new(profile),
            change_queue,
            subscriptions,
            levels,
            tasks,
            on_change,
            alone,
            has_tasks: AtomicBool::new(false),
        }
    }

    /// What this server contributes to the catalog.
    pub(crate) fn listing(&self) -> Listing {
        let state = self.state.borrow();
        Listing {
            server: self.spec.name.clone(),
            listed: state.listed,
            tools: state.tools.clone(),
            list_extras: state.extras.clone(),
            prompts: state.others.prompts.clone(),
            resources: state.others.resources.clone(),
            templates: state.others.templates.clone(),
            offers: state.offers(),
        }
    }

    /// Fires when the server has been taken out of use.
    pub(crate) fn retired(&self) -> &CancellationToken {
        &self.retired
    }

    /// Waits until no call is in flight here, at most for the timeout of one call.
    pub(crate) async fn idle(&self) {
        let deadline = Instant::now() + self.spec.timeout;
        // A call may have looked this server up just before it was replaced, and not be counted yet.
        tokio::time::sleep(RETIRE_GRACE).await;
        while Instant::now() < deadline && self.calls_in_flight.load(Ordering::Acquire) > 0 {
            tokio::time::sleep(RETIRE_GRACE).await;
        }
    }

    fn set_primary(&self, primary: Option<(Profile, Connection)>) {
        *self.primary() = primary;
    }

    /// The live connection that was made for `profile`.
    fn connection_of(&self, profile: &Profile) -> Option<Connection> {
        let own = self.profile();
        let own = match self.primary_era() {
            Some(era) => own.speaking(era),
            None => own,
        };
        if own.fits(profile) {
            return self.primary().as_ref().map(|(_, primary)| primary.clone());
        }
        self.lanes.get(profile)
    }

    /// The connection that this host's messages use, if it is open already.
    pub(crate) fn existing_connection(&self, host: &Host) -> Option<Connection> {
        let profile = |era| Profile::of(host).speaking(era);
        let eras = [host.era, self.primary_era().unwrap_or(host.era)];
        eras.into_iter().find_map(|era| {
            let shared = self.shared_primary(host, era);
            shared.or_else(|| self.lanes.get(&profile(era)))
        })
    }

    fn primary_era(&self) -> Option<Era> {
        self.primary().as_ref().map(|(profile, _)| profile.era)
    }

    /// The era to use for this host: its own if the server speaks it.
    async fn era_for(&self, host: &Host) -> Era {
        match (self.primary_era(), host.era) {
            // The primary connection speaks the newer era only if the server knows no other.
            (Some(Era::Stateless), _) => Era::Stateless,
            (_, Era::Handshake) => Era::Handshake,
            (Some(Era::Handshake) | None, Era::Stateless) => {
                let wiring = |profile: &Profile| (self.wiring)(profile);
                let found = self
                    .eras
                    .speaks_stateless(&self.spec, &self.supplies, wiring);
                // Boxed, because a probe opens a lane, and that future is large.
                if Box::pin(found).await {
                    Era::Stateless
                } else {
                    Era::Handshake
                }
            }
        }
    }

    /// The primary connection, when this host may use it: same principal, and the same capabilities
    /// where a handshake fixes them. The gateway's own connection goes to the first principal that fits.
    fn shared_primary(&self, host: &Host, era: Era) -> Option<Connection> {
        let mut primary = self.primary();
        let (profile, connection) = primary.as_mut()?;
        // `initialize` fixes the capabilities for the whole connection; a stateless request has its own.
        let fits = profile.era == era
            && (era == Era::Stateless || profile.capabilities == host.capabilities);
        if !fits {
            return None;
        }
        // The first principal takes it over, so that a single user needs one process and not two.
        if profile.principal.is_none() {
            profile.principal = Some(host.identity.principal.clone());
            // From now on other principals must not see what the server sends outside of calls.
            if let Some(audience) = profile.audience() {
                connection.claim(audience);
            }
        }
        let is_theirs = profile.principal.as_ref() == Some(&host.identity.principal);
        is_theirs.then(|| connection.clone())
    }

    /// The connection for a call of this host, if it is available without waiting.
    fn ready_connection(&self, host: &Host) -> Option<Connection> {
        match host.era {
            Era::Handshake => self.shared_primary(host, host.era),
            // The server's eras may have to be probed first.
            Era::Stateless => None,
        }
    }

    /// The connection for a call, with the call's own timeout as the deadline.
    async fn awaited_connection(
        &self,
        call: &Call,
        exchange: &Exchange,
    ) -> Result<(Connection, Option<LaneLease>), Failure> {
        let effect = Effect::None;
        tokio::select! {
            connection = self.connection(&call.attempt.host, Purpose::Call) => connection,
            () = exchange.cancelled.cancelled() => Err(Failure::Cancelled { effect }),
            () = tokio::time::sleep(self.spec.timeout) => {
                let (server, timeout) = (self.spec.name.clone(), self.spec.timeout);
                let name = call.target.name().to_owned();
                Err(Failure::TimedOut { server, name, timeout, effect })
            }
        }
    }

    /// The connection for a call of this host. Waits for a server that is still in its first connect.
    async fn connection(
        &self,
        host: &Host,
        purpose: Purpose,
    ) -> Result<(Connection, Option<LaneLease>), Failure> {
        if let Some(connection) = self.ready_connection(host) {
            return Ok((connection, None));
        }
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| state.status != ServerStatus::Starting);
        let waited = tokio::time::timeout(self.supplies.options.connect_wait, settled).await;
        // A timeout is not an error here: a missing primary is reported below, with its reason.
        drop(waited);
        if host.era == Era::Handshake {
            self.adopted(&Profile::of(host)).await;
        }
        let era = self.era_for(host).await;
        let how = match purpose {
            Purpose::Call => self.lane_use(host, era),
            Purpose::Follow => LaneUse::Shared,
        };
        if let Some(connection) = self.shared_primary(host, era) {
            match how {
                LaneUse::Shared => return Ok((connection, None)),
                LaneUse::Exclusive => {
                    if let Some(lease) = self.primary_leases.take_exclusive() {
                        return Ok((connection, Some(lease)));
                    }
                }
            }
        }
        // The server is down: another process of it would fail for the same reason, only later.
        if self.primary().is_none() {
            let reason = self.state.borrow().reason.clone();
            let reason = reason.unwrap_or_else(|| "the server is not connected yet".to_owned());
            return Err(self.unavailable(reason));
        }
        let profile = Profile::of(host).speaking(era);
        let wiring = (self.wiring)(&profile);
        let open = || async {
            let lane = Lane::open(&self.spec, profile.clone(), &self.supplies, wiring);
            let lane = Box::pin(lane).await?;
            // Before the first call, which must already run with the log level that its host set.
            self.repeat(&lane.connection, &profile).await;
            lane.listen_for_changes();
            Ok(lane)
        };
        let lane = self.lanes.get_or_open(&profile, how, open).await;
        let (connection, lease) = lane.map_err(|error| self.unavailable(error.to_string()))?;
        Ok((connection, Some(lease)))
    }

    /// Whether a call needs a process of its own. A question over stdio does not name its call, and a host
    /// that answers in a later request could not tell either, so each of its calls gets a process.
    fn lane_use(&self, host: &Host, era: Era) -> LaneUse {
        let is_stdio = matches!(self.spec.launch, Launch::Stdio { .. });
        let bridged = host.era == Era::Stateless && era == Era::Handshake;
        let declared = Json::validate(host.capabilities.as_bytes(), Strictness::Envelope);
        let can_be_asked = declared.is_ok_and(|declared| declared.members().next().is_some());
        if is_stdio && bridged && can_be_asked {
            LaneUse::Exclusive
        } else {
            LaneUse::Shared
        }
    }

    /// Where the reply to a call will carry task ids, and who will own those tasks.
    fn task_ids_in_reply(&self, call: &Call) -> Option<(TaskIdLocation, Arc<TaskMaker>)> {
        // Tool calls are inspected only if they can become tasks: this is the hot path.
        let host = &call.attempt.host;
        let may_become_task = || match host.era {
            Era::Handshake => self.has_tasks.load(Ordering::Relaxed),
            Era::Stateless => declares_extension(&host.capabilities, TASKS_EXTENSION),
        };
        if matches!(call.target, Target::Tool(_)) && !may_become_task() {
            return None;
        }
        let carried = TaskIdLocation::by_reply_to(call)?;
        let maker = TaskMaker {
            owners: self.tasks.clone(),
            owner: call.attempt.host.identity.owner(),
            server: self.spec.name.clone(),
            is_shared: !matches!(self.spec.launch, Launch::Stdio { .. }),
        };
        Some((carried, Arc::new(maker)))
    }

    fn unavailable(&self, detail: String) -> Failure {
        let (server, effect) = (self.spec.name.clone(), Effect::None);
        Failure::Unavailable {
            server,
            effect,
            detail,
        }
    }

    fn primary(&self) -> MutexGuard<'_, Option<(Profile, Connection)>> {
        self.primary.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Provider for Server {
    fn forward(
        &self,
        call: Recorded<Permit>,
        exchange: Exchange,
    ) -> BoxFuture<'_, Result<Reply, Failure>> {
        Box::pin(async move {
            // Counted before the connection is looked up, so that `idle` cannot miss this call.
            let _in_flight = InFlightCall::new(&self.calls_in_flight);
            let (connection, _lease) = match self.ready_connection(&call.call().attempt.host) {
                Some(connection) => (connection, None),
                // Boxed to keep the common path's future small.
                None => Box::pin(self.awaited_connection(call.call(), &exchange)).await?,
            };
            let carried = self.task_ids_in_reply(call.call());
            // A new task needs an owner before the server's next message is read, so the connection notes it.
            let makes_task = match &carried {
                Some((TaskIdLocation::Created | TaskIdLocation::Decided, maker)) => {
                    Some(maker.clone())
                }
                Some((
                    TaskIdLocation::Task | TaskIdLocation::Related | TaskIdLocation::Listed,
                    _,
                ))
                | None => None,
            };
            let timeout = self.spec.timeout;
            let reply = connection.call(call, exchange, timeout, makes_task).await?;
            // A single server's task ids pass unchanged, but its list still shows only the caller's own tasks.
            Ok(match carried {
                Some((carried, maker)) if self.alone => carried.own(reply, &maker),
                Some((carried, _)) => carried.shown(reply, &self.spec.name),
                None => reply,
            })
        })
    }
}

/// Counts a call as in flight until it is dropped.
struct InFlightCall<'a>(&'a AtomicUsize);

impl<'a> InFlightCall<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for InFlightCall<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
