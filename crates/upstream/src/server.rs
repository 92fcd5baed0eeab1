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
use callgate_wire::{Era, Json, Strictness};
use futures_util::future::BoxFuture;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

pub use state::ServerStatus;
pub(crate) use state::State;

use crate::{
    Launch, Profile, ServerSpec,
    connection::Connection,
    definitions::Definitions,
    eras::Eras,
    lane::{Lane, SharedWiring},
    lanes::{Lanes, Seat, Seats, Use},
    levels::Levels,
    news::News,
    subscriptions::Subscriptions,
    supplies::Supplies,
    tasks::{Carried, TaskMaker, TaskOwners},
};
use adoption::Adoption;

/// How often a server that is being retired is looked at; one that was just looked up gets its
/// call in this time.
const RETIRE_GRACE: Duration = Duration::from_millis(50);

/// A configured server.
pub(crate) struct Server {
    pub(crate) spec: ServerSpec,
    supplies: Arc<Supplies>,
    recorder: Recorder,
    events: Events,
    wiring: SharedWiring,
    pub(crate) state: watch::Sender<State>,
    primary: Mutex<Option<(Profile, Connection)>>,
    /// Who uses the primary connection, as far as that matters.
    primary_seats: Seats,
    lanes: Lanes,
    eras: Eras,
    /// Calls under way, whatever connection they use.
    forwarding: AtomicUsize,
    retired: CancellationToken,
    /// In whose name the primary is started.
    profile: Mutex<Profile>,
    adoption: watch::Sender<Adoption>,
    news: Arc<News>,
    subscriptions: Arc<Subscriptions>,
    levels: Arc<Levels>,
    tasks: Arc<TaskOwners>,
    on_change: Arc<dyn Fn() + Send + Sync>,
    /// Whether it is the only server, and hosts know its tasks by its own ids.
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

/// What a connection is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// A call.
    Call,
    /// To be told of a resource's changes.
    Follow,
}

/// What a server is built from.
pub(crate) struct ServerParts {
    pub(crate) spec: ServerSpec,
    pub(crate) supplies: Arc<Supplies>,
    pub(crate) recorder: Recorder,
    pub(crate) events: Events,
    pub(crate) wiring: SharedWiring,
    pub(crate) profile: Profile,
    pub(crate) news: Arc<News>,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) levels: Arc<Levels>,
    pub(crate) tasks: Arc<TaskOwners>,
    pub(crate) on_change: Arc<dyn Fn() + Send + Sync>,
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
            news,
            subscriptions,
            levels,
            tasks,
            on_change,
            alone,
        } = parts;
        let folder = supplies.options.definitions_dir.as_deref();
        let known = folder.and_then(|folder| Definitions::load(folder, &spec.name, &spec.launch));
        let state = State::starting(known);
        let lanes = Lanes::new(supplies.options.processes_per_server.saturating_sub(1));
        Self {
            spec,
            supplies,
            recorder,
            events,
            wiring,
            state: watch::Sender::new(state),
            primary: Mutex::default(),
            primary_seats: Seats::default(),
            lanes,
            eras: Eras::default(),
            forwarding: AtomicUsize::new(0),
            retired: CancellationToken::new(),
            adoption: watch::Sender::new(Adoption::of(&profile)),
            profile: Mutex::new(profile),
            news,
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

    /// Waits until no call is under way here, at most as long as one may take.
    pub(crate) async fn idle(&self) {
        let deadline = Instant::now() + self.spec.timeout;
        tokio::time::sleep(RETIRE_GRACE).await;
        while Instant::now() < deadline && self.forwarding.load(Ordering::Acquire) > 0 {
            tokio::time::sleep(RETIRE_GRACE).await;
        }
    }

    fn set_primary(&self, primary: Option<(Profile, Connection)>) {
        *self.primary() = primary;
    }

    /// The live connection that was made in the name of `profile`.
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

    /// The connection that this host's messages use, if there is one already.
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

    /// The era that is spoken with this host's server: the host's own, where the server speaks it.
    async fn era_for(&self, host: &Host) -> Era {
        match (self.primary_era(), host.era) {
            // The primary connection speaks the newer era only when the server knows no other.
            (Some(Era::Stateless), _) => Era::Stateless,
            (_, Era::Handshake) => Era::Handshake,
            (Some(Era::Handshake) | None, Era::Stateless) => {
                let wiring = |profile: &Profile| (self.wiring)(profile);
                let found = self
                    .eras
                    .speaks_stateless(&self.spec, &self.supplies, wiring);
                if Box::pin(found).await {
                    Era::Stateless
                } else {
                    Era::Handshake
                }
            }
        }
    }

    /// The primary connection, when this host may use it: same principal, and the same capabilities
    /// where a handshake settles them. The gateway's own is given to the first principal that fits.
    fn shared_primary(&self, host: &Host, era: Era) -> Option<Connection> {
        let mut primary = self.primary();
        let (profile, connection) = primary.as_mut()?;
        let fits = profile.era == era
            && (era == Era::Stateless || profile.capabilities == host.capabilities);
        if !fits {
            return None;
        }
        if profile.principal.is_none() {
            profile.principal = Some(host.who.principal.clone());
            if let Some(audience) = profile.audience() {
                connection.claim(audience);
            }
        }
        let is_theirs = profile.principal.as_ref() == Some(&host.who.principal);
        is_theirs.then(|| connection.clone())
    }

    /// The connection for a call of this host, where nothing has to be waited for.
    fn ready_connection(&self, host: &Host) -> Option<Connection> {
        match host.era {
            Era::Handshake => self.shared_primary(host, host.era),
            Era::Stateless => None,
        }
    }

    /// The connection for a call, waited for no longer than the call may take.
    async fn awaited_connection(
        &self,
        call: &Call,
        exchange: &Exchange,
    ) -> Result<(Connection, Option<Seat>), Failure> {
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

    /// The connection for a call of this host. A server in its first connect is waited for.
    async fn connection(
        &self,
        host: &Host,
        purpose: Purpose,
    ) -> Result<(Connection, Option<Seat>), Failure> {
        if let Some(connection) = self.ready_connection(host) {
            return Ok((connection, None));
        }
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| state.status != ServerStatus::Starting);
        let waited = tokio::time::timeout(self.supplies.options.connect_wait, settled).await;
        drop(waited);
        if host.era == Era::Handshake {
            self.adopted(host).await;
        }
        let era = self.era_for(host).await;
        let how = match purpose {
            Purpose::Call => self.use_of(host, era),
            Purpose::Follow => Use::Shared,
        };
        if let Some(connection) = self.shared_primary(host, era) {
            match how {
                Use::Shared => return Ok((connection, None)),
                Use::Alone => {
                    if let Some(seat) = self.primary_seats.take_all() {
                        return Ok((connection, Some(seat)));
                    }
                }
            }
        }
        if self.primary().is_none() {
            let reason = self.state.borrow().reason.clone();
            let reason = reason.unwrap_or_else(|| "the server is not connected yet".to_owned());
            return Err(self.unavailable(reason));
        }
        let profile = Profile::of(host).speaking(era);
        let wiring = (self.wiring)(&profile);
        let open = || async {
            let lane = Lane::open(&self.spec.launch, profile.clone(), &self.supplies, wiring);
            let lane = Box::pin(lane).await?;
            self.repeat(&lane.connection, &profile).await;
            lane.hear();
            Ok(lane)
        };
        let lane = self.lanes.get_or_open(&profile, how, open).await;
        let (connection, seat) = lane.map_err(|error| self.unavailable(error.to_string()))?;
        Ok((connection, Some(seat)))
    }

    /// A question over stdio does not say which call it belongs to. A host that answers in a later
    /// request would never find out, so its calls get a process each.
    fn use_of(&self, host: &Host, era: Era) -> Use {
        let is_stdio = matches!(self.spec.launch, Launch::Stdio { .. });
        let bridged = host.era == Era::Stateless && era == Era::Handshake;
        let declared = Json::validate(host.capabilities.as_bytes(), Strictness::Envelope);
        let can_be_asked = declared.is_ok_and(|declared| declared.members().next().is_some());
        if is_stdio && bridged && can_be_asked {
            Use::Alone
        } else {
            Use::Shared
        }
    }

    /// Where the reply to a call will carry the ids of tasks, and whose tasks they are.
    fn carried(&self, call: &Call) -> Option<(Carried, Arc<TaskMaker>)> {
        // Calls of tools are looked into only where the server says that it makes tasks of them.
        if matches!(call.target, Target::Tool(_)) && !self.has_tasks.load(Ordering::Relaxed) {
            return None;
        }
        let carried = Carried::by_reply_to(call)?;
        let maker = TaskMaker {
            owners: self.tasks.clone(),
            owner: call.attempt.host.who.owner(),
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
            let _under_way = UnderWay::new(&self.forwarding);
            let (connection, _seat) = match self.ready_connection(&call.call().attempt.host) {
                Some(connection) => (connection, None),
                // Boxed, so that calls for which there is a connection do not carry the room for it.
                None => Box::pin(self.awaited_connection(call.call(), &exchange)).await?,
            };
            let carried = self.carried(call.call());
            let makes_task = match &carried {
                Some((Carried::Created, maker)) => Some(maker.clone()),
                Some((Carried::Task | Carried::Related | Carried::Listed, _)) | None => None,
            };
            let timeout = self.spec.timeout;
            let reply = connection.call(call, exchange, timeout, makes_task).await?;
            Ok(match carried {
                Some((carried, maker)) if self.alone => carried.own(reply, &maker),
                Some((carried, _)) => carried.shown(reply, &self.spec.name),
                None => reply,
            })
        })
    }
}

/// Counts a call as under way until it is dropped.
struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
