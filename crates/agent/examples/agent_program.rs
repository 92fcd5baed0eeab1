//! Our own program as a step needs it, for the tests: the warden that agents run below, and the relay that an agent starts
//! as its tool server.

use std::{ffi::OsString, io, path::Path, process::ExitCode};

use callgate_agent::relay::{Connection, RelayFile};

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    match args.as_slice() {
        [_, command, flag, file] if command == "mcp-serve" && flag == "--config" => {
            relay_to(Path::new(file))
        }
        _ => callgate_process::warden::main(args),
    }
}

fn relay_to(file: &Path) -> ExitCode {
    let Ok(file) = RelayFile::read(file) else {
        return ExitCode::FAILURE;
    };
    let Some(Ok(connection)) = Connection::open(&file) else {
        return ExitCode::FAILURE;
    };
    // A side that went away is an end like any other.
    let _ = connection.copy(io::stdin(), io::stdout());
    ExitCode::SUCCESS
}
