//! A YAML file as a tree whose nodes know their positions.

use std::fmt;

use callgate_gate::Place;
use serde::{Deserialize, Deserializer, de};
use serde_json::{Number, Value};
use serde_saphyr::Spanned;

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) tree: Tree,
    pub(crate) place: Place,
}

#[derive(Debug, Clone)]
pub(crate) enum Tree {
    /// Null, a boolean, a number or a string.
    Leaf(Value),
    List(Vec<Node>),
    /// In the order of the file.
    Map(Vec<Member>),
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) key: String,
    pub(crate) place: Place,
    pub(crate) node: Node,
}

impl Node {
    pub(crate) fn parse(text: &str) -> Result<Self, serde_saphyr::Error> {
        // YAML 1.1 would read `n` and `on` as booleans, but they can be names of branches.
        let options = serde_saphyr::options! { strict_booleans: true };
        let spanned: Spanned<Tree> = serde_saphyr::from_str_with_options(text, options)?;
        Ok(Self::of(spanned))
    }

    fn of(spanned: Spanned<Tree>) -> Self {
        Self {
            place: Place::of(&spanned.referenced),
            tree: spanned.value,
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        let Tree::Map(members) = &self.tree else {
            return None;
        };
        let found = members.iter().find(|member| member.key == key);
        found.map(|member| &member.node)
    }

    /// The place of the value at a path such as `states.a.transitions[0].goto`.
    pub(crate) fn place_at(&self, path: &str) -> Option<Place> {
        let mut node = self;
        for part in path.split('.') {
            let (key, indices) = part.split_at(part.find('[').unwrap_or(part.len()));
            node = node.get(key)?;
            for index in indices.split('[').skip(1) {
                let Tree::List(items) = &node.tree else {
                    return None;
                };
                node = items.get(index.trim_end_matches(']').parse::<usize>().ok()?)?;
            }
        }
        Some(node.place)
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.tree, Tree::Leaf(Value::Null))
    }

    /// The node as a JSON value, without positions.
    pub(crate) fn to_value(&self) -> Value {
        match &self.tree {
            Tree::Leaf(value) => value.clone(),
            Tree::List(nodes) => nodes.iter().map(Self::to_value).collect(),
            Tree::Map(members) => {
                let pair = |member: &Member| (member.key.clone(), member.node.to_value());
                members.iter().map(pair).collect()
            }
        }
    }

    /// The node's type, for messages.
    pub(crate) fn what(&self) -> &'static str {
        match &self.tree {
            Tree::Leaf(Value::Null) => "nothing",
            Tree::Leaf(Value::Bool(_)) => "a boolean",
            Tree::Leaf(Value::Number(_)) => "a number",
            Tree::Leaf(_) => "a string",
            Tree::List(_) => "a list",
            Tree::Map(_) => "a map",
        }
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TreeVisitor)
    }
}

struct TreeVisitor;

impl<'de> de::Visitor<'de> for TreeVisitor {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Bool(value)))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Tree, E> {
        let number = Number::from_f64(value);
        let number = number.ok_or_else(|| E::custom("the number is not finite"))?;
        Ok(Tree::Leaf(Value::Number(number)))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Tree, E> {
        Ok(Tree::Leaf(value.into()))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Null))
    }

    fn visit_none<E: de::Error>(self) -> Result<Tree, E> {
        Ok(Tree::Leaf(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Tree, D::Error> {
        Tree::deserialize(deserializer)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut list: A) -> Result<Tree, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element::<Spanned<Tree>>()? {
            nodes.push(Node::of(node));
        }
        Ok(Tree::List(nodes))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
        let mut members = Vec::new();
        while let Some((key, node)) = map.next_entry::<Spanned<String>, Spanned<Tree>>()? {
            members.push(Member {
                place: Place::of(&key.referenced),
                key: key.value,
                node: Node::of(node),
            });
        }
        Ok(Tree::Map(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn yaml_nodes_know_their_position() {
        let node = Node::parse("a: 1\nb:\n  - x\n  - {c: yes please, d: true, n: y}\n")
            .expect("it is YAML");
        assert_eq!(
            node.to_value(),
            json!({"a": 1, "b": ["x", {"c": "yes please", "d": true, "n": "y"}]})
        );
        let Tree::Map(members) = &node.tree else {
            panic!("a map");
        };
        assert_eq!((members[1].place.line, members[1].place.column), (2, 1));
        let Tree::List(nodes) = &members[1].node.tree else {
            panic!("a list");
        };
        assert_eq!((nodes[0].place.line, nodes[0].place.column), (3, 5));
        assert_eq!(nodes[1].get("d").map(|node| node.place.line), Some(4));
        for (path, place) in [
            ("a", Some((1, 4))),
            ("b[0]", Some((3, 5))),
            ("b[1].n", Some((4, 33))),
            ("b[2]", None),
            ("a.b", None),
        ] {
            let found = node.place_at(path).map(|place| (place.line, place.column));
            assert_eq!(found, place, "{path}");
        }
    }
}
