//! The binary `callgate`.

use std::process::ExitCode;

fn main() -> ExitCode {
    callgate_cli::main()
}
