//! A scripted guard, which may misbehave.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// What the other side does with a question.
#[derive(Debug, Clone)]
pub(crate) enum Does {
    /// Answers this, raw.
    Says(String),
    /// Answers depending on the question's body.
    Judges(fn(&str) -> Does),
    /// Takes it and says nothing.
    Nothing,
    /// Goes away.
    Leaves,
}

/// A scripted guard.
pub(crate) struct Fake {
    pub(crate) url: String,
    does: Arc<Mutex<Does>>,
    heard: Arc<Mutex<Vec<String>>>,
    key: Arc<Mutex<Option<String>>>,
}

impl Fake {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let does = Arc::new(Mutex::new(Does::Leaves));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let key = Arc::new(Mutex::new(None));
        let (doing, hearing, knowing) = (does.clone(), heard.clone(), key.clone());
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming().flatten() {
                let (key, body) = question(&stream);
                hearing
                    .lock()
                    .expect("the lock is not poisoned")
                    .push(body.clone());
                *knowing.lock().expect("the lock is not poisoned") = key;
                let mut does = doing.lock().expect("the lock is not poisoned").clone();
                while let Does::Judges(judge) = does {
                    does = judge(&body);
                }
                match does {
                    Does::Judges(_) => {}
                    // The client may have closed the connection after its answer.
                    Does::Says(answer) => drop((&stream).write_all(answer.as_bytes())),
                    Does::Nothing => silent.push(stream),
                    Does::Leaves => {}
                }
            }
        });
        Self {
            url,
            does,
            heard,
            key,
        }
    }

    pub(crate) fn now(&self, does: Does) {
        *self.does.lock().expect("the lock is not poisoned") = does;
    }

    /// The questions that were asked, oldest first.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("the lock is not poisoned").clone()
    }

    /// What the last question came with in `Authorization`.
    pub(crate) fn key(&self) -> Option<String> {
        self.key.lock().expect("the lock is not poisoned").clone()
    }
}

/// What a question came with in `Authorization`, and its body.
fn question(stream: &TcpStream) -> (Option<String>, String) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length, mut key) = (String::new(), 0, None);
    while reader.read_line(&mut line).unwrap_or(0) > 0 && !line.trim().is_empty() {
        let lower = line.to_ascii_lowercase();
        if let Some(bytes) = lower.strip_prefix("content-length:") {
            length = bytes.trim().parse().unwrap_or(0);
        }
        if lower.starts_with("authorization:") {
            key = line.split_once(':').map(|(_, key)| key.trim().to_owned());
        }
        line.clear();
    }
    let mut body = vec![0; length];
    // A connection that breaks off has asked nothing.
    let _ = reader.read_exact(&mut body);
    (key, String::from_utf8_lossy(&body).into_owned())
}

/// An answer over HTTP.
pub(crate) fn http(status: &str, body: &str) -> Does {
    let length = body.len();
    Does::Says(format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    ))
}

/// The body of an answer.
pub(crate) fn answer(decision: &str, rule: &str) -> String {
    format!(
        r#"{{"schema_version":"v1","decision":"{decision}","reason":"so","matched_rule":"{rule}","approval_id":null,"approval_url":null}}"#
    )
}
