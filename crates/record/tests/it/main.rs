//! The record through its public API: what is written of a call, what is kept out of it, and what a store that fails
//! does to it.

mod compile_fail;
mod folding;
mod given;
mod recording;
mod redaction;
mod unwritten;
