//! receive: a scanned request becomes an attempt with an id and a start time.

use std::{sync::Arc, time::Instant};

use callgate_gate::{Attempt, CallId, Door, Host};
use callgate_wire::Frame;
use ulid::Ulid;

/// What a door hands to the path: a request that the scanner let through.
#[derive(Debug)]
pub struct Received {
    /// The request.
    pub frame: Frame,
    /// The host that sent it.
    pub host: Arc<Host>,
    /// The door it came through.
    pub door: Door,
}

/// Mints the call's id and notes when it came.
pub(crate) fn receive(received: Received) -> (Attempt, Instant) {
    let Received { frame, host, door } = received;
    (
        Attempt {
            id: CallId(Ulid::generate()),
            host,
            door,
            frame,
        },
        Instant::now(),
    )
}
