//! The command line of callgate: arguments, commands, what they print. It decides nothing.
//!
//! It is a library so that other binaries can behave as `callgate`, which only calls [`main`].

mod admin;
mod age;
mod args;
mod attach;
mod commands;
mod exit;
mod log;
mod logging;
mod print;
mod setup;
mod signals;
#[cfg(feature = "agents")]
mod steps;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use exit::Failed;

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return exit::usage(&error),
    };
    let ended = run(args);
    logging::finish();
    match ended {
        Ok(code) => code,
        Err(failed) => exit::report(&failed),
    }
}

fn run(args: Args) -> Result<ExitCode, Failed> {
    let Args { command, shared } = args;
    match command {
        // First, before any thread starts: one warden runs per server, so it must stay small.
        Some(Command::Warden(warden)) => Ok(commands::warden::run(warden)),
        // Also before any thread: the watched command must have all of its stops in one thread.
        Some(Command::Watch(watch)) => Ok(commands::watch::run(&watch)),
        // Also before any thread: the worker's sandbox restrictions must cover the whole process.
        #[cfg(feature = "code")]
        Some(Command::Worker { memory_bytes }) => Ok(callgate_code::worker::main(memory_bytes)),
        #[cfg(feature = "agents")]
        Some(Command::ScriptedModel { script }) => commands::scripted_model::run(&script),
        #[cfg(feature = "agents")]
        Some(Command::McpServe) => commands::mcp_serve::run(&shared),
        #[cfg(feature = "agents")]
        Some(Command::Agent(agent)) => commands::agent::run(&shared, &agent),
        Some(Command::DemoServer) => commands::demo_server::run(),
        Some(Command::Demo) => commands::demo::run(&shared),
        Some(Command::Serve(serve)) => commands::serve::run(&shared, &serve),
        Some(Command::Stdio(stdio)) => commands::stdio::run(&shared, &stdio),
        Some(Command::Call(call)) => commands::call::run(&shared, &call),
        #[cfg(feature = "code")]
        Some(Command::Run(script)) => commands::run::run(&shared, &script),
        Some(Command::Tools(tools)) => commands::tools::run(&shared, &tools),
        Some(Command::Servers(servers)) => commands::servers::run(&shared, &servers),
        Some(Command::Activity(activity)) => commands::activity::run(&shared, &activity),
        Some(Command::Approvals(approvals)) => commands::approvals::run(&shared, &approvals),
        Some(Command::Token(token)) => commands::token::run(&shared, &token),
        Some(Command::Lock(lock)) => commands::lock::run(&shared, &lock),
        Some(Command::Policy(policy)) => commands::policy::run(&shared, &policy),
        #[cfg(feature = "workflow")]
        Some(Command::Workflow(workflow)) => commands::workflow::run(&shared, &workflow),
        #[cfg(feature = "workflow")]
        Some(Command::Validate(validate)) => commands::workflow::validate(&shared, &validate),
        #[cfg(feature = "workflow")]
        Some(Command::Explain(explain)) => commands::explain::run(&shared, &explain),
        Some(Command::Connect(connect)) => commands::connect::run(&shared, &connect),
        Some(Command::Config(config)) => commands::config::run(&shared, &config),
        Some(Command::Doctor) => commands::doctor::run(&shared),
        Some(Command::Trust(trust)) => commands::trust::run(&shared, &trust),
        None => commands::overview::run(&shared),
    }
}
