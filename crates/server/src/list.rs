//! Lists, from the catalog snapshot, filtered by the same policy that decides calls. Pages are rendered once for all hosts
//! with the same view.

mod prepared;

use bytes::Bytes;
use callgate_call::for_stateless_host;
use callgate_gate::{Catalog, Host, ItemKind, Listing, Offers};
use callgate_wire::{Era, Frame, Id, RpcError, Strictness, message, methods};

use crate::Gateway;

use prepared::Basis;
pub(crate) use prepared::Lists;

/// Descriptors per page.
const PAGE: usize = 1000;
/// The prefix of the gateway's cursors. It tells them apart from a server's.
const CURSOR_MARK: &str = "callgate-";

/// The kind of list that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ListKind {
    Tools,
    /// Prompts, resources or resource templates.
    Items(ItemKind),
}

impl ListKind {
    /// `None` for methods that do not list.
    pub(crate) fn of(method: &str) -> Option<Self> {
        Some(match method {
            methods::TOOLS_LIST => Self::Tools,
            methods::PROMPTS_LIST => Self::Items(ItemKind::Prompt),
            methods::RESOURCES_LIST => Self::Items(ItemKind::Resource),
            methods::RESOURCE_TEMPLATES_LIST => Self::Items(ItemKind::Template),
            _ => return None,
        })
    }

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

    /// The other members of a single server's list result, such as `_meta`.
    fn extras(self, only: &Listing) -> &[Bytes] {
        match self {
            Self::Tools => &only.list_extras,
            Self::Items(ItemKind::Prompt) => &only.prompts.extras,
            Self::Items(ItemKind::Resource) => &only.resources.extras,
            Self::Items(ItemKind::Template) => &only.templates.extras,
        }
    }
}

/// The requested page, in the form of the host's era.
pub(crate) async fn list(
    gateway: &Gateway,
    host: &Host,
    wanted: ListKind,
    request: &Frame,
) -> Result<Bytes, RpcError> {
    let page = requested_page(request)?;
    let providers = &**gateway.path.providers();
    let basis = Basis {
        catalog: providers.catalog(),
        policy: providers.policy(),
    };
    // The same error as for an unknown method: the capability was not announced either.
    if !wanted.is_offered(basis.catalog.offers(&host.identity.grant)) {
        let method = request.method().unwrap_or_default();
        let message = format!("method `{method}` not found");
        return Err(RpcError::new(RpcError::METHOD_NOT_FOUND, message));
    }
    let pages = gateway.views.lists.pages(&basis, wanted, host);
    // The list may have become shorter since the cursor was issued. An empty page ends it without an error.
    let page = pages.get(page).cloned();
    Ok(page.unwrap_or_else(|| for_era(host.era, wanted, format!(r#"{{"{}":[]}}"#, wanted.key()))))
}

/// A result of the gateway's own, in the form of the host's era.
pub(crate) fn for_era(era: Era, wanted: ListKind, result: String) -> Bytes {
    match era {
        Era::Handshake => result.into(),
        Era::Stateless => {
            let answer = message::result(&Id::number(0), &result);
            let answer = for_stateless_host(answer, wanted.method());
            let frame = Frame::parse(answer, Strictness::Envelope).ok();
            let shared = frame.and_then(|frame| Some(frame.share(frame.result()?)));
            // Parsing the gateway's own text cannot fail. If it did, the result would be sent unchanged.
            shared.unwrap_or_else(|| result.into())
        }
    }
}

/// The page number that a request's cursor stands for.
fn requested_page(request: &Frame) -> Result<usize, RpcError> {
    let Some(cursor) = request.param("cursor") else {
        return Ok(0);
    };
    let text = cursor.as_str();
    let offset = text
        .as_deref()
        .and_then(|text| text.strip_prefix(CURSOR_MARK)?.parse::<usize>().ok());
    // Pages are prepared, so an offset inside of one is not served: only cursors issued here are accepted.
    let page = offset.filter(|offset| offset % PAGE == 0);
    page.map(|offset| offset / PAGE).ok_or_else(|| {
        RpcError::new(
            RpcError::INVALID_PARAMS,
            "`cursor` is invalid: this gateway did not issue it",
        )
    })
}

/// Renders all pages of a list. There is always at least one.
fn pages<'c>(
    wanted: ListKind,
    catalog: &Catalog,
    descriptors: impl Iterator<Item = &'c Bytes>,
) -> Vec<String> {
    let begun = || format!(r#"{{"{}":["#, wanted.key());
    let mut pages = vec![begun()];
    let mut on_page = 0;
    for descriptor in descriptors {
        if on_page == PAGE {
            let next = pages.len() * PAGE;
            if let Some(full) = pages.last_mut() {
                full.push_str(&format!(r#"],"nextCursor":"{CURSOR_MARK}{next}""#));
            }
            pages.push(begun());
            on_page = 0;
        }
        if let Some(page) = pages.last_mut() {
            if on_page > 0 {
                page.push(',');
            }
            page.push_str(std::str::from_utf8(descriptor).unwrap_or("{}"));
            on_page += 1;
        }
    }
    if let Some(last) = pages.last_mut() {
        last.push(']');
    }
    let extras = match catalog.listings() {
        [only] => wanted.extras(only),
        _ => &[],
    };
    for page in &mut pages {
        for extra in extras
            .iter()
            .filter_map(|text| std::str::from_utf8(text).ok())
        {
            page.push(',');
            page.push_str(extra);
        }
        page.push('}');
        // Pages stay in the cache until the snapshot changes; the growth reserve would stay with them.
        page.shrink_to_fit();
    }
    pages
}
