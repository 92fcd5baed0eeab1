//! `cargo xtask`: the repository's own jobs, one file each. A job that fails prints why and exits with
//! status 1.

mod ci;
mod command;
mod docs;
mod package;
mod soak;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const TEACH: &str = "\
Before a commit:         cargo xtask ci
Only the quick rules:    cargo xtask tidy
After config changes:    cargo xtask docs
Binaries to hand out:    cargo xtask package
Before an issue closes:  cargo xtask soak list, then cargo xtask soak all

`ci` needs nothing but the toolchain. `soak` downloads real servers and the conformance suite
into target/soak and needs python3 and git; the fuzzer needs a nightly compiler,
and counting instructions needs valgrind.";

/// The repository's own jobs.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", after_help = TEACH, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    job: Job,
}

#[derive(Debug, Subcommand)]
enum Job {
    /// Run what CI runs, in order, and stop at the first step that fails.
    Ci,
    /// Check the rules that the compiler does not check, and report all violations at once.
    Tidy,
    /// Write the documentation that is generated from the product's types.
    Docs,
    /// Build stripped release binaries, with their line tables in files beside them.
    Package,
    /// Run a long check; `list` lists the checks, `all` runs all of them.
    Soak {
        /// The check to run.
        #[arg(default_value = "list")]
        name: String,
        #[command(flatten)]
        options: soak::Options,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().job {
        Job::Ci => ci::run(),
        Job::Tidy => tidy::run(),
        Job::Docs => docs::run(),
        Job::Package => package::run(),
        Job::Soak { name, options } => soak::run(&name, &options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
