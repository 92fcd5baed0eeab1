//! The binary `callgate-worker`: the process that scripts run in. `callgate worker` is the same.

use std::process::ExitCode;

fn main() -> ExitCode {
    let memory = std::env::args().nth(1).and_then(|bytes| bytes.parse().ok());
    match memory {
        Some(memory) => callgate_code::worker::main(memory),
        None => ExitCode::FAILURE,
    }
}
