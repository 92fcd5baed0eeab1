//! Other people's servers behind the real gateway: how they start, what hosts see of them, and what
//! passes between a server and the host that called it.

mod connecting;
mod environment;
mod failing;
mod hiding;
mod lists;
mod questions;
mod sharing;
mod traffic;
