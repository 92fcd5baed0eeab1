//! All configured servers together: the catalog they make, and the way to each of them.

mod catalog;
mod first_round;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use callgate_call::{Announcement, Audience, Caller, Events, InHouse, Provider, Providers};
use callgate_gate::{Catalog, Host, Naming, Policy, Prefix, ServerName};
use callgate_record::Recorder;
use callgate_wire::{Era, Frame, LogLevel, methods};
use futures_util::future::{BoxFuture, join_all};
use tokio::{
    sync::{Notify, broadcast},
    time::{Duration, Instant},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    FleetOptions, Profile, ServerSpec, ServerStatus,
    inbound::Wiring,
    lane::SharedWiring,
    outgoing::Housekeeping,
    roster::{Changes, Roster},
    server::{Server, ServerParts, State},
    supplies::Supplies,
};

/// Announcements that a slow listener may lag behind before it misses some.
const ANNOUNCEMENTS_KEPT: usize = 256;
/// How long a notification to all servers may take.
const TELL_ALL_DEADLINE: Duration = Duration::from_secs(1);

/// All servers.
#[derive(Debug)]
pub struct Fleet {
    me: Weak<Self>,
    roster: Roster,
    /// Providers that are no servers, listed behind them.
    in_house: ArcSwap<Vec<Arc<dyn InHouse>>>,
    supplies: ArcSwap<Supplies>,
    profile: Profile,
    recorder: Recorder,
    catalog: ArcSwap<Catalog>,
    policy: ArcSwap<Policy>,
    announce: broadcast::Sender<Announcement>,
    residents: Mutex<HashMap<String, Resident>>,
    /// Which log messages the hosts of sessions asked for.
    levels: Mutex<HashMap<String, LogLevel>>,
    rebuilding: Mutex<()>,
    events: Events,
    /// Whether lists had been answered when the configuration last changed.
    answered: AtomicBool,
    started: Instant,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

/// Everything that a configuration says about servers.
#[derive(Debug, Clone)]
pub struct FleetPlan {
    /// The servers, in order.
    pub servers: Vec<ServerSpec>,
    /// Providers that are no servers: the built-in tools, plugins.
    pub in_house: Vec<Arc<dyn InHouse>>,
    /// What may be called.
    pub policy: Policy,
    /// What the servers have in common.
    pub options: FleetOptions,
}

/// A host that can be asked outside of any call.
#[derive(Debug)]
struct Resident {
    host: Arc<Host>,
    caller: Arc<dyn Caller>,
}

/// How one server stands, for people.
#[derive(Debug, Clone)]
pub struct ServerReport {
    /// Its name.
    pub name: ServerName,
    /// `stdio` or `http`.
    pub transport: &'static str,
    /// Whether the configuration lets it run.
    pub enabled: bool,
    /// How it stands.
    pub status: ServerStatus,
    /// Why, when it is not `ok`.
    pub reason: Option<String>,
    /// How many tools it has.
    pub tools: usize,
    /// How many of them say nothing about their effects.
    pub silent_tools: usize,
    /// The process id of its warden.
    pub pid: Option<u32>,
}

impl Fleet {
    /// Starts all servers at once, in the name of `profile`.
    pub fn start(
        plan: FleetPlan,
        recorder: Recorder,
        events: Events,
        profile: Profile,
    ) -> Arc<Self> {
        let FleetPlan {
            servers,
            in_house,
            policy,
            options,
        } = plan;
        let fleet = Arc::new_cyclic(|me: &Weak<Self>| Self {
            me: me.clone(),
            roster: Roster::default(),
            in_house: ArcSwap::from_pointee(in_house),
            supplies: ArcSwap::from_pointee(Supplies::new(options)),
            profile,
            recorder,
            catalog: ArcSwap::default(),
            policy: ArcSwap::from_pointee(policy),
            announce: broadcast::Sender::new(ANNOUNCEMENTS_KEPT),
            residents: Mutex::default(),
            levels: Mutex::default(),
            rebuilding: Mutex::default(),
            events,
            answered: AtomicBool::new(false),
            started: Instant::now(),
            shutdown: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        fleet.take_over(servers, &fleet.policy.load());
        fleet.tasks.spawn(first_round::sum_up(fleet.clone()));
        fleet
            .tasks
            .spawn(first_round::warn_of_late_servers(fleet.clone()));
        fleet
    }

    /// Takes over another configuration. Servers that did not change are not touched, a changed
    /// one serves until its successor is there, and calls under way end where they began.
    pub fn apply(&self, plan: FleetPlan) {
        let FleetPlan {
            servers,
            in_house,
            policy,
            options,
        } = plan;
        if self.lists_are_answered() {
            self.answered.store(true, Ordering::Release);
        }
        let before = self.policy.swap(Arc::new(policy));
        if self.supplies.load().options != options {
            self.supplies.store(Arc::new(Supplies::new(options)));
        }
        self.in_house.store(Arc::new(in_house));
        self.take_over(servers, &before);
    }

    fn take_over(&self, specs: Vec<ServerSpec>, policy_before: &Policy) {
        let alone = specs.len() == 1
            && self.in_house.load().is_empty()
            && self.naming().prefix == Prefix::Never;
        let Changes {
            started,
            successors,
            retired,
        } = self
            .roster
            .apply(specs, |spec| self.new_server(spec, alone));
        for server in &started {
            let (server, profile) = (server.clone(), self.profile.clone());
            let shutdown = self.shutdown.child_token();
            self.tasks
                .spawn(async move { server.run(profile, shutdown).await });
        }
        for successor in successors {
            self.promote_when_settled(successor);
        }
        retired.into_iter().for_each(|server| self.retire(server));
        self.rebuild_after(policy_before);
    }

    fn new_server(&self, spec: ServerSpec, alone: bool) -> Arc<Server> {
        let tools_changed = Arc::new(Notify::new());
        let wiring = Wiring {
            server: spec.name.clone(),
            profile: Profile::gateway(),
            level: Arc::new(|_| None),
            announce: self.announce.clone(),
            audience: Audience::All,
            tools_changed: tools_changed.clone(),
            resident: Arc::new(|| None),
            passes_all: alone,
            events: self.events.clone(),
        };
        Arc::new(Server::new(ServerParts {
            spec,
            supplies: self.supplies.load_full(),
            recorder: self.recorder.clone(),
            events: self.events.clone(),
            wiring: wiring_for(wiring, self.me.clone()),
            tools_changed,
            on_change: on_change(self.me.clone()),
        }))
    }

    fn promote_when_settled(&self, successor: Arc<Server>) {
        let Some(fleet) = self.me.upgrade() else {
            return;
        };
        self.tasks.spawn(async move {
            let mut state = successor.state.subscribe();
            tokio::select! {
                _ = state.wait_for(|state| state.status != ServerStatus::Starting) => {}
                () = successor.retired().cancelled() => return,
                () = fleet.shutdown.cancelled() => return,
            }
            if let Some(predecessor) = fleet.roster.promote(&successor) {
                fleet.retire(predecessor);
                fleet.rebuild();
            }
        });
    }

    /// Lets a server end what it has under way, and go.
    fn retire(&self, server: Arc<Server>) {
        self.tasks.spawn(async move {
            server.idle().await;
            server.retired().cancel();
        });
    }

    fn naming(&self) -> Naming {
        self.supplies.load().options.naming.clone()
    }

    /// Ends every server and waits until nothing of them is left.
    pub async fn shutdown(&self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// How the servers stand, in configuration order.
    pub fn reports(&self) -> Vec<ServerReport> {
        let report = |server: &Arc<Server>| {
            let state = server.state.borrow();
            let tools = state.tools.as_deref().unwrap_or_default();
            ServerReport {
                name: server.spec.name.clone(),
                transport: server.spec.launch.transport(),
                enabled: server.spec.launch.is_enabled(),
                status: state.status,
                reason: state.reason.clone(),
                tools: tools.len(),
                silent_tools: tools.iter().filter(|tool| tool.hints.is_silent()).count(),
                pid: state.pid,
            }
        };
        self.roster.active().iter().map(report).collect()
    }

    /// The only attached host that shares the connection of `audience`, if there is exactly one.
    fn resident(&self, audience: &Audience) -> Option<Arc<dyn Caller>> {
        let residents = self
            .residents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut sharing = residents
            .values()
            .filter(|resident| audience.includes(&resident.host));
        let first = sharing.next()?;
        sharing.next().is_none().then(|| first.caller.clone())
    }

    fn level(&self, session: &str) -> Option<LogLevel> {
        let levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
        levels.get(session).copied()
    }

    async fn tell(&self, host: &Host, what: &Housekeeping<'_>, request: Option<&'static str>) {
        let one = |server: &Arc<Server>| {
            let server = server.clone();
            async move {
                // What a host says at once is not too early for a server that is about to be there.
                let mut state = server.state.subscribe();
                let settled = state.wait_for(|state| state.status != ServerStatus::Starting);
                drop(settled.await);
                let Some(connection) = server.existing_connection(host) else {
                    return;
                };
                // Best effort: a server that does not answer is not waited for.
                match request {
                    // A stateless server is told with each call.
                    Some(_) if connection.era() == Era::Stateless => {}
                    Some(method) => drop(connection.request(method, what, TELL_ALL_DEADLINE).await),
                    None => drop(connection.notify(what).await),
                }
            }
        };
        let all = join_all(self.roster.active().iter().map(one));
        let _ = tokio::time::timeout(TELL_ALL_DEADLINE, all).await;
    }
}

impl Providers for Fleet {
    fn catalog(&self) -> Arc<Catalog> {
        self.catalog.load_full()
    }

    fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    fn first_connect<'a>(&'a self, server: Option<&'a ServerName>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let deadline = self.list_deadline();
            let wanted = |one: &&Arc<Server>| server.is_none_or(|name| one.spec.name == *name);
            for server in self.roster.active().iter().filter(wanted) {
                let mut state = server.state.subscribe();
                let settled = state.wait_for(State::can_list);
                // A server that is not there by then is announced when it comes.
                let _ = tokio::time::timeout_at(deadline, settled).await;
            }
        })
    }

    fn provider(&self, server: &ServerName) -> Option<Arc<dyn Provider>> {
        if let Some(found) = self.roster.find(server) {
            return Some(found);
        }
        let in_house = self.in_house.load();
        let found = in_house.iter().find(|one| one.listing().server == *server);
        found.map(|one| one.clone() as Arc<dyn Provider>)
    }

    fn tell_all<'a>(&'a self, host: &'a Arc<Host>, notification: Frame) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.tell(host, &Housekeeping::HostNotification(&notification), None)
                .await
        })
    }

    fn set_level<'a>(&'a self, host: &'a Arc<Host>, request: Frame) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let session = host.who.session.clone();
            if let Some(level) = request.param("level").and_then(LogLevel::read) {
                let mut levels = self.levels.lock().unwrap_or_else(PoisonError::into_inner);
                levels.insert(session, level);
            }
            self.tell(
                host,
                &Housekeeping::SetLevel(&request),
                Some(methods::SET_LEVEL),
            )
            .await;
        })
    }

    fn subscribe(&self) -> broadcast::Receiver<Announcement> {
        self.announce.subscribe()
    }

    fn capabilities(&self) -> Vec<String> {
        self.roster
            .active()
            .iter()
            .filter_map(|server| server.state.borrow().capabilities.clone())
            .collect()
    }

    fn instructions(&self) -> Vec<(ServerName, String)> {
        let one = |server: &Arc<Server>| {
            let text = server.state.borrow().instructions.clone()?;
            Some((server.spec.name.clone(), text))
        };
        self.roster.active().iter().filter_map(one).collect()
    }

    fn attach(&self, host: Arc<Host>, caller: Arc<dyn Caller>) {
        let mut residents = self
            .residents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        residents.insert(host.who.session.clone(), Resident { host, caller });
    }

    fn detach(&self, session: &str) {
        self.levels
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(session);
        self.residents
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(session);
    }
}

fn wiring_for(base: Wiring, fleet: Weak<Fleet>) -> SharedWiring {
    Arc::new(move |profile: &Profile| {
        let audience = match &profile.principal {
            Some(principal) => Audience::Sharing {
                principal: principal.clone(),
                capabilities: profile.capabilities.clone(),
            },
            None => Audience::All,
        };
        let (fleet, asked) = (fleet.clone(), audience.clone());
        let of_levels = fleet.clone();
        let resident = Arc::new(move || fleet.upgrade()?.resident(&asked));
        let level = Arc::new(move |session: &str| of_levels.upgrade()?.level(session));
        Wiring {
            profile: profile.clone(),
            level,
            audience,
            resident,
            ..base.clone()
        }
    })
}

fn on_change(fleet: Weak<Fleet>) -> Arc<dyn Fn() + Send + Sync> {
    Arc::new(move || {
        if let Some(fleet) = fleet.upgrade() {
            fleet.rebuild();
        }
    })
}
