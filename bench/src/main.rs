//! Measurements behind the project's decisions, each a subcommand that prints its figures as a table.
//!
//! Figures go to stdout, progress to stderr. Nothing here is part of the product.

mod gateway;
mod knees;
mod pins;
mod policy;
mod sandbox;
mod search;
mod workflow;

use std::{path::PathBuf, process::ExitCode};

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Measurements behind Callgate's decisions")]
struct Cli {
    #[command(subcommand)]
    measurement: Measurement,
    /// Measure this gateway instead of building one
    #[arg(long, global = true)]
    gateway: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Measurement {
    /// Calls: direct, raw and through Callgate
    Calls(gateway::calls::Options),
    /// Decisions: an empty policy, many rules, expressions
    Policy(policy::Options),
    /// Pins: lists compared with the lock, and what a call costs
    Pins(pins::Options),
    /// What grows over years, and how fast: the exponent of each; fails when one is over its bound
    Knees(knees::Options),
    /// tools/list of many tools over ten upstreams
    Lists(gateway::lists::Options),
    /// Cold start of the gateway, and its idle memory
    Cold(gateway::cold::Options),
    /// Everything that has a budget, in one table; fails when one is broken
    Budgets(gateway::budgets::Options),
    /// Scripts: what `run` costs over the calls it makes, and how many tokens it saves
    Code(gateway::code::Options),
    /// Scripts that mean harm: when each ends, and how long others wait; fails when a bound is broken
    Hostile(gateway::hostile::Options),
    /// Whether memory stays flat under load
    Steady(gateway::steady::Options),
    /// One gateway asks another: latency, pace and questions per second; fails when a budget is broken
    Guard(gateway::guard::Options),
    /// Instructions per call, counted by callgrind and compared with the committed ones
    Instructions(gateway::instructions::Options),
    /// How well tools are found: recall, MRR, nDCG and tokens over questions with graded answers
    Retrieval(search::QualityOptions),
    /// How quickly, and how much a model reads: searches, intent, lists and exports of the record; fails when a
    /// budget is broken
    Search(search::SpeedOptions),
    /// What a sandbox adds to the start of a process; fails when the budget is broken
    Sandbox(sandbox::Options),
    /// What a state of a workflow costs beside its work; fails when the budget is broken
    Workflow(workflow::Options),
    #[command(hide = true)]
    Echo(gateway::echo::Options),
    #[command(hide = true)]
    Raw(gateway::raw::Options),
}

fn main() -> ExitCode {
    let Cli {
        measurement,
        gateway,
    } = Cli::parse();
    if let Some(program) = gateway {
        gateway::place::take_gateway(program);
    }
    match run(measurement) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(measurement: Measurement) -> anyhow::Result<()> {
    match measurement {
        Measurement::Calls(options) => gateway::calls::run(&options),
        Measurement::Policy(options) => policy::run(&options),
        Measurement::Pins(options) => pins::run(&options),
        Measurement::Knees(options) => knees::run(&options),
        Measurement::Lists(options) => gateway::lists::run(&options),
        Measurement::Cold(options) => gateway::cold::run(&options),
        Measurement::Budgets(options) => gateway::budgets::run(&options),
        Measurement::Code(options) => gateway::code::run(&options),
        Measurement::Hostile(options) => gateway::hostile::run(&options),
        Measurement::Steady(options) => gateway::steady::run(&options),
        Measurement::Guard(options) => gateway::guard::run(&options),
        Measurement::Instructions(options) => gateway::instructions::run(&options),
        Measurement::Retrieval(options) => search::quality(&options),
        Measurement::Sandbox(options) => sandbox::run(&options),
        Measurement::Search(options) => search::answers().and(search::speed(&options)),
        Measurement::Workflow(options) => workflow::run(&options),
        Measurement::Echo(options) => gateway::echo::run(&options),
        Measurement::Raw(options) => gateway::raw::run(&options),
    }
}
