//! The attached hosts: which of them servers can ask outside of calls, and notifications from them to all
//! servers.

use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

use callgate_call::{Audience, Caller, Resident};
use callgate_gate::{Host, ServerName};
use callgate_wire::Era;
use futures_util::future::join_all;

use super::Fleet;
use crate::{
    Profile, ServerStatus, outgoing::Housekeeping, server::Server, subscriptions::Subscriptions,
};

/// The deadline of a notification to all servers, so that one slow server cannot hold up the host.
const TELL_ALL_DEADLINE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct AttachedHost {
    host: Arc<Host>,
    /// How it can be asked outside of calls; `None` for a host that only listens.
    resident: Option<Arc<dyn Resident>>,
}

impl Fleet {
    /// The resource subscriptions of a server, kept over its restarts.
    pub(super) fn subscriptions_of(&self, server: &ServerName) -> Arc<Subscriptions> {
        let subscriptions = self.subscriptions.lock();
        let mut subscriptions = subscriptions.unwrap_or_else(PoisonError::into_inner);
        subscriptions.entry(server.clone()).or_default().clone()
    }

    pub(super) fn host_attached(&self, host: Arc<Host>, resident: Option<Arc<dyn Resident>>) {
        let mut residents = self
            .residents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // A stateless host declares its capabilities with each request, so no process has to be started for it.
        if host.era == Era::Handshake {
            for server in self.roster.active().iter() {
                server.request_takeover(&host);
            }
        }
        residents.insert(
            host.identity.session.clone(),
            AttachedHost { host, resident },
        );
    }

    /// Lets a stateless host take over the servers whose lists depend on its capabilities.
    pub(super) async fn let_take_over(&self, host: &Host) {
        if host.era == Era::Handshake {
            return;
        }
        let active = self.roster.active();
        let granted = active
            .iter()
            .filter(|server| host.identity.grant.includes(server.spec.name.as_str()));
        join_all(granted.map(|server| server.taken_over_by(host))).await;
    }

    /// Forgets a host, its log level and its subscriptions.
    pub(super) fn host_detached(&self, session: &str) {
        let mut residents = self
            .residents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(AttachedHost { host, .. }) = residents.remove(session) else {
            return;
        };
        let is_kin = |other: &AttachedHost| Profile::of(&other.host).fits(&Profile::of(&host));
        // Under the lock: a host of the same kind that attaches now must not lose the level it sets.
        if !residents.values().any(is_kin) {
            self.levels.forget(&host);
        }
        drop(residents);
        for server in self.roster.active().iter() {
            let abandoned = server.remove_subscriber(&host);
            if !abandoned.is_empty() {
                let (server, host) = (server.clone(), host.clone());
                self.tasks
                    .spawn(async move { server.abandon(&host, abandoned).await });
            }
        }
    }

    /// The attached host that shares the connection of `audience` and may use `server`, if there is exactly
    /// one.
    pub(super) fn resident(
        &self,
        server: &ServerName,
        audience: &Audience,
    ) -> Option<Arc<dyn Caller>> {
        let residents = self
            .residents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut sharing = residents
            .values()
            .filter(|present| audience.includes(&present.host))
            .filter(|present| present.host.identity.grant.includes(server.as_str()))
            // A host that only listens cannot be asked.
            .filter_map(|present| present.resident.as_ref());
        // With a second candidate the question could reach the wrong host, so neither is asked.
        let first = sharing.next()?;
        sharing.next().is_none().then(|| first.asked_by(server))
    }

    /// Sends a message of a host to all its servers, once they are past their first connect.
    pub(super) async fn tell(
        &self,
        host: &Host,
        what: &Housekeeping<'_>,
        request: Option<&'static str>,
    ) {
        let one = |server: &Arc<Server>| {
            let server = server.clone();
            async move {
                // A host may send this right after `initialize`, when its servers are still connecting.
                let mut state = server.state.subscribe();
                let settled = state.wait_for(|state| state.status != ServerStatus::Starting);
                drop(settled.await);
                let Some(connection) = server.existing_connection(host) else {
                    return;
                };
                // Best effort: the host's own request does not depend on the servers' answers.
                match request {
                    // A stateless server gets the log level with each call.
                    Some(_) if connection.era() == Era::Stateless => {}
                    Some(method) => drop(connection.request(method, what, TELL_ALL_DEADLINE).await),
                    None => drop(connection.notify(what).await),
                }
            }
        };
        let active = self.roster.active();
        let granted = active
            .iter()
            .filter(|server| host.identity.grant.includes(server.spec.name.as_str()));
        let all = join_all(granted.map(one));
        let _ = tokio::time::timeout(TELL_ALL_DEADLINE, all).await;
    }
}
