//! The life of a call, seen by a store, a provider and a door that the tests play themselves.

mod ending;
mod holding;
mod links;
mod order;
mod stage;
mod telling;
mod unresolved;
