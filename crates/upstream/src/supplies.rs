//! What all lanes are made with.

use std::sync::{Mutex, PoisonError};

use crate::{
    FleetOptions,
    http::{HttpClient, HttpFailed},
};

/// The common options, and the HTTP client once one is needed.
#[derive(Debug)]
pub(crate) struct Supplies {
    pub(crate) options: FleetOptions,
    client: Mutex<Option<HttpClient>>,
}

impl Supplies {
    pub(crate) fn new(options: FleetOptions) -> Self {
        Self {
            options,
            client: Mutex::default(),
        }
    }

    /// An HTTP client for one server. What all share is made at the first use: reading the system's certificates takes time and
    /// memory that a gateway without HTTP servers need not spend.
    pub(crate) fn http(&self) -> Result<HttpClient, HttpFailed> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if client.is_none() {
            *client = Some(HttpClient::new()?);
        }
        client
            .as_ref()
            .map(HttpClient::of_another)
            .ok_or_else(|| HttpFailed::NoRoots("no client was made".to_owned()))
    }
}
