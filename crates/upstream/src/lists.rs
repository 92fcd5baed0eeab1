//! Requesting a server's complete lists page by page, within limits that end every loop.

use std::{collections::HashSet, time::Duration};

use bytes::Bytes;
use callgate_gate::{Item, ItemKind, Items, Offers, ServerName, Tool};
use callgate_wire::{
    Era, Frame, Json, JsonKind, ParamHeader, RpcError, Strictness, bridge, methods,
};

use crate::{
    connection::Connection,
    handshake::{HandshakeError, result_of},
    outgoing::Housekeeping,
};

/// The deadline for one page of tools.
const TOOLS_DEADLINE: Duration = Duration::from_secs(30);
/// The deadline for one page of any other list, which must not delay the tools.
const ITEMS_DEADLINE: Duration = Duration::from_secs(5);
/// More pages than this count as a loop, even if every cursor is new.
const MAX_PAGES: usize = 1000;
/// Entries of one list beyond this are dropped.
const MAX_LISTED: usize = 10_000;
/// The size of all definitions of one list; what exceeds it is dropped.
const MAX_LISTED_BYTES: usize = 64 << 20;
/// How many complaints about one list are reported individually.
const MAX_COMPLAINTS: usize = 20;

/// The lists that a server announces changes of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lists {
    Tools,
    Prompts,
    /// Includes the templates: a change notification covers both.
    Resources,
}

impl Lists {
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ToolList {
    pub(crate) tools: Vec<Tool>,
    /// Members of the first page's result other than `tools` and `nextCursor`, raw, to be passed on.
    pub(crate) extras: Vec<Bytes>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OtherLists {
    pub(crate) prompts: Items,
    pub(crate) resources: Items,
    pub(crate) templates: Items,
}

/// A list, and its faults for the operator.
#[derive(Debug)]
pub(crate) struct Listed<T> {
    pub(crate) list: T,
    pub(crate) complaints: Vec<String>,
}

impl<T: Default> Listed<T> {
    /// For a server that does not offer this list.
    pub(crate) fn empty() -> Self {
        Self {
            list: T::default(),
            complaints: Vec::new(),
        }
    }
}

/// All tools of a server. A server without tools is unusable, so this fails where other lists complain.
pub(crate) async fn list_tools(
    connection: &Connection,
    server: &ServerName,
) -> Result<Listed<ToolList>, HandshakeError> {
    let request = ListRequest {
        method: methods::TOOLS_LIST,
        key: "tools",
        deadline: TOOLS_DEADLINE,
    };
    let pages = request.walk(connection).await?;
    let mut complaints = pages.complaints;
    let mut names = HashSet::new();
    let mut tools = Vec::new();
    for descriptor in pages.descriptors {
        // Offering a tool whose every call must fail would only mislead the model.
        if let Some(complaint) = unusable_headers(connection, &descriptor) {
            complaints.push(complaint);
            continue;
        }
        match Tool::from_descriptor(server, descriptor) {
            Ok(tool) if !names.insert(tool.name.clone()) => complaints.push(format!(
                "tool `{}` is listed twice; the first definition is used",
                tool.name
            )),
            Ok(tool) => tools.push(tool),
            Err(error) => complaints.push(error.to_string()),
        }
    }
    let extras = pages.extras;
    Ok(Listed {
        list: ToolList { tools, extras },
        complaints: cap_complaints(complaints),
    })
}

/// Why a stateless server's tool cannot be called: its schema requires invalid headers.
fn unusable_headers(connection: &Connection, descriptor: &Bytes) -> Option<String> {
    if connection.era() == Era::Handshake {
        return None;
    }
    let json = Json::validate(descriptor, Strictness::Full).ok()?;
    let bad = ParamHeader::all_of(json).err()?;
    let name = json.get("name").and_then(|name| name.as_str());
    let name = name.unwrap_or_default();
    Some(format!("tool `{name}` is ignored: {bad}"))
}

/// All prompts of a server; failures become complaints.
pub(crate) async fn list_prompts(
    connection: &Connection,
    server: &ServerName,
    offers: Offers,
) -> Listed<Items> {
    match offers.prompts {
        true => list_items(ItemKind::Prompt, connection, server).await,
        false => Listed::empty(),
    }
}

/// All resources and templates of a server; failures become complaints.
pub(crate) async fn list_resources(
    connection: &Connection,
    server: &ServerName,
    offers: Offers,
) -> (Listed<Items>, Listed<Items>) {
    if !offers.resources {
        return (Listed::empty(), Listed::empty());
    }
    let of = |kind| list_items(kind, connection, server);
    futures_util::join!(of(ItemKind::Resource), of(ItemKind::Template))
}

async fn list_items(kind: ItemKind, connection: &Connection, server: &ServerName) -> Listed<Items> {
    let method = match kind {
        ItemKind::Prompt => methods::PROMPTS_LIST,
        ItemKind::Resource => methods::RESOURCES_LIST,
        ItemKind::Template => methods::RESOURCE_TEMPLATES_LIST,
    };
    let request = ListRequest {
        method,
        key: kind.list_key(),
        deadline: ITEMS_DEADLINE,
    };
    let pages = match request.walk(connection).await {
        Ok(pages) => pages,
        // Many servers with resources do not implement templates.
        Err(HandshakeError::Refused {
            code: RpcError::METHOD_NOT_FOUND,
            ..
        }) => return Listed::empty(),
        Err(error) => {
            let complaint = format!("could not list its {}: {error}", kind.plural());
            return Listed {
                list: Items::default(),
                complaints: vec![complaint],
            };
        }
    };
    let mut complaints = pages.complaints;
    let mut names = HashSet::new();
    let mut items = Vec::new();
    for descriptor in pages.descriptors {
        match Item::from_descriptor(kind, server, descriptor) {
            // The name of a resource is a URI and may contain a secret, so the complaint omits it.
            Ok(item) if !names.insert(item.name.clone()) => complaints.push(format!(
                "duplicate entry in its {}; the first one is used",
                kind.plural()
            )),
            Ok(item) => items.push(item),
            Err(error) => complaints.push(error.to_string()),
        }
    }
    let extras = pages.extras;
    Listed {
        list: Items { items, extras },
        complaints: cap_complaints(complaints),
    }
}

/// The first complaints, and the number of the others.
fn cap_complaints(mut complaints: Vec<String>) -> Vec<String> {
    let more = complaints.len().saturating_sub(MAX_COMPLAINTS);
    if more > 0 {
        complaints.truncate(MAX_COMPLAINTS);
        complaints.push(format!("and {more} more"));
    }
    complaints
}

/// A reply without the members of stateless replies: the gateway sets the cache lifetime of its own lists.
fn plain(connection: &Connection, reply: Frame) -> Frame {
    if connection.era() == Era::Handshake {
        return reply;
    }
    let plain = bridge::reply_for_handshake(reply.edit()).finish();
    Frame::parse(plain, Strictness::Envelope).unwrap_or(reply)
}

struct ListRequest {
    method: &'static str,
    key: &'static str,
    deadline: Duration,
}

#[derive(Default)]
struct Pages {
    descriptors: Vec<Bytes>,
    extras: Vec<Bytes>,
    complaints: Vec<String>,
}

impl ListRequest {
    /// Requests all pages. A repeated cursor ends the list with a complaint.
    async fn walk(&self, connection: &Connection) -> Result<Pages, HandshakeError> {
        let mut pages = Pages::default();
        let mut seen = HashSet::new();
        let mut cursor: Option<String> = None;
        for page in 0..MAX_PAGES {
            let what = Housekeeping::List {
                method: self.method,
                cursor: cursor.as_deref(),
            };
            let reply = connection
                .request(self.method, &what, self.deadline)
                .await?;
            let reply = plain(connection, reply);
            let result = result_of(&reply, self.method)?;
            // In full: a definition that two readers could understand differently must not be pinned or shown.
            Json::validate(result.bytes(), Strictness::Full)
                .map_err(|error| HandshakeError::List(error.to_string()))?;
            self.add_page(&mut pages, &reply, result, page == 0);
            // After each page, so that an endless list cannot fill the memory first.
            if self.cut_off(&mut pages) {
                return Ok(pages);
            }
            let next = result
                .get("nextCursor")
                .filter(|cursor| cursor.kind() == JsonKind::String);
            let Some(next) = next.map(|cursor| cursor.as_text().to_owned()) else {
                return Ok(pages);
            };
            if !seen.insert(next.clone()) {
                let loops = format!("the list's cursor {next} loops; later pages are ignored");
                pages.complaints.push(loops);
                return Ok(pages);
            }
            cursor = Some(next);
        }
        pages.complaints.push(format!(
            "the list has more than {MAX_PAGES} pages; later pages are ignored"
        ));
        Ok(pages)
    }

    /// Drops entries beyond the limits of a list; `true` if there were any.
    fn cut_off(&self, pages: &mut Pages) -> bool {
        let mut bytes = 0;
        let within = pages.descriptors.iter().take(MAX_LISTED);
        let within = within.take_while(|descriptor| {
            bytes += descriptor.len();
            bytes <= MAX_LISTED_BYTES
        });
        let within = within.count();
        if within == pages.descriptors.len() {
            return false;
        }
        pages.descriptors.truncate(within);
        let what = format!(
            "only the first {within} {} are used; the limits are {MAX_LISTED} entries and {MAX_LISTED_BYTES} bytes",
            self.key
        );
        pages.complaints.push(what);
        true
    }

    fn add_page(&self, pages: &mut Pages, reply: &Frame, result: Json<'_>, first: bool) {
        let own = |key: &Json<'_>| {
            let key = key.as_str();
            matches!(key.as_deref(), Some(key) if key == self.key || key == "nextCursor")
        };
        if first {
            let extras = result.members().filter(|(key, _)| !own(key));
            pages.extras = extras
                .map(|(key, value)| Bytes::from(format!("{}:{}", key.as_text(), value.as_text())))
                .collect();
        }
        let listed = result
            .get(self.key)
            .filter(|listed| listed.kind() == JsonKind::Array);
        match listed {
            Some(listed) => pages
                .descriptors
                .extend(listed.elements().map(|descriptor| reply.share(descriptor))),
            None => pages
                .complaints
                .push(format!("a page of the list has no `{}` array", self.key)),
        }
    }
}
