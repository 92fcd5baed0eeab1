//! Steps through the public interface: fake agents as real processes below a real warden, models on loopback, and a gate
//! with two tools that write down what reaches them.

mod answers;
mod budgets;
mod endings;
mod launches;
mod model;
mod probing;
mod stage;
mod tools;
mod transcripts;
