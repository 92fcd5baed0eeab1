//! Words that look alike: compounds and their parts, beginnings, slips of the pen.

/// What a part of a compound counts for, against the word itself.
const PART_WEIGHT: f32 = 0.7;
/// What a longer or shorter form counts for.
const BEGINNING_WEIGHT: f32 = 0.6;
/// What a slip of the pen counts for.
const SLIP_WEIGHT: f32 = 0.6;
/// Shorter words are too often parts of others by chance.
const MIN_PART: usize = 3;
const MIN_BEGINNING: usize = 4;
/// From this length on a word may have one wrong letter, and from twice that two.
const MIN_SLIP: usize = 5;

/// A vocabulary that can be looked through in order.
pub(crate) struct Vocabulary<'v> {
    /// All stems, sorted.
    pub(crate) sorted: &'v [(Box<str>, u32)],
}

impl Vocabulary<'_> {
    fn find(&self, word: &str) -> Option<u32> {
        let at = self
            .sorted
            .binary_search_by(|(known, _)| (**known).cmp(word));
        at.ok().map(|at| self.sorted[at].1)
    }

    /// The words that are parts of `word` when it is cut in two: `timezone` is time, zone.
    pub(crate) fn parts(&self, word: &str) -> Vec<(u32, f32)> {
        let cuts = word.char_indices().map(|(at, _)| at);
        let cuts = cuts.filter(|at| *at >= MIN_PART && word.len() - at >= MIN_PART);
        for at in cuts {
            let (first, second) = (
                crate::words::stem(&word[..at]),
                crate::words::stem(&word[at..]),
            );
            if let (Some(first), Some(second)) = (self.find(&first), self.find(&second)) {
                return vec![(first, PART_WEIGHT), (second, PART_WEIGHT)];
            }
        }
        Vec::new()
    }

    /// The words that begin with `word`, or that it begins with: `repo`, `repository`.
    pub(crate) fn beginnings(&self, word: &str) -> Vec<(u32, f32)> {
        if word.len() < MIN_BEGINNING {
            return Vec::new();
        }
        let start = self.sorted.partition_point(|(known, _)| **known < *word);
        let longer = self.sorted[start..]
            .iter()
            .take_while(|(known, _)| known.starts_with(word))
            .filter(|(known, _)| known.len() <= word.len() * 3);
        let mut found: Vec<(u32, f32)> =
            longer.map(|(_, term)| (*term, BEGINNING_WEIGHT)).collect();
        let ends = word.char_indices().map(|(at, _)| at);
        for end in ends.filter(|end| *end >= MIN_BEGINNING && *end * 3 >= word.len() * 2) {
            found.extend(self.find(&word[..end]).map(|term| (term, BEGINNING_WEIGHT)));
        }
        found
    }

    /// The words that `word` may have been meant to be, spelled with the same first letter.
    pub(crate) fn slips(&self, word: &str) -> Vec<(u32, f32)> {
        let length = word.chars().count();
        if length < MIN_SLIP {
            return Vec::new();
        }
        let allowed = if length >= 2 * MIN_SLIP { 2 } else { 1 };
        let first = &word[..word.chars().next().map_or(0, char::len_utf8)];
        let start = self.sorted.partition_point(|(known, _)| **known < *first);
        let candidates = self.sorted[start..]
            .iter()
            .take_while(|(known, _)| known.starts_with(first));
        let close = candidates.filter(|(known, _)| {
            known.len().abs_diff(word.len()) <= allowed && is_within(word, known, allowed)
        });
        close.map(|(_, term)| (*term, SLIP_WEIGHT)).collect()
    }
}

/// Whether two words differ by at most so many letters added, left out, exchanged or swapped with their
/// neighbour.
fn is_within(one: &str, other: &str, allowed: usize) -> bool {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    let width = other.len() + 1;
    let mut before_last: Vec<usize> = vec![0; width];
    let mut last: Vec<usize> = (0..width).collect();
    for (i, a) in one.iter().enumerate() {
        let mut row = vec![i + 1; width];
        for (j, b) in other.iter().enumerate() {
            let exchanged = last[j] + usize::from(a != b);
            row[j + 1] = exchanged.min(last[j + 1] + 1).min(row[j] + 1);
            let is_swap = i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b;
            if is_swap {
                row[j + 1] = row[j + 1].min(before_last[j - 1] + 1);
            }
        }
        if row.iter().all(|distance| *distance > allowed) {
            return false;
        }
        before_last = last;
        last = row;
    }
    last[width - 1] <= allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(words: &[&str]) -> Vec<(Box<str>, u32)> {
        let mut words = words.to_vec();
        words.sort_unstable();
        let numbered = words.iter().enumerate();
        numbered
            .map(|(at, word)| ((*word).into(), at as u32))
            .collect()
    }

    fn named(found: &[(u32, f32)], sorted: &[(Box<str>, u32)]) -> Vec<String> {
        let name = |(term, _): &(u32, f32)| sorted[*term as usize].0.to_string();
        found.iter().map(name).collect()
    }

    #[test]
    fn compound_abbreviated_and_misspelt_words_are_expanded() {
        let sorted = sorted(&[
            "time",
            "zone",
            "repositori",
            "databas",
            "branch",
            "calendar",
        ]);
        let words = Vocabulary { sorted: &sorted };
        assert_eq!(named(&words.parts("timezone"), &sorted), ["time", "zone"]);
        assert_eq!(named(&words.beginnings("repo"), &sorted), ["repositori"]);
        assert_eq!(named(&words.beginnings("branching"), &sorted), ["branch"]);
        assert_eq!(named(&words.slips("brnach"), &sorted), ["branch"]);
        assert_eq!(named(&words.slips("calender"), &sorted), ["calendar"]);
        assert!(words.slips("time").is_empty());
        assert!(words.slips("zebra").is_empty());
        assert!(words.parts("x").is_empty() && words.beginnings("é").is_empty());
    }
}
