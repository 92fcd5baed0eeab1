//! What all lanes of a configuration share: options and the HTTP client.

use std::sync::{Mutex, PoisonError};

use callgate_boxes::ConnectionRecord;
use callgate_record::Recorder;

use crate::{
    FleetOptions,
    http::{HttpClient, HttpError},
};

#[derive(Debug)]
pub(crate) struct Supplies {
    pub(crate) options: FleetOptions,
    /// Where the connections of boxed servers are recorded.
    pub(crate) record: ConnectionRecord,
    client: Mutex<Option<HttpClient>>,
}

impl Supplies {
    pub(crate) fn new(options: FleetOptions, recorder: &Recorder) -> Self {
        Self {
            options,
            record: ConnectionRecord::in_log(recorder.clone()),
            client: Mutex::default(),
        }
    }

    /// An HTTP client for one server.
    pub(crate) fn http(&self) -> Result<HttpClient, HttpError> {
        let mut client = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        // At the first use: reading the system's certificates costs time and memory, which a gateway without
        // HTTP servers need not spend.
        if client.is_none() {
            *client = Some(HttpClient::new()?);
        }
        client
            .as_ref()
            .map(HttpClient::for_another_server)
            .ok_or_else(|| HttpError::NoRoots("no client was made".to_owned()))
    }
}
