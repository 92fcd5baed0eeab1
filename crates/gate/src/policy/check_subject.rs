//! The subject of a check, for the record and its readers.

use super::projection::SubjectKind;

/// The most paths that a check names.
const MAX_PATHS: usize = 16;

/// The part of a call's arguments that a check was about, as written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckSubject {
    /// The action on files, from the verb in the tool's name.
    pub action: Option<&'static str>,
    /// The command that decided.
    pub command: Option<String>,
    /// The paths; the deciding one comes first.
    pub paths: Vec<String>,
    /// The address that decided.
    pub domain: Option<String>,
}

impl CheckSubject {
    /// Takes the subjects and the index of the one that decided; `None` for texts, which may hold anything.
    pub(super) fn of(sought: SubjectKind, mut found: Vec<String>, decided: usize) -> Option<Self> {
        found.swap(0, decided);
        // After the swap, so that the path that decided survives the cut.
        found.truncate(MAX_PATHS);
        let first = |found: Vec<String>| found.into_iter().next();
        match sought {
            SubjectKind::Paths => Some(Self {
                paths: found,
                ..Self::default()
            }),
            SubjectKind::Hosts => Some(Self {
                domain: first(found),
                ..Self::default()
            }),
            SubjectKind::Commands => Some(Self {
                command: first(found),
                ..Self::default()
            }),
            SubjectKind::Texts => None,
        }
    }

    pub(super) fn with_action(mut self, action: Option<&'static str>) -> Self {
        self.action = action;
        self
    }
}
