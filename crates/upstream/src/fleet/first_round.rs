//! The first round of connects: waiting for it, and reporting it.

use std::sync::Arc;

use callgate_call::events::upstreams::ProxyInit;

use super::{Fleet, ServerReport};
use crate::{ServerStatus, server::Server};

impl Fleet {
    /// Waits until every first connect has succeeded or failed, at most `connect_wait`: for callers that need
    /// the current status and not the lists of an earlier run.
    pub async fn settled(&self) {
        for server in self.roster.active().iter() {
            let mut state = server.state.subscribe();
            let settled = state.wait_for(|state| state.status != ServerStatus::Starting);
            // A server that is late is reported as `starting`.
            let _ = tokio::time::timeout_at(self.list_deadline(), settled).await;
        }
    }
}

/// Logs the servers that are still in their first connect when lists and calls stop waiting for them.
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

/// Emits the summary of the first round of connects, once.
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
    let silent: usize = connected
        .clone()
        .map(|report| report.unannotated_tools)
        .sum();
    let stopped = |report: &&&ServerReport| report.status == ServerStatus::Stopped;
    fleet.events.emit(ProxyInit {
        servers: reports.len(),
        connected: connected.count(),
        failed: reports.iter().filter(stopped).count(),
        tools,
        unannotated: silent,
    });
}
