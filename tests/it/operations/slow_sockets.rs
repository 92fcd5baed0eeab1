//! Clients that only take: half a header, a body byte by byte, an answer never read. They cost
//! others nothing, and they are cut off.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use callgate_testkit::{HttpHost, HttpReply};
use rustix::{net::sockopt::set_socket_recv_buffer_size, process::Signal};

use crate::evidence::{COUNTER, assert_done, call_line, signal, wait_for_effect};
use crate::setup::{Bed, Served, VERSION};

/// How many slow sockets there are unless `CALLGATE_SLOW_SOCKETS` says otherwise.
const SOCKETS: usize = 200;
/// How many of them never read their two answers.
const DEAF: usize = 8;
/// The size of such an answer; both are larger than the buffers of the two sockets together.
const UNREAD_BYTES: usize = 4_000_000;
/// The receive buffer of a client that does not read. Without it, some kernels buffer both answers.
const DEAF_BUFFER_BYTES: usize = 64 * 1024;
const ROUNDS: usize = 4;
const PROBES: usize = 50;
/// When the gateway gives up on a header that does not end.
const CUT_OFF: Duration = Duration::from_secs(10);

/// The start of requests that this session may make.
struct Session {
    authority: String,
    head: String,
}

/// How a socket is slow.
enum Slowness {
    HalfHeader,
    ByteByByte,
    Deaf,
}

impl Session {
    fn new(served: &Served) -> Self {
        let reply = served
            .host()
            .post(&callgate_testkit::initialize_line(VERSION));
        let reply = reply.expect("the gateway answers");
        let session = reply.header("mcp-session-id").expect("a session");
        let authority = served.url.trim_start_matches("http://");
        let authority = authority.trim_end_matches("/mcp").to_owned();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nHost: {authority}\r\nAuthorization: Bearer {}\r\n\
             Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: {VERSION}\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n",
            served.token
        );
        Self { authority, head }
    }

    fn open(&self, at: usize, slowness: &Slowness) -> TcpStream {
        let mut socket = TcpStream::connect(&self.authority).expect("it listens");
        if matches!(slowness, Slowness::Deaf) {
            set_socket_recv_buffer_size(&socket, DEAF_BUFFER_BYTES).expect("it has a buffer");
        }
        let begun = match slowness {
            Slowness::HalfHeader => self.head.clone(),
            Slowness::ByteByByte => format!("{}Content-Length: 200000\r\n\r\n", self.head),
            Slowness::Deaf => {
                let big = |id| {
                    let arguments = format!(r#"{{"bytes":{UNREAD_BYTES}}}"#);
                    let line = call_line(id, "big", &arguments);
                    let length = line.len();
                    format!("{}Content-Length: {length}\r\n\r\n{line}", self.head)
                };
                let id = 1000 + 2 * at as u64;
                big(id) + &big(id + 1)
            }
        };
        socket.write_all(begun.as_bytes()).expect("it reads");
        socket
    }

    /// Opens so many slow sockets of all kinds.
    fn open_all(&self, sockets: usize) -> Vec<(Slowness, TcpStream)> {
        let kind = |at: usize| match at {
            at if at < DEAF => Slowness::Deaf,
            at if at % 2 == 0 => Slowness::HalfHeader,
            _ => Slowness::ByteByByte,
        };
        let open = |at| (kind(at), self.open(at, &kind(at)));
        (0..sockets).map(open).collect()
    }
}

/// Slow sockets, and the thread that gives each slow body a byte now and then.
struct SlowSockets {
    sockets: Vec<(Slowness, TcpStream)>,
    enough: Arc<AtomicBool>,
    dripping: Option<JoinHandle<()>>,
}

impl SlowSockets {
    /// Opens them, and waits until the unread answers have begun.
    fn gather(session: &Session, sockets: usize) -> Self {
        let mut sockets = session.open_all(sockets);
        for (slowness, socket) in &mut sockets {
            if matches!(slowness, Slowness::Deaf) {
                let deadline = Some(Duration::from_secs(60));
                socket.set_read_timeout(deadline).expect("it has one");
                socket.read_exact(&mut [0]).expect("an answer begins");
            }
        }
        let is_dripping = |(slowness, socket): &(Slowness, TcpStream)| {
            let drips = matches!(slowness, Slowness::ByteByByte);
            drips.then(|| socket.try_clone().expect("a socket can be cloned"))
        };
        let bodies: Vec<TcpStream> = sockets.iter().filter_map(is_dripping).collect();
        let enough = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&enough);
        let dripping = thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                for mut body in &bodies {
                    // One that was cut off takes no more.
                    let _ = body.write_all(b"{");
                }
                // Not a wait for anything: how slow the bodies are.
                thread::sleep(Duration::from_millis(100));
            }
        });
        Self {
            sockets,
            enough,
            dripping: Some(dripping),
        }
    }

    /// Waits until every socket of a kind has been closed by the gateway; gives what each was told.
    fn wait_for_end(&mut self, wanted: fn(&Slowness) -> bool, within: Duration) -> Vec<String> {
        let deadline = Instant::now() + within;
        let mut told = Vec::new();
        for (slowness, socket) in &mut self.sockets {
            if !wanted(slowness) {
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let left = left.max(Duration::from_millis(1));
            socket.set_read_timeout(Some(left)).expect("it has one");
            let mut heard = Vec::new();
            match socket.read_to_end(&mut heard) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    panic!("still open after {within:?}")
                }
                // Closed, in good order or not.
                Ok(_) | Err(_) => told.push(String::from_utf8_lossy(&heard).into_owned()),
            }
        }
        told
    }
}

impl Drop for SlowSockets {
    fn drop(&mut self) {
        self.enough.store(true, Ordering::Relaxed);
        if let Some(dripping) = self.dripping.take() {
            let _ = dripping.join();
        }
    }
}

/// How long calls of a host that behaves take.
fn probe(host: &HttpHost) -> Vec<Duration> {
    let one = |id: usize| {
        let line = call_line(id as u64, "read_thing", r#"{"key":"probe"}"#);
        let start = Instant::now();
        let reply = host.post(&line).and_then(HttpReply::frames);
        let took = start.elapsed();
        assert_done(reply.map(|frames| frames.concat()));
        took
    };
    (0..PROBES).map(one).collect()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[test]
fn slow_sockets_do_not_slow_others_and_are_closed() {
    let asked = std::env::var("CALLGATE_SLOW_SOCKETS").ok();
    let asked = asked.and_then(|sockets| sockets.parse().ok());
    let sockets = asked.unwrap_or(SOCKETS);
    let bed = Bed::new(COUNTER);
    let served = bed.serve();
    let host = served.host_ready();
    let session = Session::new(&served);
    probe(&host);
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        alone.extend(probe(&host));
        let slow = SlowSockets::gather(&session, sockets);
        beside.extend(probe(&host));
        drop(slow);
    }
    let (alone, beside) = (median(alone), median(beside));
    println!("median of a call: {alone:?} alone, {beside:?} beside {sockets} slow sockets");
    // A machine that builds and tests at the same time says nothing about a factor: there, a call
    // only must not wait until slow sockets are cut off.
    let most = if asked.is_some() {
        alone * 2
    } else {
        CUT_OFF / 4
    };
    assert!(beside < most, "{alone:?} became {beside:?}");

    let mut slow = SlowSockets::gather(&session, sockets);
    let half = |slowness: &Slowness| matches!(slowness, Slowness::HalfHeader);
    let cut = slow.wait_for_end(half, Duration::from_secs(15)).len();
    println!("{cut} half headers were cut off");
    assert!(cut > sockets / 3);
    if asked.is_some() {
        let bodies = |slowness: &Slowness| matches!(slowness, Slowness::ByteByByte);
        let told = slow.wait_for_end(bodies, Duration::from_secs(30));
        let timed_out = told.iter().filter(|told| told.starts_with("HTTP/1.1 408 "));
        println!("{} bodies were cut off", told.len());
        assert_eq!(timed_out.count(), told.len());
        let deaf = |slowness: &Slowness| matches!(slowness, Slowness::Deaf);
        let told = slow.wait_for_end(deaf, Duration::from_secs(30));
        println!("{} that did not read were cut off", told.len());
        assert!(told.iter().all(|told| told.len() < 2 * UNREAD_BYTES));
    }
    probe(&host);
}

#[test]
fn clients_that_only_open_sockets_do_not_lock_others_out() {
    let bed = Bed::new(&format!("{COUNTER}limits: {{connections: 16}}\n"));
    let served = bed.serve();
    let host = served.host_ready();
    let session = Session::new(&served);
    let half: Vec<_> = (0..40)
        .map(|at| session.open(at, &Slowness::HalfHeader))
        .collect();
    probe(&host);
    drop(half);
}

#[test]
fn clients_beyond_the_connection_limit_get_503() {
    let bed = Bed::new(&format!("{COUNTER}limits: {{connections: 4}}\n"));
    let served = bed.serve();
    let host = served.host_ready();
    thread::scope(|scope| {
        for id in 0..4 {
            let host = &host;
            scope.spawn(move || {
                let arguments = format!(r#"{{"key":"k{id}","ms":600000}}"#);
                let reply = host.post(&call_line(id, "slow", &arguments));
                assert!(reply.is_err(), "the gateway is killed first");
            });
        }
        for id in 0..4 {
            wait_for_effect(&bed, &format!("k{id}"));
        }
        let refused = host.post(&call_line(9, "effect", r#"{"key":"late"}"#));
        let refused = refused.expect("it answers");
        assert_eq!(refused.status, 503);
        assert_eq!(refused.header("retry-after"), Some("1"));
        signal(served.process.pid(), Signal::KILL);
    });
}
