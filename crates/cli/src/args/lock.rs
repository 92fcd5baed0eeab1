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
    /// Show accepted tool definitions and anything suspicious in them
    Show {
        /// A server, or a tool as `server:tool`; default: all
        tool: Option<String>,
    },
    /// Show how the last known tool definitions differ from callgate.lock
    Diff,
    /// Start the servers and compare their tools with callgate.lock; exit with 1 if any differ
    Verify,
    /// Accept the current definitions of tools
    Accept {
        /// The tools as `server:tool`
        tools: Vec<String>,
        /// Accept all tools that are withheld from hosts
        #[arg(long, conflicts_with = "tools")]
        all: bool,
    },
}
