//! A guard that delays its answers until released.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// A guard that allows every call once it is released.
pub(super) struct SlowGuard {
    pub(super) url: String,
    state: Arc<(Mutex<GuardState>, Condvar)>,
}

#[derive(Default)]
struct GuardState {
    asked: usize,
    answers: bool,
}

impl SlowGuard {
    pub(super) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new((Mutex::new(GuardState::default()), Condvar::new()));
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = shared.clone();
                thread::spawn(move || answer_later(&stream, &shared));
            }
        });
        Self { url, state }
    }

    /// How many questions have come.
    pub(super) fn asked(&self) -> usize {
        self.state.0.lock().expect("no panic").asked
    }

    pub(super) fn answers(&self, answers: bool) {
        self.state.0.lock().expect("no panic").answers = answers;
        self.state.1.notify_all();
    }
}

fn answer_later(stream: &TcpStream, (state, changed): &(Mutex<GuardState>, Condvar)) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).unwrap_or(0) > 0 && !line.trim().is_empty() {
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let mut waiting = state.lock().expect("no panic");
    waiting.asked += 1;
    while !waiting.answers {
        waiting = changed.wait(waiting).expect("no panic");
    }
    drop(waiting);
    let body =
        r#"{"schema_version":"v1","decision":"ALLOW","reason":"so","matched_rule":"allow:x"}"#;
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    // A gateway that does not wait any more has closed the connection.
    let _ = (&mut &*stream).write_all(answer.as_bytes());
}
