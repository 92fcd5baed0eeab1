//! Full-text search over tools.
//!
//! An [`Index`] is built from the texts of all tools of one catalog snapshot and queried in natural language.
//! Identifiers are split ([`words`]), words are stemmed, and tools are ranked by BM25 over weighted fields
//! ([`index`]): a word in a name weighs more than one in the description of a parameter. A word that no tool
//! uses is expanded to its synonyms ([`thesaurus`]), to its parts, and finally to words of similar spelling
//! ([`expansion`]), each with a lower weight.
//!
//! Ranking is deterministic: the same query over the same tools gives the same result. This room reads no
//! schemas and knows neither servers nor policy: the caller passes a filter for the tools that may be found.

mod expansion;
mod index;
mod phrases;
mod thesaurus;
mod words;

pub use index::{Document, Found, Hit, Index};
