//! Bare `callgate`: the state of this data folder, and next steps.

use std::process::ExitCode;

use crate::{
    admin,
    args::{Gateway, Shared},
    exit::Failed,
    print::outln,
    setup,
};

pub(crate) fn run(shared: &Shared) -> Result<ExitCode, Failed> {
    let settings = setup::settings(shared, &Gateway::default(), true)?;
    let running = setup::runtime()?.block_on(admin::running(&settings.data_dir));
    outln!(
        "callgate {}: one gate for every tool call an AI agent makes",
        env!("CARGO_PKG_VERSION")
    );
    match &settings.source.file {
        Some(file) => outln!("configuration  {}", file.display()),
        None => outln!("configuration  none; defaults apply"),
    }
    outln!("data folder    {}", settings.data_dir.display());
    outln!("servers        {}", settings.servers.len());
    match running {
        Some(gateway) => outln!(
            "gateway        http://{}/mcp (process {})",
            gateway.address,
            gateway.pid
        ),
        None => outln!("gateway        not running"),
    }
    outln!();
    outln!("next");
    outln!("  callgate demo                     send calls through the gate to a bundled server");
    outln!("  callgate stdio                    serve a host that starts its servers");
    outln!("  callgate serve                    serve hosts over HTTP");
    outln!("  callgate connect --print claude   connect a host");
    outln!("  callgate activity list            list recorded calls");
    outln!("  callgate help                     list all commands");
    Ok(ExitCode::SUCCESS)
}
