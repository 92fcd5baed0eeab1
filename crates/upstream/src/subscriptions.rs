//! Resource subscriptions of one server. Hosts that share a connection share its subscriptions: the first
//! host subscribes at the server, and the last one unsubscribes.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
};

use callgate_gate::Host;
use callgate_wire::Era;
use tokio::sync::Mutex as AsyncMutex;

use crate::Profile;

#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    table: Mutex<HashMap<SubscribedResource, Sessions>>,
    /// Held while a change is sent to the server, so that the server sees changes in the table's order.
    pub(crate) telling: AsyncMutex<()>,
}

/// A resource, for the hosts of one connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct SubscribedResource {
    principal: String,
    capabilities: String,
    uri: String,
}

/// The sessions, each with its own spelling of the URI.
type Sessions = HashMap<String, String>;

impl Subscriptions {
    /// Adds a host. `true` if it is the first, which has to subscribe at the server.
    pub(crate) fn add(&self, host: &Host, uri: &str, spelled: &str) -> bool {
        let mut table = self.lock();
        let sessions = table.entry(SubscribedResource::of(host, uri)).or_default();
        let is_first = sessions.is_empty();
        sessions.insert(host.identity.session.clone(), spelled.to_owned());
        is_first
    }

    /// Removes a host. `true` if it was the last, which has to unsubscribe at the server.
    pub(crate) fn remove(&self, host: &Host, uri: &str) -> bool {
        let mut table = self.lock();
        let Entry::Occupied(mut followed) = table.entry(SubscribedResource::of(host, uri)) else {
            return false;
        };
        let was_there = followed.get_mut().remove(&host.identity.session).is_some();
        let is_abandoned = followed.get().is_empty();
        if is_abandoned {
            followed.remove();
        }
        was_there && is_abandoned
    }

    /// Removes a session that has ended. Returns the URIs without a subscriber.
    pub(crate) fn leave(&self, host: &Host) -> Vec<String> {
        let mut abandoned = Vec::new();
        self.lock().retain(|followed, sessions| {
            let was_there = sessions.remove(&host.identity.session).is_some();
            if was_there && sessions.is_empty() {
                abandoned.push(followed.uri.clone());
            }
            !sessions.is_empty()
        });
        abandoned
    }

    /// All URIs that the hosts of a connection are subscribed to.
    pub(crate) fn followed_over(&self, profile: &Profile) -> Vec<String> {
        let table = self.lock();
        let followed = table.keys().filter(|followed| followed.is_over(profile));
        followed.map(|followed| followed.uri.clone()).collect()
    }

    /// The sessions to notify of a change of `uri` that came over the connection of `profile`, grouped by their
    /// spelling of the URI.
    pub(crate) fn of(&self, profile: &Profile, uri: &str) -> Vec<(String, Vec<String>)> {
        let table = self.lock();
        let here = |followed: &&SubscribedResource| followed.is_over(profile);
        let mut heard: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for followed in table.keys().filter(here).filter(|f| f.uri == uri) {
            for (session, spelled) in &table[followed] {
                let sessions = heard.entry(spelled.clone()).or_default();
                sessions.push(session.clone());
            }
        }
        // A server may report a sub-resource of the one that is subscribed to.
        if heard.is_empty() {
            let parts = |followed: &&SubscribedResource| uri.starts_with(&followed.uri);
            for followed in table.keys().filter(here).filter(parts) {
                for (session, spelled) in &table[followed] {
                    // A host that names the server with the resource gets its part in the same way.
                    let prefix = spelled.strip_suffix(&followed.uri).unwrap_or_default();
                    let sessions = heard.entry(format!("{prefix}{uri}")).or_default();
                    sessions.push(session.clone());
                }
            }
        }
        heard.into_iter().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SubscribedResource, Sessions>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SubscribedResource {
    fn of(host: &Host, uri: &str) -> Self {
        Self {
            principal: host.identity.principal.clone(),
            capabilities: host.capabilities.clone(),
            uri: uri.to_owned(),
        }
    }

    fn is_over(&self, profile: &Profile) -> bool {
        let principal = profile.principal.as_ref();
        // A stateless connection serves hosts of all capabilities.
        (profile.era == Era::Stateless || self.capabilities == profile.capabilities)
            && principal.is_none_or(|principal| *principal == self.principal)
    }
}

#[cfg(test)]
mod tests {
    use callgate_gate::CallerIdentity;

    use super::*;

    fn host(session: &str, capabilities: &str) -> Host {
        Host {
            identity: CallerIdentity {
                tenant: "local".into(),
                principal: "p".into(),
                agent: "a".into(),
                session: session.into(),
                grant: callgate_gate::Grant::default(),
            },
            client_info: None,
            capabilities: capabilities.into(),
            era: Era::Handshake,
        }
    }

    #[test]
    fn the_first_host_subscribes_and_the_last_unsubscribes() {
        let subscriptions = Subscriptions::default();
        let (one, two) = (host("1", "{}"), host("2", "{}"));
        assert!(subscriptions.add(&one, "u:x", "u:x"));
        assert!(!subscriptions.add(&two, "u:x", "u:x"));
        assert!(!subscriptions.add(&two, "u:x", "u:x"), "twice is once");
        assert!(subscriptions.add(&host("3", r#"{"roots":{}}"#), "u:x", "u:x"));
        assert!(!subscriptions.remove(&one, "u:x"));
        assert!(!subscriptions.remove(&one, "u:x"), "it is gone already");
        assert!(subscriptions.remove(&two, "u:x"));
        assert!(!subscriptions.remove(&two, "u:nothing"));
    }

    #[test]
    fn a_leaving_host_is_unsubscribed_from_everything() {
        let subscriptions = Subscriptions::default();
        let (one, two) = (host("1", "{}"), host("2", "{}"));
        subscriptions.add(&one, "u:x", "u:x");
        subscriptions.add(&one, "u:y", "u:y");
        subscriptions.add(&two, "u:y", "u:y");
        assert_eq!(subscriptions.leave(&one), ["u:x"]);
        assert_eq!(subscriptions.followed_over(&Profile::of(&two)), ["u:y"]);
        assert!(subscriptions.leave(&one).is_empty());
    }

    #[test]
    fn subscribers_are_notified_with_their_own_spelling_of_the_uri() {
        let subscriptions = Subscriptions::default();
        let (one, two) = (host("1", "{}"), host("2", "{}"));
        let over = Profile::of(&one);
        subscriptions.add(&one, "u://x", "u://x");
        subscriptions.add(&two, "u://x", "callgate://s/u://x");
        let heard = |spelled: &str, session: &str| (spelled.to_owned(), vec![session.to_owned()]);
        assert_eq!(
            subscriptions.of(&over, "u://x"),
            [heard("callgate://s/u://x", "2"), heard("u://x", "1")]
        );
        assert_eq!(subscriptions.of(&over, "u://other"), []);
        assert_eq!(
            subscriptions.of(&over, "u://x/part"),
            [
                heard("callgate://s/u://x/part", "2"),
                heard("u://x/part", "1")
            ]
        );
        let other = Profile::of(&host("4", r#"{"roots":{}}"#));
        assert_eq!(subscriptions.of(&other, "u://x"), []);
    }
}
