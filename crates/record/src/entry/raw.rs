//! JSON that is stored as it was received.

use callgate_wire::Json;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::value::RawValue;

/// A JSON value as text.
///
/// Its text was scanned on receipt, so it is not parsed again for storage. Serializing it into something larger does
/// parse it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawJson(Box<str>);

impl RawJson {
    /// A value of its own.
    pub fn of(json: Json<'_>) -> Self {
        Self(json.as_text().into())
    }

    /// A text, if it is JSON.
    pub fn checked(text: String) -> Option<Self> {
        let raw = RawValue::from_string(text).ok()?;
        Some(Self(raw.into()))
    }

    /// A text that was cut out of a message as a value of its own.
    pub(crate) fn believed(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    pub fn get(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|raw| Self(raw.into()))
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(ser::Error::custom)?;
        raw.serialize(serializer)
    }
}
