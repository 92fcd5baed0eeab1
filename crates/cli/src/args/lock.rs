//! `callgate lock …` as typed.

use clap::{Args as ClapArgs, Subcommand};

use super::Gateway;

#[derive(Debug, ClapArgs)]
pub(crate) struct Lock {
    #[command(subcommand)]
    pub(crate) command: LockCommand,
    #[command(flatten)]
    pub(crate) gateway: Gateway,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    /// Show what was accepted, and what is odd about it
    Show {
        /// A server, or a tool as `server:tool`; everything when left out
        tool: Option<String>,
    },
    /// Show how tools differ from what was accepted, as the gateway last heard of them
    Diff,
    /// Start the servers and compare; exits with 1 when a tool is not as the lock says
    Verify,
    /// Accept what tools say now
    Accept {
        /// The tools as `server:tool`
        tools: Vec<String>,
        /// Accept everything that is kept away
        #[arg(long, conflicts_with = "tools")]
        all: bool,
    },
}
