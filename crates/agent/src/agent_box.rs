//! The box of an agent's process: what it needs to run, the folders of its step, the way to its model, and nothing else.
//!
//! In `full` mode the work folder is not in it, because files go through our tools. The only socket of the gateway in it is
//! the step's own door.

use callgate_boxes::{BoxPlan, Occupant, OpenBox};
use callgate_process::sandbox::{self, GAP_PREFIX};

use crate::{
    Proxy, StepEvent, StepFailed,
    access::{self, Variables},
    cli::AgentCli,
    folder::Folder,
    home::OwnHome,
    installation,
    launch::Relay,
    step::Run,
};

/// The advice after a step that failed in its box.
const ADVICE: &str = "the agent ran in a box; if it lacks a file or a host, list it in `agents.box`, or run it without one: `agents: {box: off}`";

/// What a step grants its agent.
pub(crate) struct Grants<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) home: &'a OwnHome,
    /// The agent's environment.
    pub(crate) env: &'a [(String, String)],
    /// The user's environment.
    pub(crate) users: Variables<'a>,
    pub(crate) relay: Option<&'a Relay>,
}

/// The box of this step; `None` if agents are not boxed, or if the gate has no part in the step.
pub(crate) fn plan<'a>(run: &'a Run<'_>) -> Option<&'a BoxPlan> {
    match run.step.proxy {
        Proxy::Full | Proxy::Additive => run.context.agent_box.as_ref(),
        Proxy::Off => None,
    }
}

/// Whether programs in this step's box can connect to Unix sockets. Without namespaces, sockets of other programs would be in
/// their reach, so all are refused.
pub(crate) fn has_sockets(run: &Run<'_>) -> bool {
    let namespaces = || {
        sandbox::probe(&run.context.warden_program)
            .namespaces
            .is_ok()
    };
    plan(run).is_none() || namespaces()
}

/// Opens the box for the agent's process, and tells what the kernel does not enforce of it.
pub(crate) fn open(
    run: &Run<'_>,
    cli: &dyn AgentCli,
    plan: &BoxPlan,
    grants: &Grants<'_>,
) -> Result<OpenBox, StepFailed> {
    let mut plan = plan.clone();
    let spec = &mut plan.spec;
    let search_path = Variables(grants.env).get("PATH").unwrap_or_default();
    let mut own = installation::files(cli.program(), search_path);
    own.extend(access::files(grants.env));
    own.push(cli.machine_settings().into());
    // Unlike paths that the user lists, these need not exist.
    own.retain(|path| path.exists());
    spec.read.extend(own);
    spec.read.push(grants.folder.path().to_owned());
    spec.write.extend(grants.home.folders());
    if let Some(relay) = grants.relay {
        spec.read.push(relay.program.clone());
        spec.write.extend(relay.doors.iter().cloned());
    }
    let accesses = cli.accesses(grants.users, &run.step.options);
    let destinations = access::destinations(grants.users, &accesses, &run.step.options);
    spec.net.extend(destinations);
    let occupant = Occupant {
        title: format!("agent {}, step {}", cli.program(), run.id),
        program: cli.program().into(),
        search_path: Some(search_path.to_owned()),
        folder: Some(grants.folder.path().to_owned()),
        ..Occupant::default()
    };
    let open_box = plan.open(occupant)?;
    tell_gaps(run, &open_box);
    tell_proxy(run, grants.users);
    Ok(open_box)
}

fn tell_gaps(run: &Run<'_>, open_box: &OpenBox) {
    let probe = sandbox::probe(&run.context.warden_program);
    let gaps = probe.gaps(open_box.sandbox());
    let gaps: Vec<String> = gaps.iter().map(sandbox::Gap::sentence).collect();
    if !gaps.is_empty() {
        let text = format!("the agent's box is incomplete here: {}", gaps.join("; "));
        warn(run, text);
    }
}

/// The way out of a box leads to the model directly.
fn tell_proxy(run: &Run<'_>, users: Variables<'_>) {
    let is_set = |name: &&str| users.get(name).is_some();
    if let Some(name) = access::PROXIES.into_iter().find(is_set) {
        let text = format!(
            "the proxy in `{name}` is not used for a boxed agent, which reaches its model directly; if it must use the proxy, set `agents: {{box: off}}`"
        );
        warn(run, text);
    }
}

/// Tells the user what may be missing, if a step ended as steps do whose agent lacks something.
pub(crate) fn advise(run: &Run<'_>, failed: &StepFailed) {
    if plan(run).is_none() {
        return;
    }
    match failed {
        StepFailed::NotStarted { .. }
        | StepFailed::NoTools { .. }
        | StepFailed::NoFinalEvent { .. }
        | StepFailed::Agent(_) => warn(run, ADVICE.to_owned()),
        StepFailed::Setup(_)
        | StepFailed::Boxed(_)
        | StepFailed::ProjectFile { .. }
        | StepFailed::LoginExpired { .. }
        | StepFailed::TimedOut(_)
        | StepFailed::Stopped
        | StepFailed::OverBudget(_)
        | StepFailed::LoopGuard(_)
        | StepFailed::Missing(_)
        | StepFailed::Model(_) => {}
    }
}

fn warn(run: &Run<'_>, text: String) {
    crate::log::about_the_box(&text);
    (run.tell)(StepEvent::Warning { text });
}

/// An agent's own words on stderr, without those of its sandbox.
pub(crate) fn own_words(stderr: &str) -> String {
    let lines = stderr.split_inclusive('\n');
    lines.filter(|line| !line.starts_with(GAP_PREFIX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_sandbox_are_not_the_agents_words() {
        let stderr = format!("{GAP_PREFIX}x\ncould not start\n{GAP_PREFIX}y\nrest");
        assert_eq!(own_words(&stderr), "could not start\nrest");
        assert_eq!(own_words(""), "");
    }
}
