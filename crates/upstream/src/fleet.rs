//! All configured servers: the catalog built from their lists, and the lookup of each server.

mod catalog;
mod first_round;
mod hosts;
mod pinned;
mod rebuilds;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use callgate_call::{
    Announcement, Audience, Events, Failure, Links, LocalProvider, Provider, Providers, Reply,
    Resident,
};
use callgate_gate::{
    CallerIdentity, Catalog, Host, Naming, Policy, Prefix, Reference, ServerName,
    pins::{Lock, Pins},
};
use callgate_record::{Effect, Recorder};
use callgate_wire::{Frame, methods};
use futures_util::future::BoxFuture;
use tokio::{sync::broadcast, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    FleetOptions, Profile, ServerSpec, ServerStatus,
    change_queue::ChangeQueue,
    inbound::Wiring,
    lane::SharedWiring,
    levels::Levels,
    outgoing::Housekeeping,
    roster::{Changes, Roster},
    server::{Server, ServerParts},
    subscriptions::Subscriptions,
    supplies::Supplies,
    tasks::TaskOwners,
};
use hosts::AttachedHost;
pub(crate) use rebuilds::OnChange;
use rebuilds::{Rebuilds, on_change};

/// How many announcements a slow listener may lag behind before it loses the oldest.
const ANNOUNCEMENTS_KEPT: usize = 256;

#[derive(Debug)]
pub struct Fleet {
    me: Weak<Self>,
    roster: Roster,
    /// Providers inside this process (built-in tools, plugins), listed after the servers.
    local_providers: ArcSwap<Vec<Arc<dyn LocalProvider>>>,
    supplies: ArcSwap<Supplies>,
    profile: Profile,
    recorder: Recorder,
    links: Arc<Links>,
    policy: ArcSwap<Policy>,
    pins: ArcSwap<Pins>,
    /// The quarantined tools that were last reported, with the reasons: each is reported once.
    reported_quarantine: Mutex<BTreeMap<String, String>>,
    announce: broadcast::Sender<Announcement>,
    residents: Mutex<HashMap<String, AttachedHost>>,
    /// Resource subscriptions by server name, so that a server's successor inherits them.
    subscriptions: Mutex<HashMap<ServerName, Arc<Subscriptions>>>,
    levels: Arc<Levels>,
    task_owners: Arc<TaskOwners>,
    rebuilding: Mutex<()>,
    rebuilds: Rebuilds,
    events: Events,
    /// Whether hosts could already have lists when the configuration last changed.
    answered: AtomicBool,
    /// Whether hosts can have lists of the current catalog.
    published: AtomicBool,
    started: Instant,
    shutdown: CancellationToken,
    tasks: TaskTracker,
}

/// The part of a configuration that concerns servers.
#[derive(Debug, Clone)]
pub struct FleetPlan {
    /// In configuration order.
    pub servers: Vec<ServerSpec>,
    /// Providers inside this process: the built-in tools, plugins.
    pub local_providers: Vec<Arc<dyn LocalProvider>>,
    pub policy: Policy,
    /// The accepted tool definitions.
    pub pins: Pins,
    /// Settings shared by all servers.
    pub options: FleetOptions,
}

/// The status of one server, for people.
#[derive(Debug, Clone)]
pub struct ServerReport {
    pub name: ServerName,
    /// `stdio` or `http`.
    pub transport: &'static str,
    /// Whether the configuration enables it.
    pub enabled: bool,
    pub status: ServerStatus,
    /// Why the status is not `ok`.
    pub reason: Option<String>,
    pub tools: usize,
    /// How many tools have no annotations about their effects.
    pub unannotated_tools: usize,
    /// The process id of its warden.
    pub pid: Option<u32>,
}

impl Fleet {
    /// Starts all servers concurrently, with `profile`.
    pub fn start(
        plan: FleetPlan,
        recorder: Recorder,
        events: Events,
        profile: Profile,
    ) -> Arc<Self> {
        let FleetPlan {
            servers,
            local_providers,
            policy,
            pins,
            options,
        } = plan;
        let (rebuilds, rebuilder) = Rebuilds::new();
        let fleet = Arc::new_cyclic(|me: &Weak<Self>| Self {
            me: me.clone(),
            roster: Roster::default(),
            local_providers: ArcSwap::from_pointee(local_providers),
            supplies: ArcSwap::from_pointee(Supplies::new(options, &recorder)),
            profile,
            recorder,
            links: Arc::default(),
            policy: ArcSwap::from_pointee(policy),
            pins: ArcSwap::from_pointee(pins),
            reported_quarantine: Mutex::default(),
            announce: broadcast::Sender::new(ANNOUNCEMENTS_KEPT),
            residents: Mutex::default(),
            subscriptions: Mutex::default(),
            levels: Arc::default(),
            task_owners: Arc::default(),
            rebuilding: Mutex::default(),
            rebuilds,
            events,
            answered: AtomicBool::new(false),
            published: AtomicBool::new(false),
            started: Instant::now(),
            shutdown: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        rebuilder.start(&fleet);
        fleet.take_over(servers, &fleet.policy.load());
        fleet.tasks.spawn(first_round::sum_up(fleet.clone()));
        fleet
            .tasks
            .spawn(first_round::warn_of_late_servers(fleet.clone()));
        fleet
    }

    /// Applies another configuration. Servers that did not change are not touched, a changed one serves
    /// until its successor has connected, and calls in flight end where they began.
    pub fn apply(&self, plan: FleetPlan) {
        let FleetPlan {
            servers,
            local_providers,
            policy,
            pins,
            options,
        } = plan;
        // Before new servers begin their first connect, which would hide that hosts already have lists.
        if self.lists_are_answered() {
            self.answered.store(true, Ordering::Release);
        }
        self.pins.store(Arc::new(pins));
        let before = self.policy.swap(Arc::new(policy));
        // Kept if unchanged: it owns the HTTP client, which is expensive to create.
        if self.supplies.load().options != options {
            let supplies = Supplies::new(options, &self.recorder);
            self.supplies.store(Arc::new(supplies));
        }
        // First, because `take_over` reads it to decide whether a server is the only provider.
        self.local_providers.store(Arc::new(local_providers));
        self.take_over(servers, &before);
    }

    /// Applies another lock from now on.
    pub fn set_lock(&self, lock: Lock) {
        let before = Pins::clone(&self.pins.load());
        self.pins.store(Arc::new(Pins { lock, ..before }));
        self.rebuild();
    }

    pub fn pins(&self) -> Arc<Pins> {
        self.pins.load_full()
    }

    fn take_over(&self, specs: Vec<ServerSpec>, policy_before: &Policy) {
        // Names of a single provider cannot collide, so its ids and notifications may pass unchanged.
        let alone = specs.len() == 1
            && self.local_providers.load().is_empty()
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
        let change_queue = Arc::new(ChangeQueue::default());
        let subscriptions = self.subscriptions_of(&spec.name);
        let wiring = Wiring {
            server: spec.name.clone(),
            levels: self.levels.clone(),
            announce: self.announce.clone(),
            // Placeholders: `wiring_for` sets audience, profile and resident for each connection.
            claimed: Arc::default(),
            profile: Profile::gateway(),
            change_queue: change_queue.clone(),
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
            change_queue,
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
                detail: "the server is no longer configured".to_owned(),
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
            // `None` if a later configuration has replaced the successor already.
            if let Some(predecessor) = fleet.roster.promote(&successor) {
                fleet.retire(predecessor);
                fleet.rebuild();
            }
        });
    }

    /// Stops a server once its calls in flight have ended.
    fn retire(&self, server: Arc<Server>) {
        self.tasks.spawn(async move {
            server.idle().await;
            server.retired().cancel();
        });
    }

    fn naming(&self) -> Naming {
        self.supplies.load().options.naming.clone()
    }

    /// Stops every server and waits for all their tasks and processes.
    pub async fn shutdown(&self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Providers for Fleet {
    fn catalog(&self) -> Arc<Catalog> {
        self.links.catalog().load_full()
    }

    fn policy(&self) -> Arc<Policy> {
        self.policy.load_full()
    }

    fn first_connect<'a>(&'a self, server: Option<&'a ServerName>) -> BoxFuture<'a, ()> {
        Box::pin(self.wait_for_first_connect(server))
    }

    fn introduced(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.wait_for_introductions())
    }

    fn ready_for<'a>(&'a self, host: &'a Host) -> BoxFuture<'a, ()> {
        Box::pin(self.let_take_over(host))
    }

    fn provider(&self, server: &ServerName) -> Option<Arc<dyn Provider>> {
        if let Some(found) = self.roster.find(server) {
            return Some(found);
        }
        let local_providers = self.local_providers.load();
        let found = local_providers.iter().find(|one| one.server() == *server);
        found.map(|one| one.clone() as Arc<dyn Provider>)
    }

    fn notify_all<'a>(&'a self, host: &'a Arc<Host>, notification: Frame) -> BoxFuture<'a, ()> {
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

    fn links(&self) -> &Links {
        &self.links
    }

    fn owns_task(&self, identity: &CallerIdentity, server: &ServerName, task: &str) -> bool {
        self.task_owners.owns(&identity.owner(), server, task)
    }

    fn set_level<'a>(&'a self, host: &'a Arc<Host>, request: Frame) -> BoxFuture<'a, ()> {
        // At once and not in the future below, so that a server that starts meanwhile gets it too.
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

    fn capabilities(&self) -> Vec<(ServerName, String)> {
        let one = |server: &Arc<Server>| {
            let capabilities = server.state.borrow().capabilities.clone()?;
            Some((server.spec.name.clone(), capabilities))
        };
        self.roster.active().iter().filter_map(one).collect()
    }

    fn instructions(&self) -> Vec<(ServerName, String)> {
        let one = |server: &Arc<Server>| {
            let text = server.state.borrow().instructions.clone()?;
            Some((server.spec.name.clone(), text))
        };
        self.roster.active().iter().filter_map(one).collect()
    }

    fn attach(&self, host: Arc<Host>, resident: Option<Arc<dyn Resident>>) {
        self.host_attached(host, resident);
    }

    fn detach(&self, session: &str) {
        self.host_detached(session);
    }
}

fn wiring_for(base: Wiring, fleet: Weak<Fleet>) -> SharedWiring {
    Arc::new(move |profile: &Profile| {
        let claimed: Arc<OnceLock<Audience>> = Arc::default();
        // The gateway's own profile has no audience yet: `Connection::claim` sets it for the first user.
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
