//! tasks/list of several servers, which is not in the snapshot: pages are asked for as hosts ask for
//! them, one server after the other, and our cursors say where that is.

use std::sync::Arc;

use callgate_call::Providers;
use callgate_gate::{Host, Listing, ServerName, shown_task};
use callgate_wire::{Frame, Json, RpcError, quote};

/// In front of our own cursors, so that a server's cursor is not taken for one.
const CURSOR_MARK: &str = "callgate-";

/// The result of one tasks/list.
pub(crate) async fn list_tasks(
    providers: &dyn Providers,
    host: &Arc<Host>,
    request: &Frame,
) -> Result<String, RpcError> {
    providers.first_connect(None).await;
    let catalog = providers.catalog();
    let having: Vec<&ServerName> = catalog
        .listings()
        .iter()
        .filter(|listing| listing.offers.task_list)
        .filter(|listing| host.who.grant.includes(listing.server.as_str()))
        .map(|listing: &Listing| &listing.server)
        .collect();
    if having.is_empty() {
        let message = "method `tasks/list` not found";
        return Err(RpcError::new(RpcError::METHOD_NOT_FOUND, message));
    }
    let (mut at, mut cursor) = begin(request, &having)?;
    while let Some(server) = having.get(at) {
        let asked = providers.tasks(host, server, cursor.as_deref()).await;
        let next = having.get(at + 1);
        // A server that cannot be asked now has no tasks to show now.
        let is_own = |id: &str| providers.owns_task(&host.who, server, id);
        let page = asked
            .ok()
            .and_then(|reply| page(&reply.frame, (*server, next), is_own));
        if let Some(page) = page {
            return Ok(page);
        }
        (at, cursor) = (at + 1, None);
    }
    Ok(r#"{"tasks":[]}"#.to_owned())
}

/// Which server a page begins at, and its own raw cursor.
fn begin(request: &Frame, having: &[&ServerName]) -> Result<(usize, Option<String>), RpcError> {
    let Some(cursor) = request.param("cursor") else {
        return Ok((0, None));
    };
    let text = cursor.as_str();
    let ours = text
        .as_deref()
        .and_then(|text| text.strip_prefix(CURSOR_MARK));
    let found = ours.and_then(|ours| {
        let (server, theirs) = match ours.split_once(':') {
            Some((server, theirs)) => (server, Some(quote(theirs))),
            None => (ours, None),
        };
        let at = having.iter().position(|name| name.as_str() == server)?;
        Some((at, theirs))
    });
    found.ok_or_else(|| RpcError::new(RpcError::INVALID_PARAMS, "`cursor` is not one of ours"))
}

/// A page with the tasks of a server that are the host's own.
fn page(
    reply: &Frame,
    (server, next): (&ServerName, Option<&&ServerName>),
    is_own: impl Fn(&str) -> bool,
) -> Option<String> {
    let tasks = reply.result_member("tasks")?;
    let own = tasks.elements().filter(|task| {
        let id = task.get("taskId").and_then(|id| id.as_str());
        id.is_some_and(|id| is_own(&id))
    });
    let shown: Vec<String> = own.map(|task| shown(task, server)).collect();
    let theirs = reply
        .result_member("nextCursor")
        .and_then(|next| next.as_str());
    let cursor = match (theirs, next) {
        (Some(theirs), _) => Some(format!("{CURSOR_MARK}{server}:{theirs}")),
        (None, Some(next)) => Some(format!("{CURSOR_MARK}{next}")),
        (None, None) => None,
    };
    let cursor = cursor.map(|cursor| format!(r#","nextCursor":{}"#, quote(&cursor)));
    Some(format!(
        r#"{{"tasks":[{}]{}}}"#,
        shown.join(","),
        cursor.unwrap_or_default()
    ))
}

/// A task under the id that hosts know; everything else in it stays byte for byte.
fn shown(task: Json<'_>, server: &ServerName) -> String {
    let text = task.as_text();
    let Some(id) = task.get("taskId") else {
        return text.to_owned();
    };
    let start = id.bytes().as_ptr() as usize - task.bytes().as_ptr() as usize;
    let end = start + id.bytes().len();
    let own = id.as_str().unwrap_or_default();
    let shown = quote(&shown_task(server, &own));
    format!("{}{shown}{}", &text[..start], &text[end..])
}
