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
use callgate_gate::{Call, Host, Listing, Permit};
use callgate_record::{Effect, Recorded, Recorder};
use futures_util::future::BoxFuture;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

pub use state::ServerStatus;
pub(crate) use state::State;

use crate::{
    Profile, ServerSpec,
    connection::Connection,
    definitions::Definitions,
    followers::Followers,
    lane::{Lane, SharedWiring},
    lanes::Lanes,
    levels::Levels,
    news::News,
    supplies::Supplies,
    tasks::Carried,
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
    lanes: Lanes,
    /// Calls under way, whatever connection they use.
    forwarding: AtomicUsize,
    retired: CancellationToken,
    /// In whose name the primary is started.
    profile: Mutex<Profile>,
    adoption: watch::Sender<Adoption>,
    news: Arc<News>,
    followers: Arc<Followers>,
    levels: Arc<Levels>,
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

/// What a server is built from.
pub(crate) struct ServerParts {
    pub(crate) spec: ServerSpec,
    pub(crate) supplies: Arc<Supplies>,
    pub(crate) recorder: Recorder,
    pub(crate) events: Events,
    pub(crate) wiring: SharedWiring,
    pub(crate) profile: Profile,
    pub(crate) news: Arc<News>,
    pub(crate) followers: Arc<Followers>,
    pub(crate) levels: Arc<Levels>,
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
            followers,
            levels,
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
            lanes,
            forwarding: AtomicUsize::new(0),
            retired: CancellationToken::new(),
            adoption: watch::Sender::new(Adoption::of(&profile)),
            profile: Mutex::new(profile),
            news,
            followers,
            levels,
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
        if self.profile().fits(profile) {
            return self.primary().as_ref().map(|(_, primary)| primary.clone());
        }
        self.lanes.get(profile)
    }

    /// The connection that this host's messages use, if there is one already.
    pub(crate) fn existing_connection(&self, host: &Host) -> Option<Connection> {
        match self.shared_primary(host) {
            Some(connection) => Some(connection),
            None => self.lanes.get(&Profile::of(host)),
        }
    }

    /// The primary connection, when this host may use it: same capabilities, same principal. The
    /// gateway's own is given to the first principal that fits.
    fn shared_primary(&self, host: &Host) -> Option<Connection> {
        let mut primary = self.primary();
        let (profile, connection) = primary.as_mut()?;
        if profile.capabilities != host.capabilities {
            return None;
        }
        let principal = profile
            .principal
            .get_or_insert_with(|| host.who.principal.clone());
        (*principal == host.who.principal).then(|| connection.clone())
    }

    /// The connection for a call of this host. A server in its first connect is waited for.
    async fn connection(&self, host: &Host) -> Result<Connection, Failure> {
        if let Some(connection) = self.shared_primary(host) {
            return Ok(connection);
        }
        let mut state = self.state.subscribe();
        let settled = state.wait_for(|state| state.status != ServerStatus::Starting);
        let waited = tokio::time::timeout(self.supplies.options.connect_wait, settled).await;
        drop(waited);
        self.adopted(host).await;
        if let Some(connection) = self.shared_primary(host) {
            return Ok(connection);
        }
        if self.primary().is_none() {
            let reason = self.state.borrow().reason.clone();
            let reason = reason.unwrap_or_else(|| "the server is not connected yet".to_owned());
            return Err(self.unavailable(reason));
        }
        let profile = Profile::of(host);
        let wiring = (self.wiring)(&profile);
        let open = || async {
            let lane = Lane::open(&self.spec.launch, profile.clone(), &self.supplies, wiring);
            let lane = lane.await?;
            self.repeat(&lane.connection, &profile).await;
            Ok(lane)
        };
        let lane = self.lanes.get_or_open(&profile, open).await;
        lane.map_err(|error| self.unavailable(error.to_string()))
    }

    /// Where the reply to a call will carry the id of a task that hosts know by another.
    fn carried(&self, call: &Call) -> Option<Carried> {
        let wraps = !self.alone && self.has_tasks.load(Ordering::Relaxed);
        wraps.then(|| Carried::by_reply_to(call)).flatten()
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
            let host = call.call().attempt.host.clone();
            let effect = Effect::None;
            let connection = tokio::select! {
                connection = self.connection(&host) => connection?,
                () = exchange.cancelled.cancelled() => return Err(Failure::Cancelled { effect }),
                () = tokio::time::sleep(self.spec.timeout) => {
                    let (server, timeout) = (self.spec.name.clone(), self.spec.timeout);
                    let name = call.call().target.name().to_owned();
                    return Err(Failure::TimedOut { server, name, timeout, effect });
                }
            };
            let carried = self.carried(call.call());
            let reply = connection.call(call, exchange, self.spec.timeout).await?;
            Ok(match carried {
                Some(carried) => carried.shown(reply, &self.spec.name),
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
