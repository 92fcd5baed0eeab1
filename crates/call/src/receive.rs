//! receive: a scanned request becomes an attempt with an id and a start time.

use std::{sync::Arc, time::Instant};

use callgate_gate::{Attempt, CallId, Door, Host};
use callgate_wire::Frame;
use ulid::Ulid;

use crate::TraceContext;

/// What a door hands to the path: a request that the scanner let through.
#[derive(Debug)]
pub struct Received {
    /// The request.
    pub frame: Frame,
    /// The host that sent it.
    pub host: Arc<Host>,
    /// The door it came through.
    pub door: Door,
    /// The trace it is part of, where that was said beside the request: in an HTTP header.
    pub trace: Option<TraceContext>,
}

/// Mints the call's id and notes when it came.
pub(crate) fn receive(received: Received) -> (Attempt, Instant, Option<TraceContext>) {
    let Received {
        frame,
        host,
        door,
        trace,
    } = received;
    let attempt = Attempt {
        id: CallId(Ulid::generate()),
        host,
        door,
        frame,
    };
    (attempt, Instant::now(), trace)
}
