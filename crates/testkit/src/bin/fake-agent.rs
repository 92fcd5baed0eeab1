//! A fake of each coding agent, by the name it is started under: `claude`, `gemini`, `codex` or `opencode`.
//!
//! It finds its tool server where the real one does, speaks MCP to it, prints events in the real one's
//! form, and does what `script.json` beside its folder says, misbehaviour included.

use std::process::ExitCode;

fn main() -> ExitCode {
    match callgate_testkit::agents::main() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fake agent: {error:#}");
            ExitCode::from(70)
        }
    }
}
