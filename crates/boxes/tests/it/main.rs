//! Boxes as they are opened: what they grant, and what is recorded of their connections.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
    time::Duration,
};

use callgate_boxes::{BoxPlan, CONNECTION, ConnectionRecord, Occupant, OpenBox};
use callgate_gate::{BoxMode, BoxSpec};
use callgate_process::sandbox::{FileAccess, FileGrant, HostPort, Mode, Network};
use callgate_record::{
    DurabilityWait, Entry, OnFailure, Position, Recorder, Redactor, Store, StoreError,
};
use futures_util::future::{Either, ready};
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

fn spec(net: &[&str]) -> BoxSpec {
    BoxSpec {
        mode: BoxMode::BestEffort,
        read: vec![PathBuf::from("/opt/data")],
        write: vec![PathBuf::from("/srv/notes")],
        hidden: vec![PathBuf::from("/srv/notes/callgate.yaml")],
        net: net.iter().map(|host| (*host).to_owned()).collect(),
    }
}

fn open(net: &[&str], record: ConnectionRecord) -> OpenBox {
    let plan = BoxPlan {
        spec: spec(net),
        record,
    };
    let occupant = Occupant {
        server: Some("notes".to_owned()),
        title: "server".to_owned(),
        program: "/opt/notes/bin/notes".into(),
        own_folders: vec!["/srv/own".into()],
        ..Occupant::default()
    };
    plan.open(occupant).unwrap()
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
    let open_box = open(&[], ConnectionRecord::default());
    let sandbox = open_box.sandbox();
    let grant = |path: &str, access| FileGrant {
        path: path.into(),
        access,
    };
    let expected = [
        grant("/opt/data", FileAccess::Read),
        grant("/opt/notes/bin/notes", FileAccess::Read),
        grant("/srv/notes", FileAccess::Write),
        grant("/srv/own", FileAccess::Write),
    ];
    assert_eq!(sandbox.files, expected);
    assert_eq!(sandbox.hidden, [PathBuf::from("/srv/notes/callgate.yaml")]);
    assert_eq!(sandbox.mode, Mode::BestEffort);
    assert_eq!(
        sandbox.network,
        Network::None,
        "without hosts there is no proxy"
    );
    assert_eq!(open_box.folder(), None);
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
