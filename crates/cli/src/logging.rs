//! Log lines: to stderr, as JSON when a program reads them and plain when a person does.

mod json;
mod lines;

use std::io::{self, IsTerminal};

use json::JsonLines;
use lines::Lines;
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt};

use crate::exit::Failed;

/// The buffered lines for programs.
static LINES: Lines = Lines::new();

/// Writes the buffered lines, as the last act of the process.
pub(crate) fn finish() {
    LINES.flush();
}

/// Starts logging at `level`.
pub(crate) fn start(level: &str) -> Result<(), Failed> {
    let known = ["error", "warn", "info", "debug", "trace", "off"];
    if !known.contains(&level) {
        let help = format!("use one of {}", known.join(", "));
        return Err(Failed::user(format!("unknown log level `{level}`")).help(help));
    }
    let filter = EnvFilter::new(format!("warn,callgate={level},{}", rooms(level)));
    let registry = tracing_subscriber::registry().with(filter);
    let started = if io::stderr().is_terminal() {
        registry
            .with(
                fmt::layer()
                    .with_writer(io::stderr)
                    .with_target(false)
                    .compact(),
            )
            .try_init()
    } else {
        registry.with(JsonLines(&LINES)).try_init()
    };
    started.map_err(|error| Failed::system(format!("cannot start logging: {error}")))
}

fn rooms(level: &str) -> String {
    let rooms = ["call", "record", "store", "upstream", "server"];
    rooms
        .map(|room| format!("callgate_{room}={level}"))
        .join(",")
}
