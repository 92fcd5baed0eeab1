//! Connections of boxed processes in the activity log.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use callgate_egress::{ConnectionLog, ConnectionReport};
use callgate_record::{RecordType, Recorder};

/// The name of the event.
pub const CONNECTION: &str = "egress.connection";
/// How many connections are kept until the activity log is open.
const MAX_EARLY: usize = 256;

/// The activity log of connections. A process may start before the log is open; its connections are kept until then.
#[derive(Debug, Clone, Default)]
pub struct ConnectionRecord {
    recorder: Arc<OnceLock<Recorder>>,
    early: Arc<Mutex<Vec<Connection>>>,
}

/// One event.
#[derive(Debug)]
struct Connection {
    server: Option<String>,
    what: String,
}

/// Puts the connections of one process on record.
#[derive(Debug)]
pub(crate) struct RecordedConnections {
    pub(crate) record: ConnectionRecord,
    pub(crate) server: Option<String>,
    pub(crate) title: String,
}

impl ConnectionRecord {
    pub fn in_log(recorder: Recorder) -> Self {
        let record = Self::default();
        record.log_is_open(recorder);
        record
    }

    /// Records what happened so far, and from now on. A second log is ignored.
    pub fn log_is_open(&self, recorder: Recorder) {
        let recorder = self.recorder.get_or_init(|| recorder);
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.drain(..).for_each(|one| one.record(recorder));
    }

    fn add(&self, connection: Connection) {
        if let Some(recorder) = self.recorder.get() {
            return connection.record(recorder);
        }
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        // Again under the lock, because the log may have been opened meanwhile.
        match self.recorder.get() {
            Some(recorder) => connection.record(recorder),
            None if early.len() < MAX_EARLY => early.push(connection),
            None => crate::log::connection_not_on_record(&connection.what),
        }
    }
}

impl Drop for ConnectionRecord {
    fn drop(&mut self) {
        // The last one.
        if let Some(early) = Arc::get_mut(&mut self.early) {
            let early = early.get_mut().unwrap_or_else(PoisonError::into_inner);
            early
                .iter()
                .for_each(|one| crate::log::connection_not_on_record(&one.what));
        }
    }
}

impl Connection {
    fn record(&self, recorder: &Recorder) {
        let (server, what) = (self.server.as_deref(), Some(self.what.clone()));
        recorder.event(RecordType::System, CONNECTION, server, what);
    }
}

impl ConnectionLog for RecordedConnections {
    fn report(&self, report: &ConnectionReport) {
        self.record.add(Connection {
            server: self.server.clone(),
            what: format!("{}: {report}", self.title),
        });
    }
}
