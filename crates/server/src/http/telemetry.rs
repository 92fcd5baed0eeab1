//! `/events` and `/metrics`, for admins.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use callgate_call::{
    Standing,
    events::{Delivery, Listener},
};
use futures_util::stream;
use tokio_util::sync::CancellationToken;

use super::{
    Shared,
    auth::Reach,
    stream::{event_stream, keep_alive},
};
use crate::{Principal, principal::Pass};

/// The keep-alive interval of a quiet stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The content type of OpenMetrics text.
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

/// Streams events from now on, or those after `Last-Event-ID`, until the gateway stops.
pub(super) async fn events(
    State(shared): State<Arc<Shared>>,
    Extension(principal): Extension<Arc<Principal>>,
    Extension(reach): Extension<Reach>,
    headers: HeaderMap,
) -> Response {
    let last_id = headers.get(LAST_EVENT_ID).map(|id| id.to_str());
    // An id that is not text was not issued here; it is treated like an unknown one.
    let last_id = last_id.map(|id| id.unwrap_or_default());
    let feed = EventFeed {
        listener: shared.gateway.path.events().listen(last_id),
        greeting: Some(keep_alive()),
        reach,
        pass: shared.tokens.pass(&principal),
        close: shared.closing.close.clone(),
    };
    event_stream(stream::unfold(feed, |mut feed| async move {
        Some((Ok::<_, Infallible>(feed.next().await?), feed))
    }))
}

pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let status = &shared.gateway.status;
    let rows = status.rows();
    let pending_approvals = match shared.gateway.path.approval_service() {
        Some(approval_service) => approval_service.pending().await,
        None => 0,
    };
    let standing = Standing {
        upstreams: rows.into_iter().map(|row| (row.name, row.status)).collect(),
        pending_approvals,
        record_backlog: status.record_backlog(),
        index_lag: status.index_lag(),
    };
    let text = shared.gateway.path.events().metrics().render(&standing);
    let mut response = text.into_response();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, OPEN_METRICS);
    response
}

struct EventFeed {
    listener: Listener,
    /// Sent first, so that the client knows at once that the stream is open.
    greeting: Option<Bytes>,
    reach: Reach,
    /// The listener's token. The stream ends when it becomes invalid.
    pass: Pass,
    close: CancellationToken,
}

impl EventFeed {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        let next = tokio::select! {
            // Events first: those that happened before the close are delivered before the stream ends.
            biased;
            deliveries = self.listener.next() => Some(joined(&deliveries, &self.reach)),
            () = tokio::time::sleep(HEARTBEAT) => Some(keep_alive()),
            () = self.close.cancelled() => {
                let last = self.listener.fetch();
                (!last.is_empty()).then(|| joined(&last, &self.reach))
            }
        };
        next.filter(|_| self.pass.is_valid())
    }
}

/// The events that a listener may see, as bytes of its stream.
fn joined(deliveries: &[Delivery], reach: &Reach) -> Bytes {
    let is_for = |delivery: &&Delivery| match (reach, &delivery.tenant) {
        // An event without a tenant concerns the whole gateway, so every admin sees it.
        (Reach::All, _) | (_, None) => true,
        (Reach::Tenant(_), Some(tenant)) => reach.includes(Some(tenant)),
    };
    let mut seen = deliveries.iter().filter(is_for);
    match (seen.next(), seen.next()) {
        (Some(only), None) => only.frame.clone(),
        (first, second) => {
            let all = first.into_iter().chain(second).chain(seen);
            let mut out = Vec::new();
            all.for_each(|delivery| out.extend_from_slice(&delivery.frame));
            out.into()
        }
    }
}
