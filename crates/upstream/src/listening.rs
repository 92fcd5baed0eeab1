//! Change notifications from a stateless server, which sends only what a client listens for. A handshake host
//! subscribes as usual, and the gateway listens on its behalf.

use std::{
    collections::BTreeSet,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use callgate_wire::{Era, Json, Strictness, methods, quote};
use tokio::sync::watch;

use crate::{
    connection::{Connection, HousekeepingError},
    outgoing::Housekeeping,
};

/// The pause before an ended stream is reopened.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest life of one stream; a new one follows it.
const LASTS: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug)]
pub(crate) struct Listening {
    /// The resources that hosts are subscribed to.
    resources: Mutex<BTreeSet<String>>,
    /// Counts changes of `resources`, to wake the listener.
    changes: watch::Sender<u64>,
}

impl Default for Listening {
    fn default() -> Self {
        Self {
            resources: Mutex::default(),
            changes: watch::Sender::new(0),
        }
    }
}

impl Listening {
    fn add(&self, uri: &str) {
        self.lock().insert(uri.to_owned());
        self.changes.send_modify(|changes| *changes += 1);
    }

    fn remove(&self, uri: &str) {
        self.lock().remove(uri);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// The notifications to request; `None` if there are none.
    fn filter(&self, capabilities: &str) -> Option<String> {
        let json = Json::validate(capabilities.as_bytes(), Strictness::Envelope).ok()?;
        let has = |kind: &str| {
            let flag = json.get(kind).and_then(|kind| kind.get("listChanged"));
            flag.and_then(Json::as_bool) == Some(true)
        };
        let kinds = [
            ("tools", "toolsListChanged"),
            ("prompts", "promptsListChanged"),
            ("resources", "resourcesListChanged"),
        ];
        let mut members: Vec<String> = kinds
            .into_iter()
            .filter(|(kind, _)| has(kind))
            .map(|(_, name)| format!(r#""{name}":true"#))
            .collect();
        let resources = self.lock();
        if !resources.is_empty() {
            let uris: Vec<String> = resources.iter().map(|uri| quote(uri)).collect();
            members.push(format!(r#""resourceSubscriptions":[{}]"#, uris.join(",")));
        }
        (!members.is_empty()).then(|| format!("{{{}}}", members.join(",")))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.resources
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    pub(crate) fn start_listening(&self, capabilities: String) {
        let connection = self.clone();
        self.spawn(async move { connection.listen(&capabilities).await });
    }

    /// Listens until the connection ends, with a new stream whenever the filter changes.
    async fn listen(&self, capabilities: &str) {
        let mut changes = self.listening().changes.subscribe();
        loop {
            // Before the filter is read: a change in between then opens one more stream and is not lost.
            changes.borrow_and_update();
            let Some(filter) = self.listening().filter(capabilities) else {
                if changes.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let what = Housekeeping::Listen { filter: &filter };
            let heard = tokio::select! {
                heard = self.request(methods::LISTEN, &what, LASTS) => heard,
                _ = changes.changed() => continue,
                () = self.ended().cancelled() => return,
            };
            match heard {
                // The server refused this filter; only another filter is worth a new attempt.
                Ok(reply) if reply.error().is_some() => {
                    if changes.changed().await.is_err() {
                        return;
                    }
                }
                Err(HousekeepingError::Gone) => return,
                Ok(_) | Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Applies a subscription to the filter of a stateless connection. `false` for a handshake server, which
    /// needs a request instead.
    pub(crate) fn listens(&self, method: &str, uri: &str) -> bool {
        if self.era() == Era::Handshake {
            return false;
        }
        if method == methods::RESOURCES_SUBSCRIBE {
            self.listening().add(uri);
        } else {
            self.listening().remove(uri);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listen_filter_follows_capabilities_and_subscriptions() {
        let listening = Listening::default();
        let capabilities = r#"{"tools":{"listChanged":true},"prompts":{},"resources":{}}"#;
        assert_eq!(
            listening.filter(capabilities).as_deref(),
            Some(r#"{"toolsListChanged":true}"#)
        );
        assert_eq!(listening.filter("{}"), None);
        listening.add("b");
        listening.add("a");
        listening.add("a");
        let both = r#"{"resourceSubscriptions":["a","b"]}"#;
        assert_eq!(listening.filter("{}").as_deref(), Some(both));
        listening.remove("a");
        listening.remove("a");
        let one = r#"{"resourceSubscriptions":["b"]}"#;
        assert_eq!(listening.filter("{}").as_deref(), Some(one));
    }
}
