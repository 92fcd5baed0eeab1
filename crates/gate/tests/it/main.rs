//! The gate from outside: names lead to tools, policy speaks, and laws hold for any input.

mod approval;
mod catalog;
mod decide;
mod given;
mod items;
mod laws;
mod policy;
