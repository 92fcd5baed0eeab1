//! Policy files: each clause by tables, attacks, laws, and a second evaluator.

mod agree;
mod around;
mod attacks;
mod clauses;
mod generate;
mod given;
mod laws;
mod problems;
