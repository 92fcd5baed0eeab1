//! Finds tools by what they are for.
//!
//! An [`Index`] is made from the texts of all tools of one snapshot and then asked with words of a person or a
//! model. Names are taken apart ([`words`]), words are reduced to their stems, and tools are ranked by BM25 over
//! weighted fields ([`index`]): a word in a name counts for more than one in the description of a parameter. A
//! word that no tool uses is looked for under the words that mean the same ([`thesaurus`]), in its parts, and at
//! last as a slip of the pen ([`kin`]); what is found like that counts for less.
//!
//! The same question to the same tools always has the same answer. This room reads no schema and knows neither
//! servers nor policy: whoever asks says which tools count.

mod expansion;
mod index;
mod phrases;
mod thesaurus;
mod words;

pub use index::{Document, Found, Hit, Index};
