//! All configured servers together: the catalog they make, and the way to each of them.

mod catalog;
mod first_round;
mod hosts;
mod pinned;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use callgate_call::{
    Announcement, Audience, Events, Failure, InHouse, Provider, Providers, Reply, Resident,
};
use callgate_gate::{
    Catalog, Host, Naming, Policy, Prefix, Reference, ServerName, Who,
    pins::{Lock, Pins},
};
use callgate_record::{Effect, Recorder};
use callgate_wire::{Frame, methods};
use futures_util::future::BoxFuture;
use tokio::{sync::broadcast, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    FleetOptions, Profile, ServerSpec, ServerStatus,
    inbound::Wiring,
    lane::SharedWiring,
    levels::Levels,
    news::News,
    outgoing::Housekeeping,
    roster::{Changes, Roster},
    server::{Server, ServerParts, State},
    subscriptions::Subscriptions,
    supplies::Supplies,
    tasks::TaskOwners,
};
use hosts::Present;

/// Announcements that a slow listener may lag behind before it misses some.
const ANNOUNCEMENTS_KEPT: usize = 256;

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
    pins: ArcSwap<Pins>,
    /// Why tools were kept away when that was last told.
    quarantine_told: Mutex<BTreeMap<String, String>>,
    announce: broadcast::Sender<Announcement>,
    residents: Mutex<HashMap<String, Present>>,
    /// Who follows resources, by server: a successor of a server takes them over.
    subscriptions: Mutex<HashMap<ServerName, Arc<Subscriptions>>>,
    levels: Arc<Levels>,
    task_owners: Arc<TaskOwners>,
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
    /// What was accepted of what tools say about themselves.
    pub pins: Pins,
    /// What the servers have in common.
    pub options: FleetOptions,
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
            pins,
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
            pins: ArcSwap::from_pointee(pins),
            quarantine_told: Mutex::default(),
            announce: broadcast::Sender::new(ANNOUNCEMENTS_KEPT),
            residents: Mutex::default(),
            subscriptions: Mutex::default(),
            levels: Arc::default(),
            task_owners: Arc::default(),
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
            pins,
            options,
        } = plan;
        if self.lists_are_answered() {
            self.answered.store(true, Ordering::Release);
        }
        self.pins.store(Arc::new(pins));
        let before = self.policy.swap(Arc::new(policy));
        if self.supplies.load().options != options {
            self.supplies.store(Arc::new(Supplies::new(options)));
        }
        self.in_house.store(Arc::new(in_house));
        self.take_over(servers, &before);
    }

    /// Keeps to another lock from now on.
    pub fn keep_to(&self, lock: Lock) {
        let before = Pins::clone(&self.pins.load());
        self.pins.store(Arc::new(Pins { lock, ..before }));
        self.rebuild();
    }

    /// What is kept to.
    pub fn pins(&self) -> Arc<Pins> {
        self.pins.load_full()
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
            let (server, shutdown) = (server.clone(), self.shutdown.child_token());
            self.tasks.spawn(async move { server.run(shutdown).await });
        }
        for successor in successors {
            self.promote_when_settled(successor);
        }
        retired.into_iter().for_each(|server| self.retire(server));
        self.rebuild_after(policy_before);
    }

    fn new_server(&self, spec: ServerSpec, alone: bool) -> Arc<Server> {
        let news = Arc::new(News::default());
        let subscriptions = self.followers_of(&spec.name);
        let wiring = Wiring {
            server: spec.name.clone(),
            levels: self.levels.clone(),
            announce: self.announce.clone(),
            claimed: Arc::default(),
            profile: Profile::gateway(),
            news: news.clone(),
            subscriptions: subscriptions.clone(),
            tasks: self.task_owners.clone(),
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
            profile: self.profile.clone(),
            news,
            subscriptions,
            levels: self.levels.clone(),
            tasks: self.task_owners.clone(),
            on_change: on_change(self.me.clone()),
            alone,
        }))
    }

    fn found(&self, server: &ServerName) -> Result<Arc<Server>, Failure> {
        self.roster
            .find(server)
            .ok_or_else(|| Failure::Unavailable {
                server: server.clone(),
                effect: Effect::None,
                detail: "the server is not configured any more".to_owned(),
            })
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
        let found = in_house.iter().find(|one| one.server() == *server);
        found.map(|one| one.clone() as Arc<dyn Provider>)
    }

    fn tell_all<'a>(&'a self, host: &'a Arc<Host>, notification: Frame) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.tell(host, &Housekeeping::HostNotification(&notification), None)
                .await
        })
    }

    fn follow<'a>(
        &'a self,
        host: &'a Arc<Host>,
        resource: &'a Reference,
        request: Frame,
    ) -> BoxFuture<'a, Result<Option<Reply>, Failure>> {
        Box::pin(async move {
            let server = self.found(&resource.server)?;
            server.follow(host, &resource.name, &request).await
        })
    }

    fn tasks<'a>(
        &'a self,
        host: &'a Arc<Host>,
        server: &'a ServerName,
        cursor: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Reply, Failure>> {
        Box::pin(async move { self.found(server)?.tasks(host, cursor).await })
    }

    fn owns_task(&self, who: &Who, server: &ServerName, task: &str) -> bool {
        self.task_owners.owns(&who.owner(), server, task)
    }

    fn set_level<'a>(&'a self, host: &'a Arc<Host>, request: Frame) -> BoxFuture<'a, ()> {
        self.levels.note(host, &request);
        Box::pin(async move {
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

    fn attach(&self, host: Arc<Host>, resident: Option<Arc<dyn Resident>>) {
        self.came(host, resident);
    }

    fn detach(&self, session: &str) {
        self.went(session);
    }
}

fn wiring_for(base: Wiring, fleet: Weak<Fleet>) -> SharedWiring {
    Arc::new(move |profile: &Profile| {
        let claimed: Arc<OnceLock<Audience>> = Arc::default();
        if let Some(audience) = profile.audience() {
            let _ = claimed.set(audience);
        }
        let profile = profile.clone();
        let (fleet, asked, server) = (fleet.clone(), claimed.clone(), base.server.clone());
        let resident = Arc::new(move || {
            let asked = asked.get().unwrap_or(&Audience::All);
            fleet.upgrade()?.resident(&server, asked)
        });
        Wiring {
            profile,
            claimed,
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
