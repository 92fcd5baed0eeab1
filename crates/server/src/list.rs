//! tools/list: from the snapshot, filtered by the same policy that decides calls.

use callgate_call::Providers;
use callgate_gate::Who;
use callgate_wire::{Frame, RpcError};

/// Tools on one page.
const PAGE: usize = 1000;
/// In front of our own cursors, so that a server's cursor is not taken for one.
const CURSOR_MARK: &str = "callgate-";

/// The result of one tools/list request of this caller.
pub(crate) async fn list_tools(
    providers: &dyn Providers,
    who: &Who,
    request: &Frame,
) -> Result<String, RpcError> {
    let start = match request.param("cursor") {
        None => 0,
        Some(cursor) => {
            let text = cursor.as_str();
            let offset = text
                .as_deref()
                .and_then(|text| text.strip_prefix(CURSOR_MARK)?.parse().ok());
            offset.ok_or_else(|| {
                RpcError::new(RpcError::INVALID_PARAMS, "`cursor` is not one of ours")
            })?
        }
    };
    providers.first_connect(None).await;
    let (catalog, policy) = (providers.catalog(), providers.policy());
    let mut result = String::from(r#"{"tools":["#);
    let mut listed = catalog.listed_to(&policy, who).skip(start);
    for (at, tool) in listed.by_ref().take(PAGE).enumerate() {
        if at > 0 {
            result.push(',');
        }
        result.push_str(std::str::from_utf8(&tool.shown_descriptor).unwrap_or("{}"));
    }
    result.push(']');
    if listed.next().is_some() {
        result.push_str(&format!(r#","nextCursor":"{CURSOR_MARK}{}""#, start + PAGE));
    }
    if let [only] = catalog.listings() {
        for extra in only
            .list_extras
            .iter()
            .filter_map(|extra| std::str::from_utf8(extra).ok())
        {
            result.push(',');
            result.push_str(extra);
        }
    }
    result.push('}');
    Ok(result)
}
