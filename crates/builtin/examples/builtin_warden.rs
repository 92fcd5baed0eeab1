//! The warden as the product starts it, for the tests of Bash.

fn main() -> std::process::ExitCode {
    callgate_process::warden::main(std::env::args_os())
}
