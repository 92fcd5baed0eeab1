//! The built-in tools: Read, Write, Edit, Bash, Glob and Grep, as one provider.
//!
//! [`Builtins`] is the server `builtin` of the catalog. It takes calls only as
//! [`Recorded`](callgate_record::Recorded) permits, like any other provider, and decides nothing.
//!
//! File tools stay inside [`Roots`]: a path is opened relative to a root's own descriptor, and the
//! system refuses whatever leads out of it, also when a link is swapped in at that very moment.
//! Commands run below a warden and end with their call. What a model sends is untrusted: arguments that
//! make no sense are a failed call, never a failed gateway.

mod answer;
mod arguments;
mod descriptors;
mod provider;
mod roots;
mod tools;

pub use provider::Builtins;
pub use roots::{RootError, Roots};
