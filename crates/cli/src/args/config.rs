//! Arguments of commands about the configuration, and of the processes that callgate starts itself.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args as ClapArgs, Subcommand};

use super::Serve;

#[derive(Debug, ClapArgs)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Check a configuration file and report its errors
    Check {
        /// The file; default: the one that a gateway would use
        file: Option<PathBuf>,
    },
    /// Show the configuration in effect, including flags and environment variables, without secrets
    Show(Serve),
    /// Print the JSON Schema of the configuration file
    Schema,
    /// Print the reference page
    #[command(hide = true)]
    Reference,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Trust {
    /// The configuration file, the folder of a plugin, or a `plugins.yaml`; default: `./callgate.yaml`
    pub(crate) file: Option<PathBuf>,
    /// Revoke the trust
    #[arg(long)]
    pub(crate) revoke: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Warden {
    pub(crate) parent: u32,
    #[arg(long)]
    pub(crate) remove: Option<PathBuf>,
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Watch {
    #[arg(long)]
    pub(crate) report: Option<PathBuf>,
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}
