//! A proxy with names of its own, clients that speak raw bytes, and destinations that keep what they were sent.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex},
    time::Duration,
};

use callgate_egress::{
    ConnectionLog, ConnectionReport, DestinationRules, Egress, Limits, Options, Resolver,
};
use futures_util::{FutureExt, future::BoxFuture};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, UnixStream},
    time::timeout,
};

/// Long enough for a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The names that the proxy can resolve. A name with several answers gives one per lookup, and keeps the last.
#[derive(Debug, Default)]
pub(crate) struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    pub(crate) lookups: Mutex<Vec<String>>,
}

impl Names {
    pub(crate) fn set(&self, name: &str, answers: &[&[&str]]) {
        let parse = |answer: &&[&str]| answer.iter().map(|one| one.parse().unwrap()).collect();
        let answers = answers.iter().map(parse).collect();
        self.answers
            .lock()
            .unwrap()
            .insert(name.to_owned(), answers);
    }

    pub(crate) fn lookups(&self) -> Vec<String> {
        self.lookups.lock().unwrap().clone()
    }
}

impl Resolver for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.lookups.lock().unwrap().push(name.to_owned());
        if name == "never.example" {
            return std::future::pending().boxed();
        }
        let mut answers = self.answers.lock().unwrap();
        let answer = match answers.get_mut(name) {
            Some(answers) if answers.len() > 1 => Ok(answers.remove(0)),
            Some(answers) => Ok(answers[0].clone()),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        async move { answer }.boxed()
    }
}

/// The reports of a proxy, as text.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Vec<String>>);

impl ConnectionLog for Kept {
    fn report(&self, report: &ConnectionReport) {
        self.0.lock().unwrap().push(report.to_string());
    }
}

impl Kept {
    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// The first report that contains `text`, once there is one.
    pub(crate) async fn wait_for(&self, text: &str) -> String {
        let found = async {
            loop {
                if let Some(found) = self.all().into_iter().find(|one| one.contains(text)) {
                    return found;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let found = timeout(PATIENCE, found).await;
        found.unwrap_or_else(|_| panic!("no report `{text}` in {:?}", self.all()))
    }
}

/// A proxy, its names and its reports.
pub(crate) struct Bench {
    pub(crate) egress: Egress,
    pub(crate) names: Arc<Names>,
    pub(crate) log: Arc<Kept>,
}

impl Bench {
    pub(crate) fn new(listed: &[String]) -> Self {
        Self::with(listed, Limits::default(), false)
    }

    pub(crate) fn with(listed: &[String], limits: Limits, loopback: bool) -> Self {
        let rules = DestinationRules::parse(listed).unwrap();
        let (names, log) = (Arc::new(Names::default()), Arc::new(Kept::default()));
        let options = Options {
            loopback,
            limits,
            resolver: names.clone(),
            ..Options::default()
        };
        let egress = Egress::start(rules, log.clone(), options).unwrap();
        Self { egress, names, log }
    }

    pub(crate) async fn client(&self) -> Client<UnixStream> {
        Client(UnixStream::connect(self.egress.socket()).await.unwrap())
    }

    /// Sends a request on a connection of its own and returns the answer.
    pub(crate) async fn ask(&self, request: &str) -> String {
        let mut client = self.client().await;
        client.send(request).await;
        client.answer().await
    }
}

/// A client of a proxy.
pub(crate) struct Client<S>(pub(crate) S);

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) async fn send(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads one answer with a declared length.
    pub(crate) async fn answer(&mut self) -> String {
        let mut text = String::new();
        while !text.ends_with("\r\n\r\n") {
            text.push(self.byte().await);
        }
        let head = text.to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.map_or(0, |length| length.parse().unwrap());
        for _ in 0..length {
            text.push(self.byte().await);
        }
        text
    }

    async fn byte(&mut self) -> char {
        let read = timeout(PATIENCE, self.0.read_u8()).await.expect("in time");
        char::from(read.expect("more bytes"))
    }

    /// Opens a tunnel; fails the test if the proxy refuses it.
    pub(crate) async fn connect(&mut self, authority: &str) {
        self.send(&connect(authority)).await;
        let answer = self.answer().await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }

    /// All bytes up to the end of the connection.
    pub(crate) async fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        let read = timeout(PATIENCE, self.0.read_to_end(&mut bytes)).await;
        // A reset ends the connection as well.
        let _ = read.expect("the connection ends in time");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

pub(crate) fn connect(authority: &str) -> String {
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n")
}

/// A destination on this machine.
pub(crate) struct Place {
    pub(crate) port: u16,
    received: Arc<Mutex<Vec<String>>>,
}

impl Place {
    /// Sends back every byte, and the end.
    pub(crate) async fn echo() -> Self {
        Self::serving(|mut stream, _| {
            async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
                let _ = write.shutdown().await;
            }
            .boxed()
        })
        .await
    }

    /// Answers every connection with these bytes after the head of a request, and keeps all that arrives.
    pub(crate) async fn answering(answer: &'static str) -> Self {
        Self::serving(move |mut stream, received| {
            async move {
                let index = {
                    let mut all = received.lock().unwrap();
                    all.push(String::new());
                    all.len() - 1
                };
                let mut is_answered = false;
                let mut bytes = [0; 4096];
                while let Ok(length @ 1..) = stream.read(&mut bytes).await {
                    let has_head = {
                        let mut all = received.lock().unwrap();
                        all[index].push_str(&String::from_utf8_lossy(&bytes[..length]));
                        all[index].contains("\r\n\r\n")
                    };
                    if has_head && !is_answered {
                        is_answered = true;
                        let _ = stream.write_all(answer.as_bytes()).await;
                    }
                }
            }
            .boxed()
        })
        .await
    }

    async fn serving<F>(serve: F) -> Self
    where
        F: Fn(tokio::net::TcpStream, Arc<Mutex<Vec<String>>>) -> BoxFuture<'static, ()>
            + Send
            + 'static,
    {
        let listener = TcpListener::bind((LOCAL, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let received: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = received.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, kept.clone()));
            }
        });
        Self { port, received }
    }

    /// What arrived, by connection.
    pub(crate) fn received(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }

    /// The place under a name.
    pub(crate) fn named(&self, name: &str) -> String {
        format!("{name}:{}", self.port)
    }
}

/// An answer that ends with its connection unbroken.
pub(crate) const HELLO: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
