//! Tool definitions to measure a detector with: poisoned ones in six kinds, and plain ones written the way servers list theirs.
//! They were written before the detector was changed, and half of each kind is held out: nothing is tuned on that half.

use serde::Deserialize;
use serde_json::Value;

/// A tool of a server that hides something in its definition.
#[derive(Clone, Debug, Deserialize)]
pub struct Poisoned {
    /// `instructions`, `shadowing`, `hidden`, `exfiltration`, `authority` or `structure`.
    pub kind: String,
    /// Only looked at to measure, never to tune.
    pub held_out: bool,
    /// The server that lists it.
    pub server: String,
    /// The descriptor.
    pub tool: Value,
    /// Honest tools of other servers that it aims at.
    pub beside: Vec<Plain>,
}

/// An honest tool of a server.
#[derive(Clone, Debug, Deserialize)]
pub struct Plain {
    /// The server that lists it.
    pub server: String,
    /// The descriptor.
    pub tool: Value,
}

/// Ten definitions of each of six kinds.
///
/// # Panics
/// When the file is broken.
#[must_use]
pub fn poisoned() -> Vec<Poisoned> {
    let text = include_str!("../definitions/poisoned.json");
    serde_json::from_str(text).expect("the file holds definitions")
}

/// Two hundred definitions of twenty servers.
///
/// # Panics
/// When the file is broken.
#[must_use]
pub fn plain() -> Vec<Plain> {
    let text = include_str!("../definitions/plain.json");
    serde_json::from_str(text).expect("the file holds definitions")
}
