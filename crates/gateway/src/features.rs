//! Cargo features that this build lacks. A setting that needs a missing feature is an error and never ignored.

use callgate_config::{Failed, Settings};
use callgate_gate::View;

use crate::otlp;

/// Fails for settings that this build cannot follow.
pub(crate) fn check(settings: &Settings) -> Result<(), Failed> {
    let config = &settings.config;
    if !cfg!(feature = "code") && settings.view == View::Code {
        return Err(missing("view: code", "code"));
    }
    if !cfg!(feature = "plugins") && !config.plugins.is_empty() {
        return Err(missing("plugins", "plugins"));
    }
    if let Some(address) = &config.telemetry.otlp {
        otlp::check(address)?;
    }
    Ok(())
}

/// The error for `setting`, which needs `feature`.
pub(crate) fn missing(setting: &str, feature: &str) -> Failed {
    let message = format!("`{setting}` is not supported by this build of callgate");
    Failed::config(message).help(format!("build it with the cargo feature `{feature}`"))
}
