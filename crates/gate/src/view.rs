//! The views: the set of tools that a host sees. The URL, the token or a flag chooses the view, never the state
//! of a connection.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The tools that a host sees, and how its calls are interpreted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum View {
    /// Every tool of every server, called by its name.
    #[default]
    Direct,
    /// A handful of tools that find, describe and call the others.
    Search,
    /// One tool that runs scripts, which call the others.
    Code,
}

/// A word that names no view.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown view `{0}`")]
pub struct UnknownView(pub String);

impl View {
    pub const ALL: [Self; 3] = [Self::Direct, Self::Search, Self::Code];

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Search => "search",
            Self::Code => "code",
        }
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for View {
    type Err = UnknownView;

    fn from_str(word: &str) -> Result<Self, UnknownView> {
        let found = Self::ALL.into_iter().find(|view| view.as_str() == word);
        found.ok_or_else(|| UnknownView(word.to_owned()))
    }
}
