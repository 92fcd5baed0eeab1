//! Lines on stdin and stdout.

use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex};

use super::{Fixture, Log, NOT_A_FRAME, Outlet, Peer, Received, Tables, locked, start};
use crate::frame::Frame;

/// This process's stdout.
#[derive(Debug)]
struct Stdout(Mutex<io::Stdout>);

impl Outlet for Stdout {
    /// One line; line breaks between tokens become spaces, for a line is all that this way carries.
    fn send(&self, message: &[u8]) {
        let space = |byte: &u8| if *byte == b'\n' { b' ' } else { *byte };
        let mut line: Vec<u8> = message.iter().map(space).collect();
        line.push(b'\n');
        let mut out = locked(&self.0);
        // A host that has gone away is not this side's concern.
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }

    fn announce(&self, message: &[u8]) {
        self.send(message);
    }
}

/// Serves until stdin ends.
pub(super) fn serve(fixture: &Arc<impl Fixture>, log: Arc<Log>) {
    let peer = Arc::new(Peer {
        out: Arc::new(Stdout(Mutex::new(io::stdout()))),
        log,
        tables: Arc::new(Tables::default()),
    });
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let line = line.strip_suffix(b"\n").unwrap_or(&line);
        peer.log.frame("< ", line);
        match Frame::parse(&String::from_utf8_lossy(line)) {
            Some(frame) => match peer.receive(&**fixture, frame) {
                Received::Request(incoming) => start(fixture, &peer, incoming),
                Received::Other => {}
            },
            None => peer.send(NOT_A_FRAME),
        }
    }
}
