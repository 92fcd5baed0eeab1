//! The first round of connects: waiting for it, and reporting it.

use std::sync::Arc;

use callgate_call::events::upstreams::ProxyInit;
use callgate_gate::ServerName;
use futures_util::future::join_all;

use super::{Fleet, ServerReport};
use crate::{
    ServerStatus,
    server::{Server, State},
};

impl Fleet {
    /// Waits while a server, or any, is in its first connect.
    pub(super) async fn wait_for_first_connect(&self, server: Option<&ServerName>) {
        let deadline = self.list_deadline();
        let is_requested = |one: &&Arc<Server>| server.is_none_or(|name| one.spec.name == *name);
        for server in self.roster.active().iter().filter(is_requested) {
            let mut state = server.state.subscribe();
            let settled = state.wait_for(State::can_list);
            // A server that is late joins the catalog when it connects, and hosts are notified then.
            let _ = tokio::time::timeout_at(deadline, settled).await;
        }
    }

    /// Waits for servers of which nothing is known yet, at most `initialize_wait`.
    pub(super) async fn wait_for_introductions(&self) {
        let longest = self.supplies.load().options.initialize_wait;
        let active = self.roster.active();
        let known = active.iter().map(|server| {
            let mut state = server.state.subscribe();
            async move { drop(state.wait_for(State::can_list).await) }
        });
        let _ = tokio::time::timeout(longest, join_all(known)).await;
    }

    /// The status of each server, in configuration order.
    pub fn reports(&self) -> Vec<ServerReport> {
        let report = |server: &Arc<Server>| {
            let state = server.state.borrow();
            let tools = state.tools.as_deref().unwrap_or_default();
            ServerReport {
                name: server.spec.name.clone(),
                transport: server.spec.launch.transport(),
                enabled: server.spec.launch.is_enabled(),
                status: state.status,
                reason: state.reason.clone(),
                tools: tools.len(),
                unannotated_tools: tools.iter().filter(|tool| tool.hints.is_silent()).count(),
                pid: state.pid,
            }
        };
        self.roster.active().iter().map(report).collect()
    }

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
