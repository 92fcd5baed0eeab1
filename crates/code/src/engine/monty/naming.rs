//! Packs as interpreter objects, and suggestions for misspelt names.

use monty_types::{DictPairs, MontyClassInstance, MontyClassType, MontyObject, MontyUuid};

/// A pack: an object whose members the host resolves. The instance id encodes the pack's index.
pub(super) fn pack_object(name: &str, at: usize) -> MontyObject {
    let id = MontyUuid::from_u128((at as u128).wrapping_add(1));
    let class = MontyUuid::from_u128((at as u128).wrapping_add(1) | (1 << 100));
    MontyObject::ClassInstance(Box::new(MontyClassInstance {
        class_type: MontyClassType {
            name: name.to_owned(),
            id: class,
            host_defined: true,
            is_dataclass: false,
            attrs: DictPairs::default(),
        },
        instance_id: id,
        attrs: DictPairs::default(),
    }))
}

/// The first name that is similar to `name`.
pub(super) fn nearest<'a>(name: &str, names: &'a [String]) -> Option<&'a str> {
    let fold = |text: &str| text.replace('_', "").to_lowercase();
    let wanted = fold(name);
    let is_near = |candidate: &&String| {
        let candidate = fold(candidate);
        candidate == wanted
            || candidate.starts_with(&wanted)
            || wanted.starts_with(&candidate)
            || distance_is_small(&candidate, &wanted)
    };
    names.iter().find(is_near).map(String::as_str)
}

/// Whether the edit distance is at most 2. Short names are excluded: nearly all of them would match.
fn distance_is_small(one: &str, other: &str) -> bool {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.iter().enumerate() {
        let mut before = row[0];
        row[0] = at + 1;
        for (to, wanted) in other.iter().enumerate() {
            let changed = before + usize::from(letter != wanted);
            before = row[to + 1];
            row[to + 1] = changed.min(before + 1).min(row[to] + 1);
        }
    }
    row[other.len()] <= 2 && other.len() > 3
}
