//! Bindings: a consent is valid for one exact call and the rules that asked.

use std::{fmt, str::FromStr};

use callgate_wire::Json;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::{Attempt, Call, Digest, Ruling, Target};

/// Request members that a binding leaves out: progress tokens and the state of multi-round requests. The name is
/// bound as the target that it resolves to.
const UNBOUND: [&str; 4] = ["_meta", "name", "inputResponses", "requestState"];
/// The prefix of every id.
const MARK: &str = "ap_";

/// The id of an approval: `ap_` and 32 hex digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ApprovalId(String);

/// The text is not an approval's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an approval id is `ap_` followed by 32 hex digits")]
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
        // Strict, because ids come from URLs, commands and other gateways.
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

/// A person's consent to one held call. It releases a [`Hold`](crate::Hold) of exactly that call.
#[derive(Debug)]
pub struct Consent {
    pub(crate) binding: Digest,
    pub(crate) approval: Option<ApprovalId>,
}

/// The consent behind a permit; later rounds of the same call reuse it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenConsent {
    pub(crate) binding: Digest,
    pub(crate) approval: Option<ApprovalId>,
}

impl Consent {
    /// The consent given to the first round of this call; a person is asked once per call.
    pub fn of_earlier_round(agreed: &GivenConsent) -> Self {
        Self {
            binding: agreed.binding,
            approval: agreed.approval.clone(),
        }
    }

    /// An approver's decision, taken from the approval store, which hands each one out once.
    pub fn approved(approval: ApprovalId, binding: Digest) -> Self {
        Self {
            binding,
            approval: Some(approval),
        }
    }

    /// A confirmation by the person at the host. It releases only calls that `confirm` rules hold.
    pub fn confirmed(binding: Digest) -> Self {
        Self {
            binding,
            approval: None,
        }
    }
}

/// The part of a request that an approval is bound to and that an approver therefore sees. Everything else
/// (`_meta`, the state of multi-round requests) can change between asking and running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundRequest {
    /// The arguments as JSON text, byte for byte; of a request without arguments, all its bound members.
    pub arguments: String,
    /// The members beside the arguments as a JSON object, where there are any.
    pub others: Option<String>,
}

impl BoundRequest {
    /// The bound part of a call's request.
    pub fn of(call: &Call) -> Self {
        let has_arguments = match &call.target {
            Target::Tool(_) | Target::Prompt(_) => true,
            Target::Resource(_) | Target::Completion(_) | Target::Method { .. } => false,
        };
        let is_arguments =
            |key: &Json<'_>| has_arguments && key.as_str().as_deref() == Some("arguments");
        let others: Vec<String> = bound_members(&call.attempt)
            .filter(|(key, _)| !is_arguments(key))
            .map(|(key, value)| format!("{}:{}", key.as_text(), value.as_text()))
            .collect();
        let others = (!others.is_empty()).then(|| format!("{{{}}}", others.join(",")));
        let arguments = bound_members(&call.attempt).find(|(key, _)| is_arguments(key));
        let none = || "{}".to_owned();
        if has_arguments {
            Self {
                arguments: arguments.map_or_else(none, |(_, value)| value.as_text().to_owned()),
                others,
            }
        } else {
            Self {
                arguments: others.unwrap_or_else(none),
                others: None,
            }
        }
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.arguments.len() + self.others.as_ref().map_or(0, String::len)
    }

    /// Whether it has no bytes; even an empty object has two.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The binding of an approval: the caller, the tool as defined now, the argument bytes and the rules that
/// asked. Any change makes it another call.
pub(crate) fn binding(call: &Call, ruling: &Ruling) -> Digest {
    let mut bound = same_call(&call.attempt, &call.target);
    bound.add(ruling.asked_by().as_bytes());
    bound.digest()
}

/// Identifies a call across retries, whichever rules apply to it.
pub fn fingerprint(attempt: &Attempt, target: &Target) -> Digest {
    same_call(attempt, target).digest()
}

fn same_call(attempt: &Attempt, target: &Target) -> BindingHasher {
    let identity = &attempt.host.identity;
    let mut bound = BindingHasher(Sha256::new());
    // A domain separator: a digest made for another purpose can never pass as a binding.
    bound.add(b"callgate approval 1");
    // The session is not bound: a host may reconnect while an approver thinks.
    bound.add(identity.tenant.as_bytes());
    bound.add(identity.principal.as_bytes());
    bound.add(identity.agent.as_bytes());
    bound.add(target.server().as_str().as_bytes());
    bound.add(target.name().as_bytes());
    bound.add(attempt.frame.method().unwrap_or_default().as_bytes());
    match target {
        // A server that changes a definition after the question gets a new question, not the old approval.
        Target::Tool(tool) => bound.add(&tool.descriptor),
        Target::Prompt(_) | Target::Resource(_) | Target::Completion(_) | Target::Method { .. } => {
        }
    }
    for (key, value) in bound_members(attempt) {
        // Raw bytes, not parsed values: parsers differ, and the approved bytes are the ones that are sent.
        bound.add(key.bytes());
        bound.add(value.bytes());
    }
    bound
}

/// The members of a request's parameters that an approval is bound to.
fn bound_members(attempt: &Attempt) -> impl Iterator<Item = (Json<'_>, Json<'_>)> {
    let params = attempt.frame.params().into_iter();
    params.flat_map(Json::members).filter(|(key, _)| {
        key.as_str()
            // A key that does not decode is bound: leaving it out would let it change unseen.
            .is_none_or(|key| !UNBOUND.contains(&key.as_ref()))
    })
}

/// A hash over length-prefixed parts, so that no two lists of parts hash the same bytes.
struct BindingHasher(Sha256);

impl BindingHasher {
    fn add(&mut self, part: &[u8]) {
        self.0.update((part.len() as u64).to_be_bytes());
        self.0.update(part);
    }

    fn digest(self) -> Digest {
        Digest::from_bytes(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approval_ids_are_a_prefix_and_32_hex_digits() {
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
