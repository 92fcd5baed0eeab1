//! The record over HTTP: lists, single records, exports and summaries.

use std::{
    io::{self, Write},
    sync::Arc,
};

use axum::{
    Extension, Json,
    body::Body,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use callgate_record::{Activity, ActivityFilter, Archive, ArchiveError, Format};
use futures_util::stream;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use utoipa::{IntoParams, ToSchema};

use super::{
    super::{Shared, auth::Reach},
    filter::{self, ActivityQuery},
    problem::Problem,
};

/// The size of one piece of an export.
const PIECE_BYTES: usize = 64 * 1024;
/// How many pieces may wait for a slow reader.
const PIECES: usize = 4;

#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Listed {
    /// The records, newest first.
    #[schema(value_type = Vec<Object>)]
    activities: Vec<Activity>,
    /// The number of matching records on all pages.
    total: u64,
    /// The `cursor` of the next page.
    next_cursor: Option<String>,
}

/// The period of a summary.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct Period {
    /// `1h`, `24h`, `7d` or `30d`; `24h` when left out.
    period: Option<String>,
}

/// Lists records, newest first.
#[utoipa::path(get, path = "/api/v1/activity", params(ActivityQuery), responses(
    (status = 200, body = Listed), (status = 400, body = Problem), (status = 401, body = Problem)
))]
pub(super) async fn list(
    State(shared): State<Arc<Shared>>,
    Extension(reach): Extension<Reach>,
    asked: Result<Query<ActivityQuery>, QueryRejection>,
) -> Result<Json<Listed>, Problem> {
    let filter = within_reach(query(asked)?.into_filter()?, reach)?;
    let page = blocking(&shared, move |archive| archive.page(&filter)).await?;
    Ok(Json(Listed {
        activities: page.activities,
        total: page.total,
        next_cursor: page.next_cursor,
    }))
}

/// Shows one record.
#[utoipa::path(get, path = "/api/v1/activity/{id}", params(("id" = String, Path, description = "The record's id")), responses(
    (status = 200, body = Object), (status = 404, body = Problem), (status = 401, body = Problem)
))]
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    Extension(reach): Extension<Reach>,
    Path(id): Path<String>,
) -> Result<Json<Activity>, Problem> {
    let unknown = || {
        let what = format!("there is no record `{id}`");
        Problem::new(StatusCode::NOT_FOUND, "RECORD_NOT_FOUND", what)
    };
    let id = filter::id(&id).map_err(|_| unknown())?;
    let record = blocking(&shared, move |archive| archive.get(id)).await?;
    // The same answer for another tenant's record and for a missing one, so that ids cannot be probed.
    let record = record.filter(|record| reach.includes(record.tenant.as_deref()));
    record.map(Json).ok_or_else(unknown)
}

/// Writes records out, oldest first.
#[utoipa::path(get, path = "/api/v1/activity/export", params(ActivityQuery), responses(
    (status = 200, description = "JSON lines or CSV"), (status = 400, body = Problem), (status = 401, body = Problem)
))]
pub(super) async fn export(
    State(shared): State<Arc<Shared>>,
    Extension(reach): Extension<Reach>,
    asked: Result<Query<ActivityQuery>, QueryRejection>,
) -> Result<Response, Problem> {
    let asked = query(asked)?;
    let (format, kind) = match asked.format() {
        None | Some("jsonl") => (Format::Jsonl, "application/x-ndjson"),
        Some("csv") => (Format::Csv, "text/csv; charset=utf-8"),
        Some(other) => {
            let what = format!("invalid `format` `{other}`: use jsonl or csv");
            return Err(Problem::parameter(what));
        }
    };
    let filter = within_reach(asked.into_filter()?, reach)?;
    let archive = archive(&shared)?;
    let (sender, receiver) = mpsc::channel(PIECES);
    // The export reads from disk and blocks on the channel when the client is slow. That is its backpressure: at most
    // `PIECES` pieces are in memory.
    tokio::task::spawn_blocking(move || {
        let mut out = ExportWriter {
            piece: Vec::with_capacity(PIECE_BYTES),
            sender,
        };
        if let Err(error) = archive.export(format, &filter, &mut out) {
            crate::log::export_ended_early(&error);
            // Sent as an error so that the connection breaks: a clean end would look like a complete export.
            let broken = io::Error::other("the export ended early");
            let _ = out.sender.blocking_send(Err(broken));
        }
    });
    let pieces = stream::unfold(receiver, |mut receiver| async move {
        Some((receiver.recv().await?, receiver))
    });
    let mut response = Body::from_stream(pieces).into_response();
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(response)
}

/// Counts records by status, intent, decision, server and tool.
#[utoipa::path(get, path = "/api/v1/activity/summary", params(Period), responses(
    (status = 200, body = Object), (status = 400, body = Problem), (status = 401, body = Problem)
))]
pub(super) async fn summary(
    State(shared): State<Arc<Shared>>,
    Extension(reach): Extension<Reach>,
    period: Result<Query<Period>, QueryRejection>,
) -> Result<Json<Value>, Problem> {
    let period = query(period)?.period;
    let period = period.unwrap_or_else(|| "24h".to_owned());
    let hours = match period.as_str() {
        "1h" => 1,
        "24h" => 24,
        "7d" => 7 * 24,
        "30d" => 30 * 24,
        other => {
            let what = format!("invalid `period` `{other}`: use 1h, 24h, 7d or 30d");
            return Err(Problem::parameter(what));
        }
    };
    let since = Timestamp::now()
        .checked_sub(SignedDuration::from_hours(hours))
        .unwrap_or(Timestamp::MIN);
    let tenant = reach.into_tenant();
    let summary = blocking(&shared, move |archive| {
        archive.summary(since, tenant.as_deref())
    });
    let summary = summary.await?;
    let counted = |counts: Vec<(String, u64)>| -> Value {
        let pairs = counts.into_iter().map(|(sort, count)| (sort, count.into()));
        Value::Object(pairs.collect())
    };
    Ok(Json(json!({
        "period": period,
        "since": format!("{since:.6}"),
        "total": summary.total,
        "by_status": counted(summary.by_status),
        "by_intent": counted(summary.by_intent),
        "by_decision": counted(summary.by_decision),
        "by_server": counted(summary.by_server),
        "by_tool": counted(summary.by_tool),
    })))
}

/// Restricts a filter to the caller's reach. Naming another tenant is an error, not an empty result.
fn within_reach(mut filter: ActivityFilter, reach: Reach) -> Result<ActivityFilter, Problem> {
    let Some(own) = reach.into_tenant() else {
        return Ok(filter);
    };
    match filter.tenant.replace(own.clone()) {
        Some(other) if other != own => {
            let what = "there is no such tenant";
            Err(Problem::new(StatusCode::NOT_FOUND, "NOT_FOUND", what))
        }
        Some(_) | None => Ok(filter),
    }
}

fn query<T>(asked: Result<Query<T>, QueryRejection>) -> Result<T, Problem> {
    let asked = asked.map_err(|refused| Problem::parameter(refused.body_text()))?;
    Ok(asked.0)
}

fn archive(shared: &Shared) -> Result<Arc<dyn Archive>, Problem> {
    shared.archive.clone().ok_or_else(|| {
        let what = "this gateway has no readable record";
        Problem::new(StatusCode::NOT_FOUND, "NO_RECORD", what)
    })
}

/// Queries the archive on a blocking thread, since it reads from disk.
async fn blocking<T: Send + 'static>(
    shared: &Shared,
    ask: impl FnOnce(&dyn Archive) -> Result<T, ArchiveError> + Send + 'static,
) -> Result<T, Problem> {
    let archive = archive(shared)?;
    let asked = tokio::task::spawn_blocking(move || ask(&*archive)).await;
    let unavailable = || {
        let what = "the activity log could not be read; see the gateway's log";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "RECORD_UNAVAILABLE", what)
    };
    match asked {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error @ ArchiveError::BadCursor { .. })) => {
            Err(Problem::parameter(error.to_string()))
        }
        Ok(Err(
            error @ (ArchiveError::Unreadable { .. }
            | ArchiveError::NotDropped { .. }
            | ArchiveError::Unwritable(_)),
        )) => {
            crate::log::record_not_read(&error);
            Err(unavailable())
        }
        Err(_) => Err(unavailable()),
    }
}

/// The writer of an export. It sends pieces to the response body and blocks while the client is slow.
struct ExportWriter {
    piece: Vec<u8>,
    sender: mpsc::Sender<io::Result<Bytes>>,
}

impl Write for ExportWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE_BYTES {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(PIECE_BYTES));
        let sent = self.sender.blocking_send(Ok(piece.into()));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}
