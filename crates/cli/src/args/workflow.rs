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
    /// Say everything that is wrong with a workflow, and where
    Validate(Validate),
    /// Run a workflow
    Run(RunWorkflow),
    /// List the workflows of this folder
    List,
    /// List the runs there were, newest first
    History {
        /// At most so many
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Show how a run stands
    Status {
        /// The run
        run: String,
    },
    /// Go on with a run that was interrupted, or that failed
    Resume {
        /// The run
        run: String,
        /// Do everything again from the last visit of this state
        #[arg(long, value_name = "STATE")]
        from: Option<String>,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Validate {
    /// The workflow
    pub(crate) file: PathBuf,
    /// Start no plugin to ask what it offers
    #[arg(long)]
    pub(crate) no_plugins: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunWorkflow {
    /// The workflow
    pub(crate) file: PathBuf,
    /// Give an input (repeatable)
    #[arg(long = "input", short = 'i', value_name = "NAME=VALUE")]
    pub(crate) inputs: Vec<String>,
    /// Run this state alone
    #[arg(long, value_name = "STATE")]
    pub(crate) step: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ExplainCode {
    /// The code, in full or its last part; all codes when left out
    pub(crate) code: Option<String>,
}
