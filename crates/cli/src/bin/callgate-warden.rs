//! The binary `callgate-warden`: the small parent of one server's process, see the upstream room.

use std::process::ExitCode;

fn main() -> ExitCode {
    callgate_process::warden::main(std::env::args_os())
}
