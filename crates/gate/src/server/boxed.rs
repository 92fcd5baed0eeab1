//! What a program that callgate starts may reach, as configured. Data only; `crates/process` restricts programs.

use std::path::PathBuf;

/// The box of a server, a plugin or the commands of workflows. A program without one may do all that its user may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoxSpec {
    pub mode: BoxMode,
    /// Absolute paths of files and folders for reading and running.
    pub read: Vec<PathBuf>,
    /// Absolute paths of files and folders that may also be changed.
    pub write: Vec<PathBuf>,
    /// Absolute paths that stay out of reach, also in granted folders: the gateway's configuration and data.
    pub hidden: Vec<PathBuf>,
    /// The hosts that may be reached; without any, there is no network.
    pub net: Vec<String>,
}

/// What happens if the kernel cannot enforce a restriction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BoxMode {
    /// The program starts with the restrictions that the kernel can enforce; the others are reported.
    BestEffort,
    /// The program is not started.
    Required,
}

impl BoxMode {
    /// The word in configuration and reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BestEffort => "best_effort",
            Self::Required => "required",
        }
    }
}
