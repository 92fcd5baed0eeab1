//! The first round of connects: waiting for it, and what is said about it.

use std::sync::Arc;

use callgate_call::events::upstreams::ProxyInit;

use super::{Fleet, ServerReport};
use crate::{ServerStatus, server::Server};

impl Fleet {
    /// Waits until every server was reached or not, at most `connect_wait`: for whoever wants to know
    /// how they stand, and not what they listed last time.
    pub async fn settled(&self) {
        for server in self.roster.active().iter() {
            let mut state = server.state.subscribe();
            let settled = state.wait_for(|state| state.status != ServerStatus::Starting);
            // One that is not there by then stands as `starting`.
            let _ = tokio::time::timeout_at(self.list_deadline(), settled).await;
        }
    }
}

/// Says which servers are still in their first connect when lists and calls stop waiting for them.
pub(super) async fn warn_of_late_servers(fleet: Arc<Fleet>) {
    tokio::select! {
        () = tokio::time::sleep_until(fleet.list_deadline()) => {}
        () = fleet.shutdown.cancelled() => return,
    }
    let starting = |server: &&Arc<Server>| server.state.borrow().status == ServerStatus::Starting;
    for server in fleet.roster.active().iter().filter(starting) {
        crate::log::late(&server.spec.name);
    }
}

/// Says once how the first round of connects went.
pub(super) async fn sum_up(fleet: Arc<Fleet>) {
    for server in fleet.roster.active().iter() {
        let mut state = server.state.subscribe();
        tokio::select! {
            _ = state.wait_for(|state| state.status != ServerStatus::Starting) => {}
            () = fleet.shutdown.cancelled() => return,
        }
    }
    let reports = fleet.reports();
    let enabled = |report: &&ServerReport| report.enabled;
    let reports: Vec<&ServerReport> = reports.iter().filter(enabled).collect();
    let connected = reports
        .iter()
        .filter(|r| matches!(r.status, ServerStatus::Ok | ServerStatus::Degraded));
    let tools: usize = connected.clone().map(|report| report.tools).sum();
    let silent: usize = connected.clone().map(|report| report.silent_tools).sum();
    let stopped = |report: &&&ServerReport| report.status == ServerStatus::Stopped;
    fleet.events.emit(ProxyInit {
        servers: reports.len(),
        connected: connected.count(),
        failed: reports.iter().filter(stopped).count(),
        tools,
        unannotated: silent,
    });
}
