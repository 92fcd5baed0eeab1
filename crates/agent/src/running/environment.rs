//! The environment of an agent with a home of its own.

use crate::{
    Options, Proxy,
    access::{self, Variables},
    agent_box,
    cli::AgentCli,
    home::OwnHome,
    step::Run,
};

/// The environment of a step's agent before its launch adds to it.
pub(super) fn of_step(
    run: &Run<'_>,
    cli: &dyn AgentCli,
    users: Variables<'_>,
    own: &OwnHome,
) -> Vec<(String, String)> {
    let is_boxed = agent_box::plan(run).is_some();
    match run.step.proxy {
        Proxy::Full => own_environment(cli, users, &run.step.options, (own, is_boxed)),
        // Native tools keep the user's variables, but for those that lead home or past the box.
        Proxy::Additive | Proxy::Off => {
            let is_kept = |(name, _): &&(String, String)| !access::PROXIES.contains(&name.as_str());
            let mut env: Vec<_> = users.0.iter().filter(is_kept).cloned().collect();
            env.extend(own.variables());
            env
        }
    }
}

/// What the agent's login needs, and what the step names.
pub(crate) fn own_environment(
    cli: &dyn AgentCli,
    users: Variables<'_>,
    options: &Options,
    (own, is_boxed): (&OwnHome, bool),
) -> Vec<(String, String)> {
    let mut env = access::passed(users, &cli.accesses(users, options), is_boxed);
    env.extend(own.variables());
    env.extend(options.extra_env.iter().cloned());
    env
}
