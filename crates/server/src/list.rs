//! Lists: from the snapshot, filtered by the same policy that decides calls.

use bytes::Bytes;
use callgate_call::Providers;
use callgate_gate::{Catalog, ItemKind, Listing, Offers, Who};
use callgate_wire::{Frame, RpcError, methods};

/// Descriptors on one page.
const PAGE: usize = 1000;
/// In front of our own cursors, so that a server's cursor is not taken for one.
const CURSOR_MARK: &str = "callgate-";

/// What a list request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// tools/list.
    Tools,
    /// One of the other lists.
    Items(ItemKind),
}

impl Wanted {
    /// `None` for a method that is no list.
    pub(crate) fn of(method: &str) -> Option<Self> {
        Some(match method {
            methods::TOOLS_LIST => Self::Tools,
            methods::PROMPTS_LIST => Self::Items(ItemKind::Prompt),
            methods::RESOURCES_LIST => Self::Items(ItemKind::Resource),
            methods::RESOURCE_TEMPLATES_LIST => Self::Items(ItemKind::Template),
            _ => return None,
        })
    }

    /// The method that asks for it.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Tools => methods::TOOLS_LIST,
            Self::Items(ItemKind::Prompt) => methods::PROMPTS_LIST,
            Self::Items(ItemKind::Resource) => methods::RESOURCES_LIST,
            Self::Items(ItemKind::Template) => methods::RESOURCE_TEMPLATES_LIST,
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Items(kind) => kind.list_key(),
        }
    }

    fn is_offered(self, offers: Offers) -> bool {
        match self {
            Self::Tools => true,
            Self::Items(ItemKind::Prompt) => offers.prompts,
            Self::Items(ItemKind::Resource | ItemKind::Template) => offers.resources,
        }
    }

    /// The members of the only server's list result besides its items.
    fn extras(self, only: &Listing) -> &[Bytes] {
        match self {
            Self::Tools => &only.list_extras,
            Self::Items(ItemKind::Prompt) => &only.prompts.extras,
            Self::Items(ItemKind::Resource) => &only.resources.extras,
            Self::Items(ItemKind::Template) => &only.templates.extras,
        }
    }
}

/// The result of one list request of this caller.
pub(crate) async fn list(
    providers: &dyn Providers,
    who: &Who,
    wanted: Wanted,
    request: &Frame,
) -> Result<String, RpcError> {
    let start = start(request)?;
    providers.first_connect(None).await;
    let (catalog, policy) = (providers.catalog(), providers.policy());
    if !wanted.is_offered(catalog.offers(&who.grant)) {
        let method = request.method().unwrap_or_default();
        let message = format!("method `{method}` not found");
        return Err(RpcError::new(RpcError::METHOD_NOT_FOUND, message));
    }
    Ok(match wanted {
        Wanted::Tools => {
            let tools = catalog.listed_to(&policy, who);
            let tools = tools.map(|tool| &tool.shown_descriptor);
            page(wanted, &catalog, start, tools)
        }
        Wanted::Items(kind) => {
            let items = catalog.items(kind, &policy, Some(who));
            let items = items.map(|item| &item.shown_descriptor);
            page(wanted, &catalog, start, items)
        }
    })
}

/// Where the page begins that a request asks for.
fn start(request: &Frame) -> Result<usize, RpcError> {
    let Some(cursor) = request.param("cursor") else {
        return Ok(0);
    };
    let text = cursor.as_str();
    let offset = text
        .as_deref()
        .and_then(|text| text.strip_prefix(CURSOR_MARK)?.parse().ok());
    offset.ok_or_else(|| RpcError::new(RpcError::INVALID_PARAMS, "`cursor` is not one of ours"))
}

fn page<'c>(
    wanted: Wanted,
    catalog: &Catalog,
    start: usize,
    descriptors: impl Iterator<Item = &'c Bytes>,
) -> String {
    let mut result = format!(r#"{{"{}":["#, wanted.key());
    let mut listed = descriptors.skip(start);
    for (at, descriptor) in listed.by_ref().take(PAGE).enumerate() {
        if at > 0 {
            result.push(',');
        }
        result.push_str(std::str::from_utf8(descriptor).unwrap_or("{}"));
    }
    result.push(']');
    if listed.next().is_some() {
        result.push_str(&format!(r#","nextCursor":"{CURSOR_MARK}{}""#, start + PAGE));
    }
    if let [only] = catalog.listings() {
        let extras = wanted.extras(only).iter();
        for extra in extras.filter_map(|extra| std::str::from_utf8(extra).ok()) {
            result.push(',');
            result.push_str(extra);
        }
    }
    result.push('}');
    result
}
