//! Sealed states: what a host carries between the rounds of a parked or held call and can neither read nor change.
//!
//! A state is encrypted, authenticated, and bound to the principal and its request: it does not open for another principal or
//! with other parameters.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use callgate_gate::{Digest, Host};
use callgate_record::SEAL_MARK_BYTES;
use callgate_wire::{
    Frame,
    stateless::{INPUT_RESPONSES, REQUEST_STATE},
};
use ulid::Ulid;

/// The key that states are sealed with: 32 random bytes.
#[derive(Clone)]
pub struct SealKey([u8; 32]);

impl SealKey {
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A key that only this process has.
    pub fn random() -> Self {
        let mut bytes = [0; 32];
        // Without randomness nothing can be sealed, and a guessable key would let hosts forge states.
        aws_lc_rs::rand::fill(&mut bytes)
            .expect("the operating system's random number generator works");
        Self(bytes)
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the bytes: a derived `Debug` would print them.
        f.write_str("SealKey")
    }
}

/// Seals states and opens them again.
pub(crate) struct Seal {
    // Random nonces, because processes that share the key have no common counter.
    key: RandomizedNonceKey,
    /// The prefix of texts sealed with this key. A text without it is a server's own state.
    mark: String,
    /// The prefix of bytes sealed with this key in a store.
    stored_mark: [u8; SEAL_MARK_BYTES],
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seal").field("mark", &self.mark).finish()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestState {
    pub(crate) about: StateSubject,
    /// When it expires, in seconds since 1970.
    pub(crate) expires: u64,
}

/// The call of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateSubject {
    /// A call that is running at its server.
    Parked {
        /// The gateway process that has the call.
        node: Ulid,
        /// The id of the parked call, which changes with each round.
        park: Ulid,
    },
    /// A call that needs a person. The gateway keeps nothing of it, so any process with the key can continue it.
    Held {
        /// The digest of the call that has to be confirmed or approved.
        binding: Digest,
        /// How often its host was asked to return.
        asked: u8,
    },
}

/// What a state is bound to.
pub(crate) struct Binding(Digest);

impl Binding {
    /// The principal, the method and all parameters but those that change from round to round.
    pub(crate) fn of(host: &Host, frame: &Frame) -> Self {
        let mut text = Vec::new();
        // Each part with its length, so that no two requests give the same text by a shifted boundary.
        let mut put = |part: &[u8]| {
            text.extend_from_slice(&(part.len() as u64).to_be_bytes());
            text.extend_from_slice(part);
        };
        put(host.identity.tenant.as_bytes());
        put(host.identity.principal.as_bytes());
        put(frame.method().unwrap_or_default().as_bytes());
        let members = frame
            .params()
            .into_iter()
            .flat_map(|params| params.members());
        for (key, value) in members {
            // `_meta` has progress tokens and trace contexts, which are new in each request.
            let changes = [INPUT_RESPONSES, REQUEST_STATE, "_meta"];
            let name = key.as_str().unwrap_or_default();
            if !changes.contains(&&*name) {
                put(name.as_bytes());
                put(value.bytes());
            }
        }
        Self(Digest::of(&text))
    }
}

impl Seal {
    pub(crate) fn new(key: &SealKey) -> Self {
        // The mark is a digest of the key, so processes with one key recognise each other's states.
        let digest = Digest::of(&key.0);
        let mark = format!("callgate.{}.", digest.short());
        let mut stored_mark = [0; SEAL_MARK_BYTES];
        stored_mark.copy_from_slice(&digest.as_bytes()[..SEAL_MARK_BYTES]);
        let key = RandomizedNonceKey::new(&AES_256_GCM, &key.0)
            .expect("the key has the length that the cipher wants");
        Self {
            key,
            mark,
            stored_mark,
        }
    }

    /// Whether a text begins like one sealed with this key. Only `open` proves it.
    pub(crate) fn is_ours(&self, text: &str) -> bool {
        text.starts_with(&self.mark)
    }

    pub(crate) fn close(&self, state: RequestState, binding: &Binding) -> String {
        // The binding is authenticated and not part of the text: to open it, the same request has to be made again.
        let mut text = state.to_bytes();
        let aad = Aad::from(binding.0.as_bytes());
        let nonce = self
            .key
            .seal_in_place_append_tag(aad, &mut text)
            .expect("a short text can be sealed");
        let nonce: &[u8; NONCE_LEN] = nonce.as_ref();
        let sealed = [nonce.as_slice(), &text].concat();
        format!("{}{}", self.mark, URL_SAFE_NO_PAD.encode(sealed))
    }

    /// Seals bytes for a store, bound to `about`. The result begins with a mark of the key.
    pub(crate) fn close_bytes(&self, mut bytes: Vec<u8>, about: &str) -> Vec<u8> {
        let aad = Aad::from(stored_aad(about));
        let nonce = self
            .key
            .seal_in_place_append_tag(aad, &mut bytes)
            .expect("what fits in memory can be sealed");
        let nonce: &[u8; NONCE_LEN] = nonce.as_ref();
        [&self.stored_mark[..], nonce, &bytes].concat()
    }

    /// Opens sealed bytes; `None` if they were sealed with another key or for another `about`.
    pub(crate) fn open_bytes(&self, sealed: &[u8], about: &str) -> Option<Vec<u8>> {
        let sealed = sealed.strip_prefix(&self.stored_mark[..])?;
        let (nonce, bytes) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut bytes = bytes.to_vec();
        let aad = Aad::from(stored_aad(about));
        let opened = self.key.open_in_place(nonce, aad, &mut bytes).ok()?;
        Some(opened.to_vec())
    }

    /// Opens a state; `None` if it was sealed with another key or for another request.
    pub(crate) fn open(&self, text: &str, binding: &Binding) -> Option<RequestState> {
        let sealed = URL_SAFE_NO_PAD
            .decode(text.strip_prefix(&self.mark)?)
            .ok()?;
        let (nonce, text) = sealed.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut text = text.to_vec();
        let aad = Aad::from(binding.0.as_bytes());
        let opened = self.key.open_in_place(nonce, aad, &mut text).ok()?;
        RequestState::from_bytes(opened)
    }
}

/// The associated data of bytes in a store. States are bound to a digest and bytes to this text, so neither opens as the
/// other.
fn stored_aad(about: &str) -> Vec<u8> {
    format!("callgate kept {about}").into_bytes()
}

impl RequestState {
    fn to_bytes(self) -> Vec<u8> {
        let expires = self.expires.to_be_bytes();
        match self.about {
            StateSubject::Parked { node, park } => {
                let parts: [&[u8]; 4] = [&[0], &expires, &node.to_bytes(), &park.to_bytes()];
                parts.concat()
            }
            StateSubject::Held { binding, asked } => {
                let parts: [&[u8]; 4] = [&[1], &expires, &[asked], binding.as_bytes()];
                parts.concat()
            }
        }
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kind, bytes) = bytes.split_first()?;
        let (expires, rest) = bytes.split_first_chunk()?;
        let about = match kind {
            0 => {
                let (node, park) = rest.split_first_chunk()?;
                StateSubject::Parked {
                    node: Ulid::from_bytes(*node),
                    park: Ulid::from_bytes(park.try_into().ok()?),
                }
            }
            1 => {
                let (asked, binding) = rest.split_first()?;
                StateSubject::Held {
                    binding: Digest::from_bytes(binding.try_into().ok()?),
                    asked: *asked,
                }
            }
            _ => return None,
        };
        Some(Self {
            about,
            expires: u64::from_be_bytes(*expires),
        })
    }
}

#[cfg(test)]
mod tests {
    use callgate_gate::CallerIdentity;
    use callgate_wire::{Era, Strictness};

    use super::*;

    fn binding(principal: &str, params: &str) -> Binding {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
        let frame = Frame::parse(text.into(), Strictness::Full).unwrap();
        let identity = CallerIdentity {
            tenant: "local".into(),
            principal: principal.into(),
            agent: "a".into(),
            session: "s".into(),
            grant: callgate_gate::Grant::default(),
        };
        let host = Host {
            identity,
            client_info: None,
            capabilities: "{}".into(),
            era: Era::Stateless,
        };
        Binding::of(&host, &frame)
    }

    #[test]
    fn a_sealed_state_opens_only_for_its_request_and_principal() {
        let seal = Seal::new(&SealKey::new([7; 32]));
        let held = RequestState {
            about: StateSubject::Held {
                binding: Digest::of(b"a call"),
                asked: 3,
            },
            expires: 77,
        };
        let first = binding("p", r#"{"name":"t","arguments":{"a":1}}"#);
        assert_eq!(seal.open(&seal.close(held, &first), &first), Some(held));
        let state = RequestState {
            about: StateSubject::Parked {
                node: Ulid::from_bytes([1; 16]),
                park: Ulid::from_bytes([2; 16]),
            },
            expires: 77,
        };
        let text = seal.close(state, &first);
        let again =
            r#"{"name":"t","arguments":{"a":1},"inputResponses":{},"requestState":"x","_meta":{}}"#;
        assert_eq!(seal.open(&text, &binding("p", again)), Some(state));
        for (principal, params) in [
            ("q", again),
            ("p", r#"{"name":"t","arguments":{"a":2}}"#),
            ("p", r#"{"name":"u","arguments":{"a":1}}"#),
            ("p", r#"{"name":"t"}"#),
        ] {
            assert_eq!(
                seal.open(&text, &binding(principal, params)),
                None,
                "{params}"
            );
        }
        let other = Seal::new(&SealKey::new([8; 32]));
        assert!(seal.is_ours(&text) && !other.is_ours(&text));
        assert_eq!(other.open(&text, &binding("p", again)), None);
    }

    #[test]
    fn sealed_bytes_open_only_with_their_key_and_subject() {
        let seal = Seal::new(&SealKey::new([7; 32]));
        let sealed = seal.close_bytes(b"the call".to_vec(), "a");
        assert!(!sealed.windows(8).any(|window| window == b"the call"));
        assert_eq!(
            seal.open_bytes(&sealed, "a").as_deref(),
            Some(&b"the call"[..])
        );
        assert_eq!(seal.open_bytes(&sealed, "b"), None);
        assert_eq!(seal.open_bytes(&sealed[..30], "a"), None);
        let other = Seal::new(&SealKey::new([8; 32]));
        assert_eq!(other.open_bytes(&sealed, "a"), None);
        assert_ne!(
            other.close_bytes(Vec::new(), "a")[..SEAL_MARK_BYTES],
            sealed[..SEAL_MARK_BYTES]
        );
    }

    #[test]
    fn altered_sealed_states_do_not_open() {
        let seal = Seal::new(&SealKey::random());
        let binding = binding("p", "{}");
        let state = RequestState {
            about: StateSubject::Parked {
                node: Ulid::nil(),
                park: Ulid::nil(),
            },
            expires: 1,
        };
        let text = seal.close(state, &binding);
        assert_ne!(text, seal.close(state, &binding), "no two are the same");
        assert_eq!(seal.open(&format!("{text}-TAMPERED"), &binding), None);
        assert_eq!(seal.open(&text[..text.len() - 1], &binding), None);
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            let opened = seal.open(&changed, &binding);
            // The last character holds bits that are not part of any byte.
            assert!(opened.is_none() || at == text.len() - 1, "{at}");
        }
    }
}
