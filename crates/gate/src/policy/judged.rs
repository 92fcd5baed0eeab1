//! What a check was about, for the record and for people who read it.

use super::projection::Sought;

/// How many paths a check names.
const MAX_PATHS: usize = 16;

/// What in a call's arguments a check was about, as it is written there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Judged {
    /// What is done to files, as far as the tool's name says it.
    pub action: Option<&'static str>,
    /// The command that decided.
    pub command: Option<String>,
    /// The paths, the one that decided first.
    pub paths: Vec<String>,
    /// The address that decided.
    pub domain: Option<String>,
}

impl Judged {
    /// Of the things that were found, and which of them decided; `None` for texts, which may hold anything.
    pub(super) fn of(sought: Sought, mut found: Vec<String>, decided: usize) -> Option<Self> {
        found.swap(0, decided);
        found.truncate(MAX_PATHS);
        let first = |found: Vec<String>| found.into_iter().next();
        match sought {
            Sought::Paths => Some(Self {
                paths: found,
                ..Self::default()
            }),
            Sought::Hosts => Some(Self {
                domain: first(found),
                ..Self::default()
            }),
            Sought::Commands => Some(Self {
                command: first(found),
                ..Self::default()
            }),
            Sought::Texts => None,
        }
    }

    pub(super) fn with_action(mut self, action: Option<&'static str>) -> Self {
        self.action = action;
        self
    }
}
