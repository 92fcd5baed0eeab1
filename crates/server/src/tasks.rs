//! tasks/list for several servers. Tasks are not in the catalog snapshot, so each page is fetched when the host asks for
//! it, one server after the other. The gateway's cursor names the server and holds that server's cursor.

use std::sync::Arc;

use callgate_call::Providers;
use callgate_gate::{Host, Listing, ServerName, shown_task};
use callgate_wire::{Frame, Json, RpcError, quote};

/// The prefix of the gateway's cursors. It tells them apart from a server's.
const CURSOR_MARK: &str = "callgate-";

/// The result of one tasks/list request.
pub(crate) async fn list_tasks(
    providers: &dyn Providers,
    host: &Arc<Host>,
    request: &Frame,
) -> Result<String, RpcError> {
    providers.first_connect(None).await;
    let catalog = providers.catalog();
    let servers: Vec<&ServerName> = catalog
        .listings()
        .iter()
        .filter(|listing| listing.offers.task_list)
        .filter(|listing| host.identity.grant.includes(listing.server.as_str()))
        .map(|listing: &Listing| &listing.server)
        .collect();
    if servers.is_empty() {
        let message = "method `tasks/list` not found";
        return Err(RpcError::new(RpcError::METHOD_NOT_FOUND, message));
    }
    let (mut at, mut cursor) = parse_cursor(request, &servers)?;
    while let Some(server) = servers.get(at) {
        let asked = providers.tasks(host, server, cursor.as_deref()).await;
        let next = servers.get(at + 1);
        // A server that fails is skipped: the other servers' tasks must stay reachable.
        let is_own = |id: &str| providers.owns_task(&host.identity, server, id);
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

/// The server that a page begins at, and that server's own cursor as raw JSON.
fn parse_cursor(
    request: &Frame,
    servers: &[&ServerName],
) -> Result<(usize, Option<String>), RpcError> {
    let Some(cursor) = request.param("cursor") else {
        return Ok((0, None));
    };
    let text = cursor.as_str();
    let ours = text
        .as_deref()
        .and_then(|text| text.strip_prefix(CURSOR_MARK));
    // The server is found by name and not by position: servers may come and go between two pages.
    let found = ours.and_then(|ours| {
        let (server, theirs) = match ours.split_once(':') {
            Some((server, theirs)) => (server, Some(quote(theirs))),
            None => (ours, None),
        };
        let at = servers.iter().position(|name| name.as_str() == server)?;
        Some((at, theirs))
    });
    found.ok_or_else(|| {
        RpcError::new(
            RpcError::INVALID_PARAMS,
            "`cursor` is invalid: this gateway did not issue it",
        )
    })
}

/// A page of one server's tasks, without those of other hosts that share the server.
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

/// A task under the id that hosts know. The rest of it stays byte for byte.
fn shown(task: Json<'_>, server: &ServerName) -> String {
    let text = task.as_text();
    let Some(id) = task.get("taskId") else {
        return text.to_owned();
    };
    // Spliced instead of re-serialized: unknown members and number formats must survive.
    let start = id.bytes().as_ptr() as usize - task.bytes().as_ptr() as usize;
    let end = start + id.bytes().len();
    let own = id.as_str().unwrap_or_default();
    let shown = quote(&shown_task(server, &own));
    format!("{}{shown}{}", &text[..start], &text[end..])
}
