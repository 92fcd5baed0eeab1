//! Boxes as they are opened: what they grant, and what is recorded of their connections.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use callgate_boxes::{BoxNotOpened, BoxPlan, CONNECTION, ConnectionRecord, Occupant, OpenBox};
use callgate_gate::{BoxMode, BoxSpec};
use callgate_process::sandbox::{FileAccess, HostPort, Mode, Network};
use callgate_record::{
    DurabilityWait, Entry, OnFailure, Position, Recorder, Redactor, Store, StoreError,
};
use futures_util::future::{Either, ready};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

/// A record in memory.
#[derive(Debug, Default)]
struct Journal(Mutex<Vec<Entry>>);

impl Store for Journal {
    fn append(&self, entry: &Entry) -> Result<Position, StoreError> {
        self.0.lock().unwrap().push(entry.clone());
        Ok(Position(0))
    }

    fn append_or_queue(&self, entry: Entry) -> Option<Position> {
        self.0.lock().unwrap().push(entry);
        None
    }

    fn settled(&self, _: Position) -> DurabilityWait<'_> {
        Either::Left(ready(Ok(())))
    }
}

impl Journal {
    fn recorder(self: &Arc<Self>) -> Recorder {
        let redactor = Redactor::new(&[], 2048).unwrap();
        Recorder::new(self.clone(), redactor, OnFailure::Refuse)
    }

    /// The server and the text of each connection.
    fn connections(&self) -> Vec<(Option<String>, String)> {
        let entries = self.0.lock().unwrap();
        let events = entries.iter().filter_map(|entry| match entry {
            Entry::Event(event) if event.name == CONNECTION => Some(event),
            _ => None,
        });
        events
            .map(|event| {
                (
                    event.server.clone(),
                    event.reason.clone().unwrap_or_default(),
                )
            })
            .collect()
    }
}

/// A machine with a server, two folders that it is to have, and one that it has anyway.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(TempDir::new().unwrap());
        for folder in ["bin", "data", "notes", "own"] {
            fs::create_dir(machine.path(folder)).unwrap();
        }
        fs::write(machine.path("bin/server"), "").unwrap();
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn plan(&self, net: &[&str], record: ConnectionRecord) -> BoxPlan {
        let spec = BoxSpec {
            mode: BoxMode::BestEffort,
            read: vec![self.path("data")],
            write: vec![self.path("notes")],
            hidden: vec![self.path("notes/callgate.yaml")],
            net: net.iter().map(|host| (*host).to_owned()).collect(),
        };
        BoxPlan { spec, record }
    }

    fn opened(&self, plan: &BoxPlan) -> Result<OpenBox, BoxNotOpened> {
        plan.open(Occupant {
            server: Some("notes".to_owned()),
            title: "server".to_owned(),
            program: self.path("bin/server"),
            own_folders: vec![self.path("own")],
            ..Occupant::default()
        })
    }

    /// The paths of an open box, relative to the machine.
    fn granted(&self, open_box: &OpenBox) -> Vec<(String, FileAccess)> {
        let root = self.path("");
        let name = |path: &Path| {
            let name = path.strip_prefix(&root).unwrap_or(path);
            name.display().to_string()
        };
        let files = open_box.sandbox().files.iter();
        files
            .map(|grant| (name(&grant.path), grant.access))
            .collect()
    }
}

fn open(net: &[&str], record: ConnectionRecord) -> OpenBox {
    let machine = Machine::new();
    machine.opened(&machine.plan(net, record)).unwrap()
}

/// Asks the proxy of a box for a connection and returns the status line.
async fn ask(open_box: &OpenBox, authority: &str) -> String {
    let Network::Proxied(network) = &open_box.sandbox().network else {
        panic!("it lists hosts");
    };
    let mut stream = UnixStream::connect(&network.socket).await.unwrap();
    let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    stream.read_exact(&mut status).await.unwrap();
    String::from_utf8_lossy(&status).into_owned()
}

#[tokio::test]
async fn a_box_grants_what_is_listed_and_its_own_program() {
    let machine = Machine::new();
    let plan = machine.plan(&[], ConnectionRecord::default());
    let open_box = machine.opened(&plan).unwrap();
    let sandbox = open_box.sandbox();
    let expected = [
        ("data", FileAccess::Read),
        ("bin/server", FileAccess::Read),
        ("notes", FileAccess::Write),
        ("own", FileAccess::Write),
    ];
    let expected = expected.map(|(name, access)| (name.to_owned(), access));
    assert_eq!(machine.granted(&open_box), expected);
    assert_eq!(sandbox.hidden, [machine.path("notes/callgate.yaml")]);
    assert_eq!(sandbox.mode, Mode::BestEffort);
    assert_eq!(
        sandbox.network,
        Network::None,
        "without hosts there is no proxy"
    );
    assert_eq!(open_box.folder(), None);
}

#[tokio::test]
async fn what_the_system_has_anyway_and_what_may_be_changed_is_not_granted_for_reading_again() {
    let machine = Machine::new();
    symlink(machine.path("data"), machine.path("link")).unwrap();
    let mut plan = machine.plan(&[], ConnectionRecord::default());
    plan.spec.read = ["/usr/lib", "/etc/passwd"].map(PathBuf::from).to_vec();
    plan.spec.read.push(machine.path("missing"));
    plan.spec.read.push(machine.path("link"));
    plan.spec.write = vec![machine.path("bin")];
    let open_box = machine.opened(&plan).unwrap();
    let expected = [
        ("link", FileAccess::Read),
        ("bin", FileAccess::Write),
        ("own", FileAccess::Write),
    ];
    let expected = expected.map(|(name, access)| (name.to_owned(), access));
    assert_eq!(machine.granted(&open_box), expected);
}

#[tokio::test]
async fn paths_that_the_program_could_lead_elsewhere_or_lose_are_refused() {
    let machine = Machine::new();
    for (link, target) in [
        ("notes/link", "data"),
        ("notes/up", "bin"),
        ("own/link", "data"),
        ("outside", "notes/link"),
    ] {
        symlink(machine.path(target), machine.path(link)).unwrap();
    }
    let open = |read: &str, write: &str| {
        let mut plan = machine.plan(&[], ConnectionRecord::default());
        plan.spec.read = vec![machine.path(read)];
        plan.spec.write.push(machine.path(write));
        machine.opened(&plan)
    };
    for (read, write, link) in [
        ("notes/link", "notes", "notes/link"),
        ("notes/up/server", "notes", "notes/up"),
        ("own/link", "notes", "own/link"),
        ("outside", "notes", "notes/link"),
        ("data", "notes/link", "notes/link"),
    ] {
        let Err(BoxNotOpened::LinkOfItsOwn { link: found, .. }) = open(read, write) else {
            panic!("{read}, {write}");
        };
        assert_eq!(found, machine.path(link), "{read}, {write}");
    }
    let missing = open("data", "missing");
    assert!(
        matches!(missing, Err(BoxNotOpened::NothingToChange(path)) if path == machine.path("missing"))
    );
    assert!(open("missing", "notes").is_ok());
}

#[tokio::test]
async fn hosts_are_reached_through_a_proxy_that_lives_as_long_as_the_box() {
    let net = ["api.example.com:8443", "*.example", "127.0.0.1"];
    let open_box = open(&net, ConnectionRecord::default());
    let Network::Proxied(network) = open_box.sandbox().network.clone() else {
        panic!("it lists hosts");
    };
    let direct = |host: &str, port| HostPort {
        host: host.to_owned(),
        port,
    };
    let expected = [
        direct("api.example.com", 8443),
        direct("127.0.0.1", 443),
        direct("127.0.0.1", 80),
    ];
    assert_eq!(network.direct, expected);
    assert_eq!(network.socket.parent(), open_box.folder());
    assert!(network.socket.exists());
    open_box.close().await;
    assert!(!network.socket.exists());
}

#[tokio::test]
async fn connections_are_recorded_with_their_server() {
    let journal = Arc::new(Journal::default());
    let place = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listed = place.local_addr().unwrap().to_string();
    let open_box = open(&[&listed], ConnectionRecord::in_log(journal.recorder()));
    assert_eq!(ask(&open_box, &listed).await, "HTTP/1.1 200");
    assert_eq!(
        ask(&open_box, "elsewhere.example:443").await,
        "HTTP/1.1 403"
    );
    open_box.close().await;
    let recorded = journal.connections();
    let has = |text: &str| {
        let mut all = recorded.iter();
        all.any(|(server, what)| server.as_deref() == Some("notes") && what.starts_with(text))
    };
    assert!(has("server: outcome=opened host=127.0.0.1"), "{recorded:?}");
    assert!(has("server: outcome=closed"), "{recorded:?}");
    let refused = "server: outcome=refused reason=not_listed host=elsewhere.example port=443";
    assert!(has(refused), "{recorded:?}");
}

#[tokio::test]
async fn connections_from_before_the_log_was_open_are_recorded_when_it_opens() {
    let journal = Arc::new(Journal::default());
    let record = ConnectionRecord::default();
    let open_box = open(&["api.example.com"], record.clone());
    assert_eq!(
        ask(&open_box, "elsewhere.example:443").await,
        "HTTP/1.1 403"
    );
    assert_eq!(journal.connections(), []);
    record.log_is_open(journal.recorder());
    assert_eq!(journal.connections().len(), 1);
    assert_eq!(ask(&open_box, "elsewhere.example:80").await, "HTTP/1.1 403");
    tokio::time::timeout(Duration::from_secs(20), open_box.close())
        .await
        .unwrap();
    assert_eq!(journal.connections().len(), 2);
}
