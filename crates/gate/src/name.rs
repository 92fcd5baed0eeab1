//! Names: canonical `server:tool` inside, `server__tool` towards hosts.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize, Serializer};

use crate::Digest;

/// Longest server name; with the separator it leaves room for a tool's name in 49 characters.
const MAX_SERVER_NAME: usize = 32;
/// Names of parts of the gateway, which a server could otherwise imitate.
const RESERVED: [&str; 4] = ["builtin", "proxy", "tools", "callgate"];
/// The hex digits of the hash that keeps a shortened name unique.
const MARK: usize = 8;

/// A server's configured name: `[A-Za-z0-9_-]{1,32}` without `__`, not reserved. An `Arc`, because each call copies it several
/// times.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ServerName(Arc<str>);

/// Why a text cannot be a server's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A character or a length outside the rule.
    #[error("server name `{0}` must be 1 to 32 of A-Z, a-z, 0-9, `_` and `-`")]
    Form(String),
    /// `__` separates server and tool in shown names.
    #[error("server name `{0}` must not contain `__`, which separates server and tool")]
    Separator(String),
    /// The gateway uses this name itself.
    #[error("server name `{0}` is reserved (reserved: builtin, proxy, tools, callgate)")]
    Reserved(String),
}

impl ServerName {
    /// Checks a configured name.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if text.is_empty() || text.len() > MAX_SERVER_NAME || !text.chars().all(legal) {
            return Err(NameError::Form(text.to_owned()));
        }
        // `a__b` with tool `c` and `a` with tool `b__c` would share a shown name.
        if text.contains("__") {
            return Err(NameError::Separator(text.to_owned()));
        }
        if RESERVED.contains(&text) {
            return Err(NameError::Reserved(text.to_owned()));
        }
        Ok(Self(text.into()))
    }

    /// The name of the built-in tools, which no configured server can have.
    pub fn builtin() -> Self {
        Self(RESERVED[0].into())
    }

    /// Whether it is the name of the built-in tools.
    pub fn is_builtin(&self) -> bool {
        self.as_str() == RESERVED[0]
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Serialize for ServerName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether shown names carry the server's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Prefix {
    /// `server__tool`, also with a single server.
    #[default]
    Always,
    /// The tool's own name, unchanged.
    Never,
    /// For agent steps: built-in tools without prefix, a plugin's as `plugin_operation`.
    Step,
}

/// How tools are shown to hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    /// Separates server and tool.
    pub separator: String,
    /// Whether the server's name is prepended.
    pub prefix: Prefix,
    /// Longest shown name: hosts add a prefix of their own and cut at 64.
    pub max_length: usize,
}

impl Default for Naming {
    fn default() -> Self {
        Self {
            separator: "__".to_owned(),
            prefix: Prefix::Always,
            max_length: 49,
        }
    }
}

impl Naming {
    /// How tools are shown in an agent's step.
    pub fn step() -> Self {
        Self {
            separator: "_".to_owned(),
            prefix: Prefix::Step,
            ..Self::default()
        }
    }

    /// The name a host sees for `tool` of `server`: always the same for the same pair.
    ///
    /// A name that is too long, has characters that hosts refuse, or could be read as another
    /// server's (`a_` with `b`, `a` with `_b`), is cut and marked with a short hash of the
    /// canonical name, so that two such tools stay apart.
    pub fn shown(&self, server: &ServerName, tool: &str) -> String {
        match self.prefix {
            Prefix::Never => return tool.to_owned(),
            Prefix::Step if server.is_builtin() => return tool.to_owned(),
            Prefix::Always | Prefix::Step => {}
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        let whole = format!("{server}{}{tool}", self.separator);
        // A step checks its names for collisions before it starts.
        let reads_back = self.prefix == Prefix::Step
            || whole.find(&self.separator) == Some(server.as_str().len());
        if reads_back && whole.len() <= self.max_length && whole.chars().all(plain) {
            return whole;
        }
        // A hash and not a counter: the shown name must not depend on which other tools exist, or it
        // would change when a server is added.
        let mark = &Digest::of(format!("{server}:{tool}").as_bytes()).short()[..MARK];
        let kept = whole.chars().map(|c| if plain(c) { c } else { '_' });
        let head: String = kept
            .take(self.max_length.saturating_sub(MARK + 1))
            .collect();
        format!("{head}_{mark}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_names_are_validated() {
        for good in ["a", "git-hub", "A_b", &"x".repeat(32)] {
            assert!(ServerName::new(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "a b",
            "a:b",
            "a__b",
            "builtin",
            "callgate",
            "é",
            &"x".repeat(33),
        ] {
            assert!(ServerName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shown_names_are_short_plain_and_distinct() {
        let naming = Naming::default();
        let server = ServerName::new("files").unwrap();
        assert_eq!(naming.shown(&server, "read"), "files__read");
        let long = "a".repeat(60);
        let longer = "a".repeat(61);
        let shown = naming.shown(&server, &long);
        assert_eq!(shown.len(), 49);
        assert_ne!(shown, naming.shown(&server, &longer));
        assert_eq!(shown, naming.shown(&server, &long));
        let odd = naming.shown(&server, "über tool");
        assert!(
            odd.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'),
            "{odd}"
        );
        let bare = Naming {
            prefix: Prefix::Never,
            ..Naming::default()
        };
        assert_eq!(bare.shown(&server, &long), long);
    }
}
