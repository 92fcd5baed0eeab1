//! Prompts, resources and resource templates: descriptors as servers sent them, and the one member of each that
//! identifies it.

use bytes::Bytes;
use callgate_wire::{Json, Strictness, quote};

use crate::ServerName;

/// The prefix of a wrapped URI; the server's name and the URI follow.
pub(crate) const WRAPPED: &str = "callgate://";

/// The kinds of things that a server lists besides tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ItemKind {
    /// A prompt, identified by its name.
    Prompt,
    /// A resource, identified by its URI.
    Resource,
    /// A resource template, identified by its URI template.
    Template,
}

/// A prompt, a resource or a template of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    pub kind: ItemKind,
    /// The server that has it.
    pub server: ServerName,
    /// The name, URI or template that the server itself uses.
    pub name: String,
    /// The name, URI or template that hosts see.
    pub shown: String,
    /// The descriptor, byte for byte as the server listed it.
    pub descriptor: Bytes,
    /// The descriptor with the shown name, as hosts get it.
    pub shown_descriptor: Bytes,
}

/// Why a descriptor cannot enter the catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ItemError {
    /// The list has an element that is not an object.
    #[error("a descriptor in the list of {} is not an object", .0.plural())]
    NotAnObject(ItemKind),
    /// An item without its identifying member cannot be requested.
    #[error("a descriptor in the list of {} has no `{}` string", .0.plural(), .0.key())]
    NoName(ItemKind),
}

/// A prompt or resource of exactly one server, as a request names it. It need not be listed: a
/// template has more resources than a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub kind: ItemKind,
    /// The server that has it.
    pub server: ServerName,
    /// The name or URI that the server itself uses.
    pub name: String,
}

impl ItemKind {
    /// The member of a descriptor that identifies it.
    pub fn key(self) -> &'static str {
        match self {
            Self::Prompt => "name",
            Self::Resource => "uri",
            Self::Template => "uriTemplate",
        }
    }

    /// The member of a list result that holds the descriptors.
    pub fn list_key(self) -> &'static str {
        match self {
            Self::Prompt => "prompts",
            Self::Resource => "resources",
            Self::Template => "resourceTemplates",
        }
    }

    /// The plural, for messages.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Prompt => "prompts",
            Self::Resource => "resources",
            Self::Template => "resource templates",
        }
    }

    /// The scope whose rules apply to it.
    pub fn scope(self) -> &'static str {
        match self {
            Self::Prompt => "mcp_prompt",
            Self::Resource | Self::Template => "mcp_resource",
        }
    }
}

impl Item {
    /// Reads a descriptor out of a scanned list result; `shown` is filled by the catalog.
    pub fn from_descriptor(
        kind: ItemKind,
        server: &ServerName,
        descriptor: Bytes,
    ) -> Result<Self, ItemError> {
        let json = Json::validate(&descriptor, Strictness::Full)
            .ok()
            .filter(|json| json.is_object())
            .ok_or(ItemError::NotAnObject(kind))?;
        // Unescaped, so that one item has one name however its server spells the JSON.
        let name = json.get(kind.key()).and_then(|name| name.as_str());
        let name = name.ok_or(ItemError::NoName(kind))?.into_owned();
        Ok(Self {
            kind,
            server: server.clone(),
            shown: name.clone(),
            name,
            shown_descriptor: descriptor.clone(),
            descriptor,
        })
    }

    /// The same item under another shown name; only the name's bytes differ in its descriptor.
    pub fn shown_as(&self, shown: String) -> Self {
        // The common case shares the server's bytes instead of copying them.
        let shown_descriptor = match shown == self.name {
            true => self.descriptor.clone(),
            false => respelled(&self.descriptor, self.kind.key(), &shown),
        };
        Self {
            shown,
            shown_descriptor,
            ..self.clone()
        }
    }

    /// `server:name` or `server:uri`, the name used in policy and record.
    pub fn canonical(&self) -> String {
        [self.server.as_str(), ":", &self.name].concat()
    }

    /// The item as a request names it.
    pub fn reference(&self) -> Reference {
        Reference {
            kind: self.kind,
            server: self.server.clone(),
            name: self.name.clone(),
        }
    }
}

impl Reference {
    /// `server:name` or `server:uri`, the name used in policy and record.
    pub fn canonical(&self) -> String {
        [self.server.as_str(), ":", &self.name].concat()
    }
}

/// The id of a task for hosts; it includes the server.
pub fn shown_task(server: &ServerName, id: &str) -> String {
    format!("{server}:{id}")
}

/// The prefix that makes a server's URI a wrapped one, which names its server.
pub(crate) fn wrapping(server: &ServerName) -> String {
    format!("{WRAPPED}{server}/")
}

/// A URI that names its server, for URIs that several servers use.
pub(crate) fn wrapped(server: &ServerName, uri: &str) -> String {
    wrapping(server) + uri
}

/// Whether a URI is wrapped, or some reader could take it for one: schemes are compared without case.
pub(crate) fn looks_wrapped(uri: &str) -> bool {
    let scheme = uri.get(..WRAPPED.len());
    scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(WRAPPED))
}

/// The server's name and the URI in a wrapped URI.
pub(crate) fn unwrapped(uri: &str) -> Option<(&str, &str)> {
    uri.strip_prefix(WRAPPED)?.split_once('/')
}

/// A descriptor with one string replaced; all other bytes stay.
pub fn respelled(descriptor: &Bytes, key: &str, shown: &str) -> Bytes {
    let json = Json::validate(descriptor, Strictness::Full).ok();
    let Some(value) = json.and_then(|json| json.get(key)) else {
        return descriptor.clone();
    };
    // The JSON borrows from `descriptor`, so this is an offset into it. Printing the JSON again would change
    // the other bytes, and hosts get the server's own.
    let start = value.bytes().as_ptr() as usize - descriptor.as_ptr() as usize;
    let (before, rest) = descriptor.split_at(start);
    let after = &rest[value.bytes().len()..];
    [before, quote(shown).as_bytes(), after].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(kind: ItemKind, text: &'static str) -> Result<Item, ItemError> {
        let server = ServerName::new("s").unwrap();
        Item::from_descriptor(kind, &server, Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn each_item_kind_is_identified_by_its_own_member() {
        let text = r#"{"name":"n","uri":"u:\/\/x","uriTemplate":"t://{a}"}"#;
        let cases = [
            (ItemKind::Prompt, "s:n"),
            (ItemKind::Resource, "s:u://x"),
            (ItemKind::Template, "s:t://{a}"),
        ];
        for (kind, canonical) in cases {
            assert_eq!(item(kind, text).unwrap().canonical(), canonical);
            assert_eq!(item(kind, "{}"), Err(ItemError::NoName(kind)));
            assert_eq!(item(kind, "[]"), Err(ItemError::NotAnObject(kind)));
        }
    }

    #[test]
    fn showing_an_item_under_another_name_changes_only_the_name() {
        let text = r#"{ "x":1.0 , "uri" : "a:\/\/b" , "name":"a://b"}"#;
        let shown = item(ItemKind::Resource, text)
            .unwrap()
            .shown_as("callgate://s/a://b".to_owned());
        assert_eq!(shown.descriptor, text);
        assert_eq!(
            shown.shown_descriptor,
            r#"{ "x":1.0 , "uri" : "callgate://s/a://b" , "name":"a://b"}"#
        );
    }

    #[test]
    fn wrapped_uris_round_trip() {
        let server = ServerName::new("my_server").unwrap();
        for uri in [
            "file:///a/b",
            "a:b",
            "x://h/p?q=1#f",
            "",
            "callgate://o/x:y",
        ] {
            let wrapped = wrapped(&server, uri);
            assert_eq!(unwrapped(&wrapped), Some(("my_server", uri)));
        }
        assert_eq!(unwrapped("file:///a"), None);
        assert_eq!(unwrapped("callgate://nothing"), None);
    }
}
