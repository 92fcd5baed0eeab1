//! Query expansion by spelling: parts of compounds, common prefixes, misspellings.

/// The weight of a part of a compound; the word itself weighs 1.
const PART_WEIGHT: f32 = 0.7;
/// The weight of a longer or shorter form of a word.
const PREFIX_WEIGHT: f32 = 0.6;
/// The weight of a word that the query may have misspelt.
const MISSPELLING_WEIGHT: f32 = 0.6;
/// Shorter words are parts of others by chance too often.
const MIN_PART: usize = 3;
const MIN_PREFIX: usize = 4;
/// Words of this length may have one wrong letter, words of twice this length two.
const MIN_MISSPELLING: usize = 5;

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

    /// The two words that `word` is a compound of: `timezone` is time, zone.
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

    /// Words of which `word` is a prefix, or that are a prefix of it: `repo`, `repository`.
    pub(crate) fn prefixes(&self, word: &str) -> Vec<(u32, f32)> {
        if word.len() < MIN_PREFIX {
            return Vec::new();
        }
        let start = self.sorted.partition_point(|(known, _)| **known < *word);
        let longer = self.sorted[start..]
            .iter()
            .take_while(|(known, _)| known.starts_with(word))
            .filter(|(known, _)| known.len() <= word.len() * 3);
        let mut found: Vec<(u32, f32)> = longer.map(|(_, term)| (*term, PREFIX_WEIGHT)).collect();
        let ends = word.char_indices().map(|(at, _)| at);
        for end in ends.filter(|end| *end >= MIN_PREFIX && *end * 3 >= word.len() * 2) {
            found.extend(self.find(&word[..end]).map(|term| (term, PREFIX_WEIGHT)));
        }
        found
    }

    /// Words of similar spelling that share the first letter, so one range of the sorted vocabulary is scanned.
    pub(crate) fn misspellings(&self, word: &str) -> Vec<(u32, f32)> {
        let length = word.chars().count();
        if length < MIN_MISSPELLING {
            return Vec::new();
        }
        let allowed = if length >= 2 * MIN_MISSPELLING { 2 } else { 1 };
        let first = &word[..word.chars().next().map_or(0, char::len_utf8)];
        let start = self.sorted.partition_point(|(known, _)| **known < *first);
        let candidates = self.sorted[start..]
            .iter()
            .take_while(|(known, _)| known.starts_with(first));
        let close = candidates.filter(|(known, _)| {
            known.len().abs_diff(word.len()) <= allowed && is_within(word, known, allowed)
        });
        close.map(|(_, term)| (*term, MISSPELLING_WEIGHT)).collect()
    }
}

/// Whether the Damerau-Levenshtein distance of two words is at most `allowed`.
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
        assert_eq!(named(&words.prefixes("repo"), &sorted), ["repositori"]);
        assert_eq!(named(&words.prefixes("branching"), &sorted), ["branch"]);
        assert_eq!(named(&words.misspellings("brnach"), &sorted), ["branch"]);
        assert_eq!(
            named(&words.misspellings("calender"), &sorted),
            ["calendar"]
        );
        assert!(words.misspellings("time").is_empty());
        assert!(words.misspellings("zebra").is_empty());
        assert!(words.parts("x").is_empty() && words.prefixes("é").is_empty());
    }
}
