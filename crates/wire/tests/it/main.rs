//! Laws that hold for generated messages, and a public corpus of JSON texts.

mod corpus;
mod documents;
mod edits;
mod printing;
mod scanning;
mod streams;
mod texts;
