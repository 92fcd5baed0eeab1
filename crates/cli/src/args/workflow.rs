//! `callgate workflow …`, `validate` and `explain` as typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(Debug, ClapArgs)]
pub(crate) struct Workflow {
    #[command(subcommand)]
    pub(crate) command: WorkflowCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum WorkflowCommand {
    /// Check a workflow and report all its errors
    Validate(Validate),
    /// Run a workflow
    Run(RunWorkflow),
    /// List the workflows of this folder
    List,
    /// Print the JSON Schema of workflow files, for editors
    Schema,
    /// List runs, newest first
    History {
        /// The highest number of runs
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Show the status of a run
    Status {
        /// The id of the run
        run: String,
    },
    /// Resume a run that was interrupted or failed
    Resume {
        /// The id of the run
        run: String,
        /// Start again from the last visit of this state
        #[arg(long, value_name = "STATE")]
        from: Option<String>,
        /// Give the run its whole budget again, instead of what is left of it
        #[arg(long)]
        fresh_budget: bool,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Validate {
    /// The workflow file
    pub(crate) file: PathBuf,
    /// Do not start plugins to check their operations
    #[arg(long)]
    pub(crate) no_plugins: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunWorkflow {
    /// The workflow file
    pub(crate) file: PathBuf,
    /// Set an input (repeatable)
    #[arg(long = "input", short = 'i', value_name = "NAME=VALUE")]
    pub(crate) inputs: Vec<String>,
    /// Run only this state
    #[arg(long, value_name = "STATE")]
    pub(crate) step: Option<String>,
    /// With `--step`: set a value of another state, such as `states.build.Output=v1` (repeatable)
    #[arg(
        long = "mock",
        short = 'm',
        value_name = "PATH=VALUE",
        requires = "step"
    )]
    pub(crate) mocks: Vec<String>,
    /// Show what would run, and start nothing
    #[arg(long, conflicts_with = "step")]
    pub(crate) dry_run: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExplainCode {
    /// The code, in full or only its last part; default: list all codes
    pub(crate) code: Option<String>,
}
