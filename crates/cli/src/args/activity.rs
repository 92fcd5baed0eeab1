//! `callgate activity …` as typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

#[derive(Debug, ClapArgs)]
pub(crate) struct Activity {
    #[command(subcommand)]
    pub(crate) command: ActivityCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ActivityCommand {
    /// List calls, newest first
    List {
        #[command(flatten)]
        filter: ActivityFilter,
        /// At most so many, up to 1000
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Show one call whole
    Show {
        /// Its id, as listed
        id: String,
    },
    /// Show calls as they happen
    Watch {
        #[command(flatten)]
        filter: ActivityFilter,
        /// End after so many
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// Count calls of each sort
    Summary {
        /// How far back: 1h, 24h, 7d or 30d
        #[arg(long, default_value = "24h", value_parser = ["1h", "24h", "7d", "30d"])]
        period: String,
    },
    /// Check that nothing was changed, dropped or cut off
    Verify {
        /// Heads kept elsewhere, as printed by `activity head --json`
        #[arg(long, value_name = "FILE")]
        head: Option<PathBuf>,
    },
    /// Print where each writer stands, to be kept elsewhere
    Head,
    /// Write calls out, oldest first
    Export {
        /// The form
        #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
        format: ExportFormat,
        #[command(flatten)]
        filter: ActivityFilter,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    Jsonl,
    Csv,
}

#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct ActivityFilter {
    /// Only this server
    #[arg(long)]
    pub(crate) server: Option<String>,
    /// Only this tool
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Only this status: success, error, blocked, rejected, pending, unknown, cancelled, bypassed
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// Only this intent: read, write, destructive
    #[arg(long)]
    pub(crate) intent_type: Option<String>,
    /// Only since then: a time like 2026-01-31T12:00:00Z, or an age like 2h
    #[arg(long)]
    pub(crate) since: Option<String>,
}
