//! Policy files: each clause by tables, attacks, laws, and a second evaluator.

mod agree;
mod generate;
mod given;
mod laws;
