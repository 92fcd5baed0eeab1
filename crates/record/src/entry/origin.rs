//! The origin of a call, as one word of its record: `mcp`, `cli`, …, or `pack:brave` for a local pack of a script.

use std::borrow::Cow;

use callgate_gate::Source;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{IntoDeserializer, value::StrDeserializer},
};

/// The prefix of a pack's name.
const PACK: &str = "pack:";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Caller(Source),
    /// A local pack that a script uses.
    Pack(String),
}

impl Origin {
    pub fn written(&self) -> Cow<'static, str> {
        match self {
            Self::Caller(source) => source.as_str().into(),
            Self::Pack(name) => format!("{PACK}{name}").into(),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.written())
    }
}

impl<'de> Deserialize<'de> for Origin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let word = Cow::<str>::deserialize(deserializer)?;
        // The prefix keeps a pack that is called `mcp` apart from the source of that name.
        if let Some(name) = word.strip_prefix(PACK) {
            return Ok(Self::Pack(name.to_owned()));
        }
        let word: StrDeserializer<'_, D::Error> = (&*word).into_deserializer();
        Source::deserialize(word).map(Self::Caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_round_trip_as_one_word() {
        for word in ["\"mcp\"", "\"code\"", "\"pack:brave\"", "\"pack:\""] {
            let origin: Origin = serde_json::from_str(word).unwrap();
            assert_eq!(serde_json::to_string(&origin).unwrap(), word);
        }
        assert!(serde_json::from_str::<Origin>("\"elsewhere\"").is_err());
    }
}
