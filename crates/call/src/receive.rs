//! receive: a scanned request becomes an attempt with an id and a start time.

use std::{sync::Arc, time::Instant};

use callgate_gate::{Attempt, CallId, DeclaredIntent, Door, Host};
use callgate_wire::{Frame, RpcError};
use ulid::Ulid;

use crate::TraceContext;

/// What a door passes to the path: a request that the scanner accepted.
#[derive(Debug)]
pub struct Received {
    pub frame: Frame,
    /// The host that sent it.
    pub host: Arc<Host>,
    /// The door it came through.
    pub door: Door,
    /// The trace context beside the request, from an HTTP header.
    pub trace: Option<TraceContext>,
    /// How the view understood the request.
    pub reading: Reading,
}

impl Received {
    /// A request without a translation by the view, and without a trace.
    pub fn plain(frame: Frame, host: Arc<Host>, door: Door) -> Self {
        Self {
            frame,
            host,
            door,
            trace: None,
            reading: Reading::Plain,
        }
    }
}

/// How a view understands a request.
#[derive(Debug)]
pub enum Reading {
    Plain,
    /// It stood for another call, which has replaced it. Its caller declared this intent.
    Declared(Arc<DeclaredIntent>),
    /// The view has no such name. The attempt is recorded and answered with this error.
    Nowhere(Box<RpcError>),
}

/// An attempt that was just received.
#[derive(Debug)]
pub(crate) struct ReceivedAttempt {
    pub(crate) attempt: Attempt,
    /// The error of a name that the view does not have.
    pub(crate) nowhere: Option<Box<RpcError>>,
    pub(crate) started: Instant,
    pub(crate) trace: Option<TraceContext>,
}

/// Gives the call its id and start time.
pub(crate) fn receive(received: Received) -> ReceivedAttempt {
    let Received {
        frame,
        host,
        door,
        trace,
        reading,
    } = received;
    let (declared, nowhere) = match reading {
        Reading::Plain => (None, None),
        Reading::Declared(declared) => (Some(declared), None),
        Reading::Nowhere(error) => (None, Some(error)),
    };
    let attempt = Attempt {
        id: CallId(Ulid::generate()),
        parent: None,
        via: None,
        host,
        door,
        frame,
        declared,
    };
    ReceivedAttempt {
        attempt,
        nowhere,
        started: Instant::now(),
        trace,
    }
}
