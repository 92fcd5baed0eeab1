//! The hosts that are there: whom servers can ask outside of any call, and what all servers are told.

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

/// How long a notification to all servers may take.
const TELL_ALL_DEADLINE: Duration = Duration::from_secs(1);

/// A host that is there.
#[derive(Debug)]
pub(super) struct Present {
    host: Arc<Host>,
    /// How it can be asked outside of any call, where it can be.
    resident: Option<Arc<dyn Resident>>,
}

impl Fleet {
    /// Who follows the resources of a server, kept over its restarts.
    pub(super) fn followers_of(&self, server: &ServerName) -> Arc<Subscriptions> {
        let subscriptions = self.subscriptions.lock();
        let mut subscriptions = subscriptions.unwrap_or_else(PoisonError::into_inner);
        subscriptions.entry(server.clone()).or_default().clone()
    }

    /// Takes note of a host that is there now.
    pub(super) fn came(&self, host: Arc<Host>, resident: Option<Arc<dyn Resident>>) {
        let mut residents = self
            .residents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if host.era == Era::Handshake {
            for server in self.roster.active().iter() {
                server.meet(&host);
            }
        }
        residents.insert(host.who.session.clone(), Present { host, resident });
    }

    /// Forgets a host, and what it asked servers to do.
    pub(super) fn went(&self, session: &str) {
        let mut residents = self
            .residents
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(Present { host, .. }) = residents.remove(session) else {
            return;
        };
        let is_kin = |other: &Present| Profile::of(&other.host).fits(&Profile::of(&host));
        if !residents.values().any(is_kin) {
            self.levels.forget(&host);
        }
        drop(residents);
        for server in self.roster.active().iter() {
            let abandoned = server.left_by(&host);
            if !abandoned.is_empty() {
                let (server, host) = (server.clone(), host.clone());
                self.tasks
                    .spawn(async move { server.abandon(&host, abandoned).await });
            }
        }
    }

    /// The only attached host that shares the connection of `audience` and may use `server`, if there is
    /// exactly one.
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
            .filter(|present| present.host.who.grant.includes(server.as_str()))
            // A host that only listens cannot be asked.
            .filter_map(|present| present.resident.as_ref());
        let first = sharing.next()?;
        sharing.next().is_none().then(|| first.asked_by(server))
    }

    /// Tells all servers of a host something, once they are past their first connect.
    pub(super) async fn tell(
        &self,
        host: &Host,
        what: &Housekeeping<'_>,
        request: Option<&'static str>,
    ) {
        let one = |server: &Arc<Server>| {
            let server = server.clone();
            async move {
                // What a host says at once is not too early for a server that is about to be there.
                let mut state = server.state.subscribe();
                let settled = state.wait_for(|state| state.status != ServerStatus::Starting);
                drop(settled.await);
                let Some(connection) = server.existing_connection(host) else {
                    return;
                };
                // Best effort: a server that does not answer is not waited for.
                match request {
                    // A stateless server is told with each call.
                    Some(_) if connection.era() == Era::Stateless => {}
                    Some(method) => drop(connection.request(method, what, TELL_ALL_DEADLINE).await),
                    None => drop(connection.notify(what).await),
                }
            }
        };
        let active = self.roster.active();
        let granted = active
            .iter()
            .filter(|server| host.who.grant.includes(server.spec.name.as_str()));
        let all = join_all(granted.map(one));
        let _ = tokio::time::timeout(TELL_ALL_DEADLINE, all).await;
    }
}
