//! Measurements behind the project's decisions, each a subcommand that prints its figures as a table.
//!
//! Figures go to stdout, progress to stderr. Nothing here is part of the product.

mod record_spike;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Measurements behind Callgate's decisions")]
struct Cli {
    #[command(subcommand)]
    measurement: Measurement,
}

#[derive(Subcommand)]
enum Measurement {
    /// Ways of recording a proxied call, side by side
    Record(record_spike::Options),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().measurement {
        Measurement::Record(options) => record_spike::run(&options),
    }
}
