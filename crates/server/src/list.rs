//! Lists: from the snapshot, filtered by the same policy that decides calls. The text of their pages is prepared once
//! for all who see the same.

mod prepared;

use bytes::Bytes;
use callgate_call::for_stateless_host;
use callgate_gate::{Catalog, Host, ItemKind, Listing, Offers};
use callgate_wire::{Era, Frame, Id, RpcError, Strictness, message, methods};

use crate::Gateway;

use prepared::Basis;
pub(crate) use prepared::Lists;

/// Descriptors on one page.
const PAGE: usize = 1000;
/// In front of our own cursors, so that a server's cursor is not taken for one.
const CURSOR_MARK: &str = "callgate-";

/// What a list request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

/// The page that a request of this host asks for, as its era has it.
pub(crate) async fn list(
    gateway: &Gateway,
    host: &Host,
    wanted: Wanted,
    request: &Frame,
) -> Result<Bytes, RpcError> {
    let page = page_asked_for(request)?;
    let providers = &**gateway.path.providers();
    providers.first_connect(None).await;
    let basis = Basis {
        catalog: providers.catalog(),
        policy: providers.policy(),
    };
    if !wanted.is_offered(basis.catalog.offers(&host.who.grant)) {
        let method = request.method().unwrap_or_default();
        let message = format!("method `{method}` not found");
        return Err(RpcError::new(RpcError::METHOD_NOT_FOUND, message));
    }
    let pages = gateway.views.lists.pages(&basis, wanted, host);
    // A list that has become shorter ends here.
    let page = pages.get(page).cloned();
    Ok(page.unwrap_or_else(|| for_era(host.era, wanted, format!(r#"{{"{}":[]}}"#, wanted.key()))))
}

/// A result of ours as hosts of an era read it.
pub(crate) fn for_era(era: Era, wanted: Wanted, result: String) -> Bytes {
    match era {
        Era::Handshake => result.into(),
        Era::Stateless => {
            let answer = message::result(&Id::number(0), &result);
            let answer = for_stateless_host(answer, wanted.method());
            let frame = Frame::parse(answer, Strictness::Envelope).ok();
            let shared = frame.and_then(|frame| Some(frame.share(frame.result()?)));
            // What is ours can be read; were it not so, it would stay as it is.
            shared.unwrap_or_else(|| result.into())
        }
    }
}

/// Which page a request asks for.
fn page_asked_for(request: &Frame) -> Result<usize, RpcError> {
    let Some(cursor) = request.param("cursor") else {
        return Ok(0);
    };
    let text = cursor.as_str();
    let offset = text
        .as_deref()
        .and_then(|text| text.strip_prefix(CURSOR_MARK)?.parse::<usize>().ok());
    let page = offset.filter(|offset| offset % PAGE == 0);
    page.map(|offset| offset / PAGE)
        .ok_or_else(|| RpcError::new(RpcError::INVALID_PARAMS, "`cursor` is not one of ours"))
}

/// All pages of what somebody sees; there is always one.
fn pages<'c>(
    wanted: Wanted,
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
        page.shrink_to_fit();
    }
    pages
}
