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
        /// The highest number of calls, up to 1000
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
        limit: u16,
    },
    /// Show all details of one call
    Show {
        /// The call's id, from `activity list`
        id: String,
    },
    /// Print calls as they end
    Watch {
        #[command(flatten)]
        filter: ActivityFilter,
        /// Stop after this many calls
        #[arg(long, value_name = "N")]
        count: Option<u64>,
    },
    /// Count calls by status, intent, decision, server and tool
    Summary {
        /// The period until now: 1h, 24h, 7d or 30d
        #[arg(long, default_value = "24h", value_parser = ["1h", "24h", "7d", "30d"])]
        period: String,
    },
    /// Check the activity log for changed, inserted or removed entries
    ///
    /// A removed end is found only if a head names one of its entries: one that the writer left, or one
    /// that you keep elsewhere and pass with `--head`.
    Verify {
        /// Heads that were kept elsewhere: what `activity head --publish` wrote or sent, or `activity head --json` printed
        #[arg(long, value_name = "FILE")]
        head: Option<PathBuf>,
    },
    /// Print or publish the newest entry of each writer, to keep elsewhere for `verify --head`
    Head {
        /// Add them as a line to a file, or post them to a webhook; without a value, to the places in `activity.heads`
        #[arg(long, value_name = "FILE|URL", num_args = 0..=1)]
        publish: Option<Option<String>>,
    },
    /// Put back what retention dropped by age within the last day
    ///
    /// For a day after that, retention drops nothing by age.
    Restore,
    /// Show whether retention believes the clock
    ///
    /// A clock that is more than 7 days ahead of everything on record pauses retention by age, until it has held for a
    /// day of uptime or is confirmed here.
    Clock {
        /// Believe the clock as it is now
        #[arg(long)]
        confirm: bool,
    },
    /// Export calls, oldest first
    Export {
        /// The format
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
    /// Only calls of this server
    #[arg(long)]
    pub(crate) server: Option<String>,
    /// Only calls of this tool
    #[arg(long)]
    pub(crate) tool: Option<String>,
    /// Only calls with this status: success, error, blocked, rejected, pending, unknown, cancelled or
    /// bypassed. A call that is listed as `running` has no status yet, so it matches none
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// Only calls with this intent: read, write or destructive
    #[arg(long)]
    pub(crate) intent_type: Option<String>,
    /// Only calls since a time like 2026-01-31T12:00:00Z, or within an age like 2h, 7d or 2w
    #[arg(long)]
    pub(crate) since: Option<String>,
}
