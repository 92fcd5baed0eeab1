//! The built-in tools: Read, Write, Edit, Bash, Glob and Grep, as one provider.
//!
//! [`Builtins`] is the server `builtin` of the catalog. It takes calls only as
//! [`Recorded`](callgate_record::Recorded) permits, like any other provider, and decides nothing.
//!
//! File tools stay inside [`Roots`]: a path is opened relative to the root's own descriptor, and the kernel
//! refuses every path that leads out of it, even if a symlink is swapped in during the call. Commands run
//! below a warden and end with their call. Input from the model is untrusted: malformed arguments fail the
//! call, never the gateway.

mod answer;
mod arguments;
mod descriptors;
mod provider;
mod roots;
mod shape;
mod tools;

pub use provider::Builtins;
pub use roots::{RootError, Roots};
pub use shape::{Pages, Shape};
