//! One tool of one server: its descriptor as the server sent it, and the few members that the gate reads.

use bytes::Bytes;
use callgate_wire::{Json, ParamHeader, Strictness, handles};
use serde::{Deserialize, Serialize};

use crate::{
    Digest, ServerName,
    item::{respelled, wrapping},
    pins::{self, OverLimit},
};

/// A tool of the catalog.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    /// The server that has it.
    pub server: ServerName,
    /// The name that the server itself uses.
    pub name: String,
    /// The name that hosts see.
    pub shown: String,
    /// The descriptor, byte for byte as the server listed it.
    pub descriptor: Bytes,
    /// The descriptor with the shown name, as hosts get it.
    pub shown_descriptor: Bytes,
    /// The server's annotations about effects.
    pub hints: Hints,
    /// The digest of the descriptor's canonical form.
    pub digest: Digest,
    /// Arguments that are also sent as headers over stateless HTTP.
    pub param_headers: Vec<ParamHeader>,
    /// The resources of its user interface, which hosts read from its server.
    pub ui_uris: Vec<String>,
    /// The kind of provider that performs its calls.
    pub source: ToolSource,
    /// The limit that its definition exceeds; such a tool is not offered.
    pub over_limit: Option<OverLimit>,
}

/// The kind of provider that performs a tool's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolSource {
    #[default]
    Server,
    Builtin,
    Plugin,
}

/// Why a descriptor cannot enter the catalog.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    /// The list has an element that is not an object.
    #[error("a tool descriptor is not an object")]
    NotAnObject,
    /// A tool without a name cannot be called.
    #[error("a tool descriptor has no `name` string")]
    NoName,
}

/// A server's annotations about effects. Only a literal `true` or `false` counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints {
    /// `readOnlyHint`.
    pub read_only: Option<bool>,
    /// `destructiveHint`.
    pub destructive: Option<bool>,
}

/// What a call may do, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    Read,
    /// Makes reversible changes.
    Write,
    /// Makes irreversible changes.
    Destructive,
}

impl Operation {
    /// All three, from least to most.
    pub const ALL: [Self; 3] = [Self::Read, Self::Write, Self::Destructive];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Destructive => "destructive",
        }
    }

    /// The operation with that name.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|operation| operation.as_str() == word)
    }

    /// The tool of the `search` view that makes calls of this kind.
    pub fn call_tool(self) -> &'static str {
        match self {
            Self::Read => "call_tool_read",
            Self::Write => "call_tool_write",
            Self::Destructive => "call_tool_destructive",
        }
    }
}

impl Tool {
    /// Reads a descriptor out of a scanned tools/list result; `shown` is filled by the catalog.
    pub fn from_descriptor(server: &ServerName, descriptor: Bytes) -> Result<Self, ToolError> {
        let json =
            Json::validate(&descriptor, Strictness::Full).map_err(|_| ToolError::NotAnObject)?;
        if !json.is_object() {
            return Err(ToolError::NotAnObject);
        }
        let name = json
            .get("name")
            .and_then(|name| name.as_str())
            .ok_or(ToolError::NoName)?;
        // `Strictness::Full` above refuses repeated keys: hosts and the gate would read different names or hints.
        let (name, hints) = (name.into_owned(), Hints::of(json.get("annotations")));
        // Computed once here: pins compare it on every list of every server.
        let digest = pins::digest_of(json);
        let over_limit = OverLimit::of(&name, json);
        let param_headers = ParamHeader::all_of(json).unwrap_or_default();
        let ui_uris = handles::uris_of_tool(json).into_iter();
        let ui_uris = ui_uris.filter_map(|uri| Some(uri.as_str()?.into_owned()));
        let ui_uris = ui_uris.collect();
        let (shown, shown_descriptor) = (name.clone(), descriptor.clone());
        Ok(Self {
            server: server.clone(),
            name,
            shown,
            descriptor,
            shown_descriptor,
            hints,
            digest,
            param_headers,
            ui_uris,
            source: ToolSource::default(),
            over_limit,
        })
    }

    /// Sets the kind of provider.
    pub fn made_by(mut self, source: ToolSource) -> Self {
        self.source = source;
        self
    }

    /// The same tool under another shown name; only the name's bytes differ in its descriptor.
    pub fn shown_as(&self, shown: String) -> Self {
        let mut tool = Self {
            shown_descriptor: self.descriptor.clone(),
            ..self.clone()
        };
        if shown != tool.name {
            tool.shown_descriptor = respelled(&self.descriptor, "name", &shown);
        }
        tool.shown = shown;
        tool
    }

    /// Shows those of its user interface's URIs that `is_foreign` with the name of its server.
    pub(crate) fn wrap_uris(&mut self, is_foreign: impl Fn(&str) -> bool) {
        let shown = self.shown_descriptor.clone();
        let Ok(json) = Json::validate(&shown, Strictness::Full) else {
            return;
        };
        let uris = handles::uris_of_tool(json).into_iter();
        let foreign = uris.filter(|uri| uri.as_str().is_some_and(|uri| is_foreign(&uri)));
        let changes: Vec<_> = foreign.map(|uri| (uri, wrapping(&self.server))).collect();
        if !changes.is_empty() {
            self.shown_descriptor = handles::prefixed(&shown, &changes);
        }
    }

    /// Overrides the server's annotations with `operation`.
    pub fn with_operation(&self, operation: Operation) -> Self {
        // Both hints are set, so that none of the server's own values remains.
        let hints = Hints {
            read_only: Some(operation == Operation::Read),
            destructive: Some(operation == Operation::Destructive),
        };
        Self {
            hints,
            ..self.clone()
        }
    }

    /// `server:tool`, the name used in policy, record and commands.
    pub fn canonical(&self) -> String {
        [self.server.as_str(), ":", &self.name].concat()
    }

    /// Whether it declares itself destructive, or its hints are silent and its name has a destructive verb.
    pub fn looks_destructive(&self) -> bool {
        crate::policy::looks_destructive(self).is_some()
    }
}

impl Hints {
    fn of(annotations: Option<Json<'_>>) -> Self {
        let hint = |key| {
            annotations
                .and_then(|a| a.get(key))
                .and_then(|h| h.as_bool())
        };
        Self {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
        }
    }

    /// The hints of requests that only read.
    pub(crate) fn reading() -> Self {
        Self {
            read_only: Some(true),
            destructive: None,
        }
    }

    /// Whether the server declared nothing about effects.
    pub fn is_silent(self) -> bool {
        self == Self::default()
    }

    /// The operation that the hints declare; destructive wins if both are set.
    pub fn operation(self) -> Operation {
        if self.destructive == Some(true) {
            Operation::Destructive
        // Silence counts as writing: otherwise an unannotated tool would pass a read-only token.
        } else if self.read_only == Some(true) {
            Operation::Read
        } else {
            Operation::Write
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(text: &'static str) -> Result<Tool, ToolError> {
        Tool::from_descriptor(
            &ServerName::new("s").unwrap(),
            Bytes::from_static(text.as_bytes()),
        )
    }

    #[test]
    fn only_literal_booleans_count_as_hints() {
        let cases = [
            (r#"{"name":"a"}"#, Operation::Write, true),
            (
                r#"{"name":"a","annotations":{"readOnlyHint":true}}"#,
                Operation::Read,
                false,
            ),
            (
                r#"{"name":"a","annotations":{"readOnlyHint":"true"}}"#,
                Operation::Write,
                true,
            ),
            (
                r#"{"name":"a","annotations":{"destructiveHint":1}}"#,
                Operation::Write,
                true,
            ),
            (
                r#"{"name":"a","annotations":{"readOnlyHint":true,"destructiveHint":true}}"#,
                Operation::Destructive,
                false,
            ),
            (
                r#"{"name":"a","annotations":{"readOnlyHint":false}}"#,
                Operation::Write,
                false,
            ),
        ];
        for (text, operation, silent) in cases {
            let hints = tool(text).unwrap().hints;
            assert_eq!(
                (hints.operation(), hints.is_silent()),
                (operation, silent),
                "{text}"
            );
        }
    }

    #[test]
    fn descriptors_without_a_name_are_refused() {
        assert_eq!(tool("[]"), Err(ToolError::NotAnObject));
        assert_eq!(tool("3"), Err(ToolError::NotAnObject));
        assert_eq!(tool(r#""name""#), Err(ToolError::NotAnObject));
        assert_eq!(tool(r#"[{"name":"a"}]"#), Err(ToolError::NotAnObject));
        assert_eq!(tool("{}"), Err(ToolError::NoName));
        assert_eq!(tool(r#"{"name":3}"#), Err(ToolError::NoName));
        assert_eq!(tool(r#"{"tool":{"name":"a"}}"#), Err(ToolError::NoName));
    }
}
