//! The inverted index of one catalog snapshot, and BM25 ranking of tools for a query.

use std::{cmp::Reverse, collections::HashMap};

use crate::{expansion::Vocabulary, phrases, thesaurus, words};

/// BM25's `k1`: how quickly repeated uses of a word stop adding to the score.
const SATURATION: f32 = 1.0;
/// The share of a score that depends on how much of the tool's name the query covers.
const NAME_SHARE: f32 = 0.25;
/// The weight of a query word that no tool uses: it lowers every score, so a query that is mostly unknown
/// words cannot score high.
const UNKNOWN: f32 = 0.3;
/// Query words beyond this are ignored, which bounds the work per query.
const MAX_WORDS: usize = 48;
/// Scores are rounded to so many steps; tools are ordered by the rounded score.
const SCORE_STEPS: f32 = 1000.0;

/// The number of [`FIELDS`].
const FIELD_COUNT: usize = 7;

/// A field's weight, and how strongly its length normalises the weight (BM25's `b`).
struct Field {
    weight: f32,
    length_matters: f32,
}

/// Name, title, first sentence and rest of the description, names and descriptions of parameters, server.
const FIELDS: [Field; FIELD_COUNT] = [
    Field::new(3.0, 0.5),
    Field::new(2.0, 0.5),
    Field::new(2.0, 0.4),
    Field::new(0.2, 0.8),
    Field::new(0.4, 0.6),
    Field::new(0.1, 0.6),
    Field::new(1.5, 0.2),
];

impl Field {
    const fn new(weight: f32, length_matters: f32) -> Self {
        Self {
            weight,
            length_matters,
        }
    }
}

/// The texts of one tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    /// The name without its server. Equal scores are ordered by server and name.
    pub name: String,
    pub server: String,
    pub title: String,
    pub description: String,
    /// Names and descriptions.
    pub parameters: Vec<(String, String)>,
}

/// A tool that was found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// The document's position in the slice that the index was built from.
    pub document: usize,
    /// From 0 to 1, with three decimals.
    pub score: f32,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The best matches, by score and then by name.
    pub hits: Vec<Hit>,
    /// How many documents match in total, `hits` included.
    pub total: usize,
}

/// The inverted index of all tools of one snapshot.
#[derive(Debug, Default)]
pub struct Index {
    /// All stems, sorted, with their term number.
    sorted: Vec<(Box<str>, u32)>,
    /// Postings by term number.
    uses: Vec<Vec<Posting>>,
    /// Inverse document frequency by term number.
    rarities: Vec<f32>,
    /// The terms of each document's name.
    names: Vec<Vec<u32>>,
    /// Each document's rank by server and name.
    order: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Posting {
    document: u32,
    /// Summed over the fields, each weighted and normalised by length.
    weight: f32,
}

/// What a concept adds to one document's score.
#[derive(Debug, Clone, Copy, Default)]
struct TermScore {
    value: f32,
    /// The weight of the best matching term: 1 for the word itself, less for an expansion.
    sure: f32,
}

/// A query word with its expansions.
struct Concept {
    /// Term numbers and weights.
    terms: Vec<(u32, f32)>,
}

impl Index {
    pub fn new(documents: &[Document]) -> Self {
        let texts: Vec<[Vec<String>; FIELD_COUNT]> = documents.iter().map(fields).collect();
        let average = averages(&texts);
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut uses: Vec<Vec<Posting>> = Vec::new();
        let mut names = Vec::with_capacity(documents.len());
        for (document, fields) in texts.into_iter().enumerate() {
            let mut weights: HashMap<u32, f32> = HashMap::new();
            let mut name = Vec::new();
            for (at, stems) in fields.into_iter().enumerate() {
                let Field {
                    weight,
                    length_matters,
                } = FIELDS[at];
                let length = stems.len() as f32 / average[at];
                let weight = weight / (1.0 - length_matters + length_matters * length);
                for stem in stems {
                    let next = numbers.len() as u32;
                    let term = *numbers.entry(stem).or_insert(next);
                    if term == next {
                        uses.push(Vec::new());
                    }
                    *weights.entry(term).or_default() += weight;
                    if at == 0 && !name.contains(&term) {
                        name.push(term);
                    }
                }
            }
            let document = document as u32;
            for (term, weight) in weights {
                uses[term as usize].push(Posting { document, weight });
            }
            names.push(name);
        }
        let mut sorted: Vec<(Box<str>, u32)> = numbers
            .into_iter()
            .map(|(stem, number)| (stem.into_boxed_str(), number))
            .collect();
        sorted.sort_unstable();
        let of_use = |used: &Vec<Posting>| rarity(documents.len(), used.len() as f32);
        Self {
            sorted,
            rarities: uses.iter().map(of_use).collect(),
            uses,
            names,
            order: order(documents),
        }
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The best matches for `question`, at most `limit`, among the documents that `counts` accepts.
    pub fn search(
        &self,
        question: &str,
        limit: usize,
        mut counts: impl FnMut(usize) -> bool,
    ) -> Found {
        let concepts = self.concepts(question);
        let mut scores: Vec<f32> = vec![0.0; self.len()];
        let mut worth: Vec<TermScore> = vec![TermScore::default(); self.len()];
        let mut best = 0.0;
        // By term number: the weight with which the query means it.
        let mut meant: Vec<f32> = vec![0.0; self.uses.len()];
        for concept in &concepts {
            best += self.add(concept, &mut worth, &mut scores);
            for (term, weight) in &concept.terms {
                let known = &mut meant[*term as usize];
                *known = known.max(*weight);
            }
        }
        if best <= 0.0 {
            return Found::default();
        }
        let mut hits: Vec<(Reverse<u32>, u32, usize)> = Vec::new();
        for (document, score) in scores.into_iter().enumerate() {
            if score <= 0.0 || !counts(document) {
                continue;
            }
            let score =
                score / best * (1.0 - NAME_SHARE + NAME_SHARE * self.named(document, &meant));
            let steps = (score.clamp(0.0, 1.0) * SCORE_STEPS).round() as u32;
            hits.push((Reverse(steps), self.order[document], document));
        }
        let total = hits.len();
        hits.sort_unstable();
        hits.truncate(limit);
        let hits = hits.into_iter().map(|(Reverse(steps), _, document)| Hit {
            document,
            score: steps as f32 / SCORE_STEPS,
        });
        Found {
            hits: hits.collect(),
            total,
        }
    }

    /// Adds a concept to the scores of all documents and returns the most it can add. `worth` is scratch space, all
    /// zero before and after. A document matched only by an expansion counts partly towards the document frequency;
    /// otherwise a word with many synonyms would look frequent and lose its weight.
    fn add(&self, concept: &Concept, worth: &mut [TermScore], scores: &mut [f32]) -> f32 {
        let mut touched: Vec<u32> = Vec::new();
        for (term, weight) in &concept.terms {
            for used in &self.uses[*term as usize] {
                let value = weight * used.weight / (SATURATION + used.weight);
                let known = &mut worth[used.document as usize];
                if known.value == 0.0 {
                    touched.push(used.document);
                }
                known.value = known.value.max(value);
                known.sure = known.sure.max(*weight);
            }
        }
        let used_by: f32 = touched.iter().map(|at| worth[*at as usize].sure).sum();
        let rarity = rarity(self.len(), used_by);
        for document in touched {
            let document = document as usize;
            scores[document] += rarity * std::mem::take(&mut worth[document]).value;
        }
        rarity
    }

    /// The share of a tool's name that the query covers, from 0 to 1, weighted by rarity.
    fn named(&self, document: usize, meant: &[f32]) -> f32 {
        let (mut all, mut said) = (0.0, 0.0);
        for term in &self.names[document] {
            let rarity = self.rarities[*term as usize];
            all += rarity;
            said += rarity * meant[*term as usize];
        }
        if all > 0.0 { said / all } else { 0.0 }
    }

    fn concepts(&self, question: &str) -> Vec<Concept> {
        let words = phrases::plain(words::split(question));
        let content: Vec<&String> = words
            .iter()
            .filter(|word| !words::is_stop_word(word))
            .collect();
        let content = if content.is_empty() {
            words.iter().collect()
        } else {
            content
        };
        let mut stems: Vec<String> = Vec::new();
        for word in content.into_iter().take(MAX_WORDS) {
            let stem = words::stem(word);
            if !stems.contains(&stem) {
                stems.push(stem);
            }
        }
        stems.iter().map(|stem| self.concept(stem)).collect()
    }

    fn concept(&self, stem: &str) -> Concept {
        let words = Vocabulary {
            sorted: &self.sorted,
        };
        let number = |stem: &str| {
            let at = self
                .sorted
                .binary_search_by(|(known, _)| (**known).cmp(stem));
            at.ok().map(|at| self.sorted[at].1)
        };
        let own = number(stem);
        let mut terms: Vec<(u32, f32)> = own.map(|term| (term, 1.0)).into_iter().collect();
        let related = thesaurus::of(stem).iter();
        terms.extend(related.filter_map(|(related, weight)| Some((number(related)?, *weight))));
        if own.is_none() {
            terms.extend(words.parts(stem));
            terms.extend(words.prefixes(stem));
        }
        if terms.is_empty() {
            terms.extend(words.misspellings(stem));
        }
        Concept { terms }
    }
}

/// Inverse document frequency.
fn rarity(all: usize, used_by: f32) -> f32 {
    let all = all as f32;
    if used_by <= 0.0 {
        return UNKNOWN * (1.0 + all).ln();
    }
    // Clamped to one document: a doubtful match must not weigh more than a certain one.
    let used_by = used_by.max(1.0);
    (1.0 + (all - used_by + 0.5) / (used_by + 0.5)).ln()
}

fn fields(document: &Document) -> [Vec<String>; FIELD_COUNT] {
    let (first, rest) = first_sentence(&document.description);
    let parameters = document.parameters.iter();
    let names = parameters.clone().flat_map(|(name, _)| words::stems(name));
    let descriptions = parameters.flat_map(|(_, text)| words::stems(text));
    [
        words::stems(&document.name),
        words::stems(&document.title),
        words::stems(first),
        words::stems(rest),
        names.collect(),
        descriptions.collect(),
        words::stems(&document.server),
    ]
}

/// Splits off the first sentence, which is a field of its own.
fn first_sentence(text: &str) -> (&str, &str) {
    let text = text.trim();
    let ends = [". ", ".\n", "\n\n"];
    let end = ends.iter().filter_map(|end| text.find(end)).min();
    text.split_at(end.unwrap_or(text.len()))
}

fn averages(texts: &[[Vec<String>; FIELD_COUNT]]) -> [f32; FIELD_COUNT] {
    std::array::from_fn(|at| {
        let filled = texts
            .iter()
            .map(|fields| fields[at].len())
            .filter(|length| *length > 0);
        let (sum, count) = filled.fold((0, 0), |(sum, count), length| (sum + length, count + 1));
        (sum as f32 / (count.max(1)) as f32).max(1.0)
    })
}

/// Each document's rank by server and name.
fn order(documents: &[Document]) -> Vec<u32> {
    let mut by_name: Vec<usize> = (0..documents.len()).collect();
    by_name.sort_by_key(|at| (&documents[*at].server, &documents[*at].name, *at));
    let mut order = vec![0; documents.len()];
    for (place, document) in by_name.into_iter().enumerate() {
        order[document] = place as u32;
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn document(server: &str, name: &str, description: &str) -> Document {
        Document {
            name: name.to_owned(),
            server: server.to_owned(),
            description: description.to_owned(),
            ..Document::default()
        }
    }

    fn shop() -> Vec<Document> {
        vec![
            document("shop", "createOrder", "Place an order for a customer."),
            document("shop", "delete_order", "Remove an order for good."),
            document("shop", "list-orders", "All orders of a customer."),
            document("mail", "send_message", "Deliver an email to a person."),
            document("geo", "timezone_of", "Tell which zone a city lies in."),
        ]
    }

    fn found(question: &str) -> Vec<String> {
        let shop = shop();
        let found = Index::new(&shop).search(question, 10, |_| true);
        found
            .hits
            .iter()
            .map(|hit| shop[hit.document].name.clone())
            .collect()
    }

    #[test]
    fn the_intended_tool_ranks_first() {
        let cases = [
            ("create an order", "createOrder"),
            ("get rid of an order", "delete_order"),
            ("erase orders", "delete_order"),
            ("show me all orders", "list-orders"),
            ("write a mail", "send_message"),
            ("sned a mesage", "send_message"),
            ("time zone", "timezone_of"),
            ("DELETE_ORDER", "delete_order"),
        ];
        for (question, expected) in cases {
            assert_eq!(
                found(question).first().map(String::as_str),
                Some(expected),
                "{question}"
            );
        }
    }

    #[test]
    fn meaningless_queries_find_nothing() {
        assert!(found("").is_empty());
        assert!(found("qqqq zzzz").is_empty());
        let empty = Index::new(&[]);
        assert!(empty.is_empty() && empty.search("order", 5, |_| true).hits.is_empty());
    }

    proptest! {
        #[test]
        fn search_results_are_deterministic_and_ordered_by_score_and_name(
            names in prop::collection::vec("[a-c]{1,3}(_[a-c]{1,3}){0,2}", 1..30),
            question in "[a-c]{1,3}( [a-c]{1,3}){0,3}",
            limit in 1usize..10,
        ) {
            let documents: Vec<Document> = names.iter().map(|name| document("s", name, name)).collect();
            let index = Index::new(&documents);
            let found = index.search(&question, limit, |_| true);
            prop_assert_eq!(&found, &Index::new(&documents).search(&question, limit, |_| true));
            prop_assert!(found.hits.len() <= limit && found.hits.len() <= found.total);
            for pair in found.hits.windows(2) {
                let name = |hit: &Hit| (&documents[hit.document].name, hit.document);
                let in_order = pair[0].score > pair[1].score
                    || (pair[0].score == pair[1].score && name(&pair[0]) < name(&pair[1]));
                prop_assert!(in_order, "{:?}", pair);
            }
            prop_assert!(found.hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
            let kept = index.search(&question, 100, |at| at % 2 == 0);
            prop_assert!(kept.hits.iter().all(|hit| hit.document % 2 == 0), "filters come before the cut");
        }
    }
}
