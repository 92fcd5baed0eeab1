//! A problem of a file that people write, as the failure of a command.

use std::path::Path;

use callgate_gate::Problem;

use crate::Failed;

/// A problem of the configuration.
pub(super) fn of_config(file: &Path, text: &str, problem: &Problem) -> Failed {
    of("configuration", &file.display().to_string(), text, problem)
}

/// A problem of a file of this sort. Its help is printed separately.
pub(super) fn of(sort: &str, file: &str, text: &str, problem: &Problem) -> Failed {
    let failed = Failed::config(problem.shown(sort, file, text));
    match &problem.help {
        Some(help) => failed.help(help),
        None => failed,
    }
}
