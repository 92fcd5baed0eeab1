//! receive: a scanned request becomes an attempt with an id and a start time.

use std::{sync::Arc, time::Instant};

use callgate_gate::{Attempt, CallId, Declared, Door, Host};
use callgate_wire::{Frame, RpcError};
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
    /// What the view made of it.
    pub reading: Reading,
}

impl Received {
    /// A request that is the call that it seems to be, and part of no trace.
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

/// What a view makes of a request.
#[derive(Debug)]
pub enum Reading {
    /// It is the call that it seems to be.
    Plain,
    /// It stood for another call, which is in its place now, and this was declared with it.
    Declared(Arc<Declared>),
    /// The view has nothing of that name: the attempt ends here, and is put on record.
    Nowhere(Box<RpcError>),
}

/// An attempt that was just received.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) attempt: Attempt,
    /// Why the view leads it nowhere.
    pub(crate) nowhere: Option<Box<RpcError>>,
    pub(crate) started: Instant,
    pub(crate) trace: Option<TraceContext>,
}

/// Mints the call's id and notes when it came.
pub(crate) fn receive(received: Received) -> Begun {
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
    Begun {
        attempt,
        nowhere,
        started: Instant::now(),
        trace,
    }
}
