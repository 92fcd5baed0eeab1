//! How the description of a sandbox travels: from the gateway to the warden, and from there to the process that applies it.
//!
//! It is one environment variable and not an argument, because it can hold the egress proxy's password and arguments are
//! readable by every user. The command itself never gets the variable.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Sandbox;

/// The variable that holds a [`Handoff`] as JSON.
pub(crate) const VARIABLE: &str = "CALLGATE_SANDBOX";

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Handoff {
    pub(crate) stage: Stage,
    pub(crate) sandbox: Sandbox,
    /// Why the sandbox does without namespaces; `None` if it has them or was asked to do without.
    pub(crate) no_namespaces: Option<String>,
    /// The private folder of a sandbox without namespaces; the warden makes and removes it.
    pub(crate) scratch: Option<PathBuf>,
    pub(crate) purpose: Purpose,
}

/// Which process reads the variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    Warden,
    /// The first process of the sandbox's own namespaces.
    Init,
    /// The process that restricts itself and then becomes the command.
    Confine,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Purpose {
    Run,
    /// Print what the kernel enforced instead of running a command.
    Probe,
}

impl Handoff {
    pub(crate) fn for_warden(
        sandbox: Sandbox,
        no_namespaces: Option<String>,
        purpose: Purpose,
    ) -> Self {
        Self {
            stage: Stage::Warden,
            sandbox,
            no_namespaces,
            scratch: None,
            purpose,
        }
    }

    /// Reads the own environment; `None` in a process without a sandbox.
    pub(crate) fn from_environment() -> Option<Result<Self, serde_json::Error>> {
        let text = std::env::var_os(VARIABLE)?;
        Some(serde_json::from_slice(text.as_encoded_bytes()))
    }

    /// Fails for a path that is not UTF-8.
    pub(crate) fn to_text(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }
}
