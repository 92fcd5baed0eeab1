//! What a person's yes is bound to: one exact call, and the rules that asked.

use std::{fmt, str::FromStr};

use callgate_wire::Json;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{Call, Digest, Ruling, Target};

/// Members of a request that are not part of what is asked for: who waits for progress, and what
/// carries a request over several rounds. The name is bound as the target that it leads to.
const UNBOUND: [&str; 4] = ["_meta", "name", "inputResponses", "requestState"];
/// How an id begins.
const MARK: &str = "ap_";

/// The id of an approval: `ap_` and 32 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ApprovalId(String);

/// The text is not an approval's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an approval's id is `ap_` and 32 hex digits")]
pub struct NoApprovalId;

impl ApprovalId {
    /// The id made of 128 random bits.
    pub fn from_random(bits: [u8; 16]) -> Self {
        let hex = bits.iter().map(|byte| format!("{byte:02x}"));
        Self(MARK.chars().map(String::from).chain(hex).collect())
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for ApprovalId {
    type Err = NoApprovalId;

    fn from_str(text: &str) -> Result<Self, NoApprovalId> {
        let hex = text.strip_prefix(MARK).ok_or(NoApprovalId)?;
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let fits = hex.len() == 32 && hex.bytes().all(is_hex);
        fits.then(|| Self(text.to_owned())).ok_or(NoApprovalId)
    }
}

impl TryFrom<String> for ApprovalId {
    type Error = NoApprovalId;

    fn try_from(text: String) -> Result<Self, NoApprovalId> {
        text.parse()
    }
}

impl From<ApprovalId> for String {
    fn from(id: ApprovalId) -> Self {
        id.0
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A person's yes to one held call. It releases a [`Hold`](crate::Hold) of that very call and no
/// other.
#[derive(Debug)]
pub struct Consent {
    pub(crate) binding: Digest,
    pub(crate) approval: Option<ApprovalId>,
}

/// What a person said yes to, kept with the permit: the later rounds of the same call rest on it too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    pub(crate) binding: Digest,
    pub(crate) approval: Option<ApprovalId>,
}

impl Consent {
    /// A yes that was given to the first round of this very call; a person is asked once per call.
    pub fn of_earlier_round(agreed: &Agreed) -> Self {
        Self {
            binding: agreed.binding,
            approval: agreed.approval.clone(),
        }
    }

    /// The approval of somebody who is not the caller, taken from where approvals are kept: it
    /// cannot be taken a second time.
    pub fn approved(approval: ApprovalId, binding: Digest) -> Self {
        Self {
            binding,
            approval: Some(approval),
        }
    }

    /// The word of the person at the host. It releases what only asks for that.
    pub fn confirmed(binding: Digest) -> Self {
        Self {
            binding,
            approval: None,
        }
    }
}

/// What an approval of a call holds for: the caller, the tool as it is defined now, the argument
/// bytes and the rules that asked. Any change makes it another call.
pub(crate) fn binding(call: &Call, ruling: &Ruling) -> Digest {
    let who = &call.attempt.host.who;
    let mut bound = Bound(Sha256::new());
    bound.add(b"callgate approval 1");
    bound.add(who.tenant.as_bytes());
    bound.add(who.principal.as_bytes());
    bound.add(who.agent.as_bytes());
    bound.add(call.target.server().as_str().as_bytes());
    bound.add(call.target.name().as_bytes());
    bound.add(call.attempt.frame.method().unwrap_or_default().as_bytes());
    match &call.target {
        Target::Tool(tool) => bound.add(&tool.descriptor),
        Target::Prompt(_) | Target::Resource(_) | Target::Completion(_) | Target::Method { .. } => {
        }
    }
    for (key, value) in call
        .attempt
        .frame
        .params()
        .into_iter()
        .flat_map(Json::members)
    {
        let is_bound = key
            .as_str()
            .is_none_or(|key| !UNBOUND.contains(&key.as_ref()));
        if is_bound {
            bound.add(key.bytes());
            bound.add(value.bytes());
        }
    }
    bound.add(ruling.asked_by().as_bytes());
    Digest::from_bytes(bound.0.finalize().into())
}

/// A hash over parts, each with its length in front, so that no two lists of parts are one text.
struct Bound(Sha256);

impl Bound {
    fn add(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_be_bytes());
        self.0.update(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_mark_and_hex_digits() {
        let id = ApprovalId::from_random([0xab; 16]);
        assert_eq!(id.as_str(), format!("ap_{}", "ab".repeat(16)));
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        for text in [
            "",
            "ap_",
            "AP_abababababababababababababababab",
            "ap_ABABABABABABABABABABABABABABABAB",
            "ap_ababababababababababababababababa",
            "ap_../../../../../../../../../../../",
        ] {
            assert_eq!(text.parse::<ApprovalId>(), Err(NoApprovalId), "{text}");
        }
    }
}
