//! Another reader of JSON, to compare ours with: what `serde_json` says of a text.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A document as the other reader understands it, with repeated keys kept.
#[derive(Debug)]
pub(crate) enum Tree {
    /// A literal or a number; its text is compared elsewhere.
    Plain,
    Text(String),
    Array(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

/// What the other reader says of a text.
#[derive(Debug)]
pub(crate) enum Judgement {
    /// It breaks the grammar, or is not UTF-8.
    NotJson,
    /// It keeps to the grammar, and an escape names half of a surrogate pair.
    LoneSurrogate,
    /// It keeps to the grammar, and is deeper or has larger numbers than the other reader takes.
    BeyondIt,
    /// It was read.
    Read(Tree),
}

impl Judgement {
    pub(crate) fn of(text: &[u8]) -> Judgement {
        let Ok(text) = std::str::from_utf8(text) else {
            return Judgement::NotJson;
        };
        // A reader that ignores a value checks its grammar only, at any depth.
        if serde_json::from_str::<IgnoredAny>(text).is_err() {
            return Judgement::NotJson;
        }
        match serde_json::from_str(text) {
            Ok(tree) => Judgement::Read(tree),
            Err(error) => {
                let said = error.to_string();
                if said.contains("surrogate") || said.contains("hex escape") {
                    Judgement::LoneSurrogate
                } else {
                    Judgement::BeyondIt
                }
            }
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        match self {
            Judgement::NotJson => false,
            Judgement::LoneSurrogate | Judgement::BeyondIt | Judgement::Read(_) => true,
        }
    }
}

impl Tree {
    /// Whether the outermost value is an object that names one key twice.
    pub(crate) fn repeats_a_key_here(&self) -> bool {
        let Tree::Object(members) = self else {
            return false;
        };
        let mut keys: Vec<&str> = members.iter().map(|(key, _)| key.as_str()).collect();
        keys.sort_unstable();
        keys.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// The same for every object in it.
    pub(crate) fn repeats_a_key(&self) -> bool {
        let below = match self {
            Tree::Plain | Tree::Text(_) => false,
            Tree::Array(elements) => elements.iter().any(Tree::repeats_a_key),
            Tree::Object(members) => members.iter().any(|(_, value)| value.repeats_a_key()),
        };
        below || self.repeats_a_key_here()
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Plain)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Plain)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Tree, E> {
        Ok(Tree::Plain)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Tree, E> {
        Ok(Tree::Plain)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Plain)
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Tree, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = array.next_element()? {
            elements.push(element);
        }
        Ok(Tree::Array(elements))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Tree, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = object.next_entry()? {
            members.push(member);
        }
        Ok(Tree::Object(members))
    }
}
