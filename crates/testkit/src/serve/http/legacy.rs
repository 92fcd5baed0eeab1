//! HTTP+SSE of 2024-11-05: everything that the server says goes over one stream, whose first event
//! tells where messages are to be posted.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use super::Site;
use super::message::{Events, Request, respond};
use crate::frame::Frame;
use crate::serve::{Fixture, Peer, Received, start};

const MESSAGES: &str = "/messages?session=";

/// Answers one request; `false` when the connection is over.
pub(super) fn answer<F: Fixture>(
    site: &Site<F>,
    request: &Request,
    stream: &TcpStream,
) -> io::Result<bool> {
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/sse") => {
            let session = site.sessions.open();
            let mut events = Events::begin(stream.try_clone()?, &[])?;
            events.event("endpoint", format!("{MESSAGES}{}", session.id).as_bytes())?;
            session.standing.run(&mut events)?;
            return Ok(false);
        }
        ("POST", path) if path.starts_with(MESSAGES) => post(site, request, stream)?,
        (_, "/sse") => respond(stream, 405, &[], b"")?,
        _ => respond(stream, 404, &[], b"")?,
    }
    Ok(true)
}

fn post<F: Fixture>(site: &Site<F>, request: &Request, stream: &TcpStream) -> io::Result<()> {
    let Some(session) = site.sessions.find(&request.path[MESSAGES.len()..]) else {
        return respond(stream, 404, &[], b"no such session");
    };
    let Some(frame) = Frame::parse(&String::from_utf8_lossy(&request.body)) else {
        return respond(stream, 400, &[], b"not a frame");
    };
    let is_call = frame.method.as_deref() == Some("tools/call");
    if let Some(status) = site.way.call_status.filter(|_| is_call) {
        return respond(stream, status, &[], b"failed, as asked");
    }
    let peer = Arc::new(Peer {
        out: session.standing.clone(),
        log: site.log.clone(),
        tables: session.tables.clone(),
    });
    if let Received::Request(incoming) = peer.receive(&*site.fixture, frame) {
        start(&site.fixture, &peer, incoming);
    }
    respond(stream, 202, &[], b"")
}
