//! Plugins as real processes: the raw fixture under our host, and our SDK under a raw host.

mod sdk;
mod starting;

use std::{path::PathBuf, time::Duration};

use callgate_plugin::PluginSpec;

/// The example in this crate, which lies beside the tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().expect("a running program has a path");
    let profile = test.ancestors().nth(2).expect("tests lie in `deps`");
    let program = profile.join("examples/example-plugin");
    assert!(program.exists(), "examples are built with tests");
    program
}

fn spec(program: PathBuf) -> PluginSpec {
    PluginSpec {
        name: "raw".to_owned(),
        program,
        config: serde_json::Map::new(),
        env: std::env::vars().collect(),
        warden_program: callgate_testkit::callgate(),
        timeout: Duration::from_secs(20),
        sandbox: None,
    }
}
