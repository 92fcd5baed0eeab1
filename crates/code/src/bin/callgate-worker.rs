//! The binary `callgate-worker`: the process that scripts run in, the same as `callgate worker`. With `probe=all`,
//! or the name of one sandbox layer, it tests the sandbox from the inside.

use std::process::ExitCode;

fn main() -> ExitCode {
    let asked = std::env::args().nth(1).unwrap_or_default();
    #[cfg(target_os = "linux")]
    if let Some(wall) = asked.strip_prefix("probe=") {
        use callgate_code::worker::probe::{Wall, probe};
        return Wall::of(wall).map_or(ExitCode::FAILURE, probe);
    }
    match asked.parse().ok() {
        Some(memory) => callgate_code::worker::main(memory),
        None => ExitCode::FAILURE,
    }
}
