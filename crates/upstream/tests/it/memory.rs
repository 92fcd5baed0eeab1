//! Last known definitions: listed at once, only for the same server, and not for ever.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use callgate_call::{Announcement, Events, Providers};
use callgate_gate::{
    Builtin, Endpoint, Launch, Naming, Policy, ServerName, ServerSpec, pins::Pins,
};
use callgate_record::{
    DurabilityWait, Entry, OnFailure, Position, Recorder, Redactor, Store, StoreError,
};
use callgate_testkit::{HttpUpstream, bin, until};
use callgate_upstream::{Fleet, FleetOptions, FleetPlan, Profile, ServerStatus};
use futures_util::future::{Either, ready};
use tokio::sync::broadcast::{Receiver, error::TryRecvError};

/// Far longer than anything here takes, so that only a real fault reaches it.
const DEADLINE: Duration = Duration::from_secs(60);
/// How long a server of these tests keeps its place in the list.
const LISTED: Duration = Duration::from_millis(400);

/// Keeps nothing: these tests are not about the record.
#[derive(Debug)]
struct Nowhere;

impl Store for Nowhere {
    fn append(&self, _: &Entry) -> Result<Position, StoreError> {
        Ok(Position(0))
    }

    fn append_or_queue(&self, _: Entry) -> Option<Position> {
        None
    }

    fn settled(&self, _: Position) -> DurabilityWait<'_> {
        Either::Left(ready(Ok(())))
    }
}

fn start(definitions: &Path, launch: Launch) -> Arc<Fleet> {
    start_with(plan(definitions, launch), nowhere()).0
}

/// A recorder that keeps nothing.
pub(crate) fn nowhere() -> Recorder {
    let redactor = Redactor::new(&[], 0).unwrap();
    Recorder::new(Arc::new(Nowhere), redactor, OnFailure::Refuse)
}

/// Starts a fleet in the gateway's own name.
pub(crate) fn start_with(plan: FleetPlan, recorder: Recorder) -> (Arc<Fleet>, Recorder) {
    let (events, profile) = (Events::default(), Profile::gateway());
    (
        Fleet::start(plan, recorder.clone(), events, profile),
        recorder,
    )
}

/// One server of the name `s`, and everything allowed.
pub(crate) fn plan(definitions: &Path, launch: Launch) -> FleetPlan {
    let options = FleetOptions {
        naming: Naming::default(),
        warden_program: warden_program(),
        log_dir: None,
        definitions_dir: Some(PathBuf::from(definitions)),
        pin_store: None,
        connect_wait: DEADLINE,
        initialize_wait: DEADLINE,
        reconnect_cap: Duration::from_secs(60),
        listed_while_down: LISTED,
        frame_bytes: 1 << 20,
        http_bytes: 1 << 20,
        concurrency_per_server: 4,
        processes_per_server: 1,
    };
    FleetPlan {
        local_providers: Vec::new(),
        servers: vec![ServerSpec {
            name: ServerName::new("s").unwrap(),
            launch,
            timeout: DEADLINE,
            protocol: Default::default(),
            sandbox: None,
        }],
        policy: Policy::new(Builtin::AllowAll, Default::default()),
        pins: Pins::default(),
        options,
    }
}

/// A counter on standard streams.
pub(crate) fn stdio(args: &[&str]) -> Launch {
    Launch::Stdio {
        command: bin("counter-upstream").display().to_string(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        env: Vec::new(),
        cwd: None,
    }
}

fn http(upstream: &HttpUpstream) -> Launch {
    Launch::Http(Endpoint::new(upstream.url(), &[], false).unwrap())
}

fn listed(fleet: &Fleet) -> usize {
    fleet.catalog().listed(&fleet.policy()).count()
}

fn status(fleet: &Fleet) -> ServerStatus {
    fleet.reports()[0].status
}

/// Reaches the server once, so that it is known from then on.
async fn acquaint(definitions: &Path, launch: Launch) -> usize {
    let fleet = start(definitions, launch);
    fleet.first_connect(None).await;
    let tools = listed(&fleet);
    assert!(tools > 0, "{:?}", fleet.reports());
    fleet.shutdown().await;
    tools
}

fn announced(announcements: &mut Receiver<Announcement>) -> usize {
    let mut count = 0;
    loop {
        match announcements.try_recv() {
            Ok(_) => count += 1,
            Err(TryRecvError::Empty | TryRecvError::Closed) => return count,
            Err(TryRecvError::Lagged(_)) => panic!("far too many announcements"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_start_lists_cached_tools_without_waiting_for_the_server() {
    let slow = ["--slow-start-ms", "3000"];
    let upstream = HttpUpstream::start("counter-upstream", &slow).unwrap();
    for launch in [stdio(&slow), http(&upstream)] {
        let folder = tempfile::tempdir().unwrap();
        let tools = acquaint(folder.path(), launch.clone()).await;
        let fleet = start(folder.path(), launch);
        fleet.first_connect(None).await;
        assert_eq!(
            status(&fleet),
            ServerStatus::Starting,
            "it is not there yet"
        );
        assert_eq!(listed(&fleet), tools);
        fleet.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cached_tools_of_another_command_or_url_are_not_listed() {
    let folder = tempfile::tempdir().unwrap();
    acquaint(folder.path(), stdio(&["--tools", "1"])).await;
    let upstream = HttpUpstream::start("counter-upstream", &["--slow-start-ms", "60000"]).unwrap();
    for launch in [stdio(&["--slow-start-ms", "60000"]), http(&upstream)] {
        let fleet = start(folder.path(), launch);
        assert_eq!(listed(&fleet), 0);
        fleet.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_an_unreachable_server_leave_the_list() {
    let mut upstream = HttpUpstream::start("counter-upstream", &[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tools = acquaint(folder.path(), http(&upstream)).await;
    upstream.stop();
    let fleet = start(folder.path(), http(&upstream));
    let mut announcements = fleet.subscribe();
    assert_eq!(listed(&fleet), tools);
    until("it is out of the list", || listed(&fleet) == 0).await;
    until("that was announced", || announced(&mut announcements) == 1).await;
    assert_eq!(status(&fleet), ServerStatus::Stopped);
    fleet.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_of_a_server_hanging_at_connect_leave_the_list() {
    let mut upstream = HttpUpstream::start("counter-upstream", &[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let tools = acquaint(folder.path(), http(&upstream)).await;
    upstream
        .start_again_with(&["--slow-start-ms", "60000"])
        .unwrap();
    let fleet = start(folder.path(), http(&upstream));
    assert_eq!(listed(&fleet), tools);
    until("it is out of the list", || listed(&fleet) == 0).await;
    assert_eq!(
        status(&fleet),
        ServerStatus::Starting,
        "it is still waited for"
    );
    fleet.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn loss_and_return_of_a_server_are_each_announced_once() {
    let mut upstream = HttpUpstream::start("counter-upstream", &[]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let fleet = start(folder.path(), http(&upstream));
    fleet.first_connect(None).await;
    let (tools, mut announcements) = (listed(&fleet), fleet.subscribe());
    upstream.stop();
    until("it is seen to be gone", || {
        status(&fleet) == ServerStatus::Degraded
    })
    .await;
    assert_eq!(listed(&fleet), tools, "a short restart changes no list");
    until("it is out of the list", || listed(&fleet) == 0).await;
    assert_eq!(announced(&mut announcements), 1);
    upstream.start_again().unwrap();
    until("it is back", || listed(&fleet) == tools).await;
    until("that was announced", || announced(&mut announcements) == 1).await;
    fleet.shutdown().await;
}

/// The example beside this test, which cargo builds with it.
fn warden_program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.parent().and_then(Path::parent).unwrap();
    let program = built.join("examples/plain_warden");
    assert!(program.exists(), "it is not built: {}", program.display());
    program
}
