//! Standing requests of hosts: resource subscriptions and log levels. Both are repeated when the server
//! or its session restarts.

use std::time::Duration;

use callgate_call::{Failure, Reply};
use callgate_gate::Host;
use callgate_record::Effect;
use callgate_wire::{Era, Frame, FrameKind, methods};
use futures_util::future::join_all;

use super::{Purpose, Server};
use crate::{
    Profile,
    connection::{Connection, HousekeepingError},
    outgoing::Housekeeping,
};

/// The deadline for each repeated request: a restarted server must not delay calls for longer.
const REPEAT_DEADLINE: Duration = Duration::from_secs(1);

impl Server {
    /// Subscribes a host to a resource, or unsubscribes it. The server gets a request only for the first and
    /// the last host of a connection; otherwise there is no reply of its own.
    pub(crate) async fn follow(
        &self,
        host: &Host,
        uri: &str,
        request: &Frame,
    ) -> Result<Option<Reply>, Failure> {
        let (connection, _lease) = self.connection(host, Purpose::Follow).await?;
        // Held until the server has answered, so that a subscribe and an unsubscribe of two hosts reach it in
        // the order in which the table changed.
        let _in_order = self.subscriptions.telling.lock().await;
        let follows = request.method() == Some(methods::RESOURCES_SUBSCRIBE);
        if follows {
            let spelled = request.param("uri").and_then(|uri| uri.as_str());
            let is_first = self
                .subscriptions
                .add(host, uri, spelled.as_deref().unwrap_or(uri));
            if !is_first {
                return Ok(None);
            }
        } else if !self.subscriptions.remove(host, uri) {
            return Ok(None);
        }
        let method = match follows {
            true => methods::RESOURCES_SUBSCRIBE,
            false => methods::RESOURCES_UNSUBSCRIBE,
        };
        if connection.listens(method, uri) {
            return Ok(None);
        }
        let what = Housekeeping::Follow { request, uri };
        let asked = connection.request(method, &what, self.spec.timeout).await;
        let is_followed = matches!(&asked, Ok(reply) if reply.kind() == FrameKind::Result);
        // A refused subscription must not stay: it would be repeated at every restart.
        if follows && !is_followed {
            self.subscriptions.remove(host, uri);
        }
        match asked {
            Ok(frame) => Ok(Some(Reply {
                frame,
                era: connection.era(),
            })),
            Err(error) => Err(self.failed(method, error)),
        }
    }

    /// A page of the tasks that the server has for a host.
    pub(crate) async fn tasks(&self, host: &Host, cursor: Option<&str>) -> Result<Reply, Failure> {
        let (connection, _lease) = self.connection(host, Purpose::Follow).await?;
        let method = methods::TASKS_LIST;
        let what = Housekeeping::List { method, cursor };
        let asked = connection.request(method, &what, self.spec.timeout).await;
        let era = connection.era();
        asked
            .map(|frame| Reply { frame, era })
            .map_err(|error| self.failed(method, error))
    }

    /// Removes a host that has disconnected. Returns the URIs that have no subscriber left.
    pub(crate) fn remove_subscriber(&self, host: &Host) -> Vec<String> {
        self.subscriptions.leave(host)
    }

    /// Unsubscribes from URIs that have no subscriber left.
    pub(crate) async fn abandon(&self, host: &Host, abandoned: Vec<String>) {
        let Some(connection) = self.existing_connection(host) else {
            return;
        };
        let _in_order = self.subscriptions.telling.lock().await;
        // Another host may have subscribed to one of them before the lock was taken.
        let followed = self.subscriptions.followed_over(&Profile::of(host));
        let abandoned = abandoned.iter().filter(|uri| !followed.contains(uri));
        let method = methods::RESOURCES_UNSUBSCRIBE;
        join_all(abandoned.map(|uri| follow_on(&connection, method, uri))).await;
    }

    /// Repeats the log level and the subscriptions of hosts to a restarted server. Best effort.
    pub(super) async fn repeat(&self, connection: &Connection, profile: &Profile) {
        if connection.era() == Era::Handshake
            && let Some(request) = self.levels.of(profile)
        {
            let what = Housekeeping::SetLevel(&request);
            let asked = connection.request(methods::SET_LEVEL, &what, REPEAT_DEADLINE);
            // A server without log levels answers with an error, which does no harm.
            let _ = asked.await;
        }
        let followed = self.subscriptions.followed_over(profile);
        let method = methods::RESOURCES_SUBSCRIBE;
        join_all(
            followed
                .iter()
                .map(|uri| follow_on(connection, method, uri)),
        )
        .await;
    }

    fn failed(&self, method: &'static str, error: HousekeepingError) -> Failure {
        let server = self.spec.name.clone();
        match error {
            HousekeepingError::TimedOut { .. } => Failure::TimedOut {
                server,
                name: method.to_owned(),
                timeout: self.spec.timeout,
                effect: Effect::Unknown,
            },
            HousekeepingError::Gone
            | HousekeepingError::Lost { .. }
            // The request may have been sent, so its effect is unknown.
            | HousekeepingError::TooLarge { .. } => Failure::Unavailable {
                server,
                effect: Effect::Unknown,
                detail: error.to_string(),
            },
        }
    }
}

async fn follow_on(connection: &Connection, method: &'static str, uri: &str) {
    if connection.listens(method, uri) {
        return;
    }
    let what = Housekeeping::FollowOn { method, uri };
    // Best effort: no request of a host is open that an error could be reported to.
    let _ = connection.request(method, &what, REPEAT_DEADLINE).await;
}
