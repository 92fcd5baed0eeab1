//! Asking a server for all that it lists: pages until there are no more, with an end in any case.

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

/// How long a page of tools may take.
const TOOLS_DEADLINE: Duration = Duration::from_secs(30);
/// How long a page of anything else may take: a server that cannot list it keeps nobody waiting for
/// its tools.
const ITEMS_DEADLINE: Duration = Duration::from_secs(5);
/// More pages than this are a loop, whatever their cursors say.
const MAX_PAGES: usize = 1000;
/// More of one kind than this are cut off.
const MAX_LISTED: usize = 10_000;
/// More than this of one kind, all definitions together, is cut off.
const MAX_LISTED_BYTES: usize = 64 << 20;
/// How many complaints about one list are told one by one.
const MAX_COMPLAINTS: usize = 20;

/// What a server lists, and what a change of its lists is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lists {
    /// Tools.
    Tools,
    /// Prompts.
    Prompts,
    /// Resources and their templates.
    Resources,
}

impl Lists {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];
}

/// A server's tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ToolList {
    pub(crate) tools: Vec<Tool>,
    /// Members of the list result other than `tools` and `nextCursor`, raw, of the first page.
    pub(crate) extras: Vec<Bytes>,
}

/// Everything that a server lists besides tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct OtherLists {
    pub(crate) prompts: Items,
    pub(crate) resources: Items,
    pub(crate) templates: Items,
}

/// A list, and what was wrong with it, for the operator.
#[derive(Debug)]
pub(crate) struct Listed<T> {
    pub(crate) list: T,
    pub(crate) complaints: Vec<String>,
}

impl<T: Default> Listed<T> {
    /// A list of a server that has none.
    pub(crate) fn empty() -> Self {
        Self {
            list: T::default(),
            complaints: Vec::new(),
        }
    }
}

/// All tools of a server. Without them it is of no use, so a failure is one.
pub(crate) async fn list_tools(
    connection: &Connection,
    server: &ServerName,
) -> Result<Listed<ToolList>, HandshakeError> {
    let wanted = Wanted {
        method: methods::TOOLS_LIST,
        key: "tools",
        deadline: TOOLS_DEADLINE,
    };
    let pages = wanted.walk(connection).await?;
    let mut complaints = pages.complaints;
    let mut names = HashSet::new();
    let mut tools = Vec::new();
    for descriptor in pages.descriptors {
        if let Some(complaint) = cannot_be_called(connection, &descriptor) {
            complaints.push(complaint);
            continue;
        }
        match Tool::from_descriptor(server, descriptor) {
            Ok(tool) if !names.insert(tool.name.clone()) => complaints.push(format!(
                "tool `{}` is listed twice; the first counts",
                tool.name
            )),
            Ok(tool) => tools.push(tool),
            Err(error) => complaints.push(error.to_string()),
        }
    }
    let extras = pages.extras;
    Ok(Listed {
        list: ToolList { tools, extras },
        complaints: few(complaints),
    })
}

/// Why a stateless server's tool cannot be called: its schema asks for headers that there cannot be.
fn cannot_be_called(connection: &Connection, descriptor: &Bytes) -> Option<String> {
    if connection.era() == Era::Handshake {
        return None;
    }
    let json = Json::validate(descriptor, Strictness::Full).ok()?;
    let bad = ParamHeader::all_of(json).err()?;
    let name = json.get("name").and_then(|name| name.as_str());
    let name = name.unwrap_or_default();
    Some(format!("tool `{name}` is left out: {bad}"))
}

/// All prompts of a server, as far as it can be had.
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

/// All resources and templates of a server, as far as they can be had.
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
    let wanted = Wanted {
        method,
        key: kind.list_key(),
        deadline: ITEMS_DEADLINE,
    };
    let pages = match wanted.walk(connection).await {
        Ok(pages) => pages,
        // Many servers that have resources know nothing of templates.
        Err(HandshakeError::Refused {
            code: RpcError::METHOD_NOT_FOUND,
            ..
        }) => return Listed::empty(),
        Err(error) => {
            let complaint = format!("its {} cannot be had: {error}", kind.plural());
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
            // A name may be a URI, and that a secret, so it is not told.
            Ok(item) if !names.insert(item.name.clone()) => complaints.push(format!(
                "one of its {} is listed twice; the first counts",
                kind.plural()
            )),
            Ok(item) => items.push(item),
            Err(error) => complaints.push(error.to_string()),
        }
    }
    let extras = pages.extras;
    Listed {
        list: Items { items, extras },
        complaints: few(complaints),
    }
}

/// The first complaints, and how many there are besides.
fn few(mut complaints: Vec<String>) -> Vec<String> {
    let more = complaints.len().saturating_sub(MAX_COMPLAINTS);
    if more > 0 {
        complaints.truncate(MAX_COMPLAINTS);
        complaints.push(format!("and {more} more"));
    }
    complaints
}

/// A reply without what only stateless ones have: how long our own list may be kept is ours to say.
fn plain(connection: &Connection, reply: Frame) -> Frame {
    if connection.era() == Era::Handshake {
        return reply;
    }
    let plain = bridge::reply_for_handshake(reply.edit()).finish();
    Frame::parse(plain, Strictness::Envelope).unwrap_or(reply)
}

/// A list that is asked for.
struct Wanted {
    method: &'static str,
    key: &'static str,
    deadline: Duration,
}

/// All pages of a list.
#[derive(Default)]
struct Pages {
    descriptors: Vec<Bytes>,
    extras: Vec<Bytes>,
    complaints: Vec<String>,
}

impl Wanted {
    /// Asks for all pages. A cursor that loops is cut off and complained about.
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
            Json::validate(result.bytes(), Strictness::Full)
                .map_err(|error| HandshakeError::List(error.to_string()))?;
            self.add_page(&mut pages, &reply, result, page == 0);
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
                let loops = format!("the list's cursor {next} loops; the list was cut off there");
                pages.complaints.push(loops);
                return Ok(pages);
            }
            cursor = Some(next);
        }
        pages.complaints.push(format!(
            "the list has more than {MAX_PAGES} pages; it was cut off there"
        ));
        Ok(pages)
    }

    /// Drops what is beyond the limits of a list; says whether there was any.
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
            "only the first {within} {} are used; the limits are {MAX_LISTED} and {MAX_LISTED_BYTES} bytes",
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
