//! What a project's file may decide: its servers and how they are shown, and everything else only
//! where it is stricter than the user's setting.

use serde_json::Value;

use crate::{
    Config,
    approval_keys::Approvals,
    model::{
        Activity, Code, IntentDeclaration, Limits, PinChoice, PolicyChoice, PolicyMode, TimeSpan,
        View,
    },
};

/// Takes the user's values wherever the project's are not stricter, and names the keys of the project
/// that are ignored. `written` is the project's file as it is written, which tells what it sets.
pub(super) fn tighten(project: &mut Config, written: &Value, users: &Config) -> Vec<&'static str> {
    let mut tightening = Tightening {
        written,
        ignored: Vec::new(),
    };
    project.listen = tightening.users("listen", &users.listen);
    project.hosts = tightening.users("hosts", &users.hosts);
    project.auth = tightening.users("auth", &users.auth);
    project.data_dir = tightening.users("data_dir", &users.data_dir);
    project.telemetry = tightening.users("telemetry", &users.telemetry);
    // A project that could set these could send the user's calls to a guard of its own, or leave the tenant.
    project.guard = tightening.users("guard", &users.guard);
    project.tenants = tightening.users("tenants", &users.tenants);
    // Built-in tools give access to a shell and files, so only the user may enable or place them.
    project.builtins = tightening.users("builtins", &users.builtins);
    let boxes = (project.boxes.mode, users.boxes.mode);
    project.boxes.mode = tightening.at_least("box.mode", boxes.0, boxes.1);
    // Two boxes cannot be compared, so a project's box counts only where the user has none.
    let workflows = (
        std::mem::take(&mut project.workflows),
        users.workflows.clone(),
    );
    project.workflows =
        tightening.stricter("workflows.box", workflows.0, workflows.1, |_, users| {
            users.sandbox.is_none()
        });
    let agents = (std::mem::take(&mut project.agents), users.agents.clone());
    project.agents = tightening.stricter("agents.box", agents.0, agents.1, |project, users| {
        let (project, users) = (project.keys(), users.keys());
        project.grants_nothing() && project.mode >= users.mode
    });
    let policy = (project.policy.take(), users.policy.clone());
    project.policy = tightening.stricter("policy", policy.0, policy.1, |project, users| {
        !allows_all(project) || allows_all(users)
    });
    let mode = |mode: Option<PolicyMode>| mode.unwrap_or(PolicyMode::Strict);
    let is_as_strict = |project: &_, users: &_| mode(*project) >= mode(*users);
    let modes = (project.policy_mode, users.policy_mode);
    project.policy_mode = tightening.stricter("policy_mode", modes.0, modes.1, is_as_strict);
    let is_as_strict =
        |project: &_, users: &_| PinChoice::effective(*project) >= PinChoice::effective(*users);
    project.pins = tightening.stricter("pins", project.pins, users.pins, is_as_strict);
    // In the `search` view calls declare their intent; a project must not switch that off.
    let is_as_strict = |project: &View, users: &View| project == users || *users == View::Direct;
    project.view = tightening.stricter("view", project.view, users.view, is_as_strict);
    // Packs are the project's own once it is trusted, but limits of scripts stay the user's.
    let packs = project.code.packs.take();
    project.code = Code {
        packs: packs.or_else(|| users.code.packs.clone()),
        ..users.code.clone()
    };
    tighten_intent(&mut tightening, project, &users.intent_declaration);
    tighten_approvals(&mut tightening, &mut project.approvals, &users.approvals);
    tighten_activity(&mut tightening, &mut project.activity, &users.activity);
    tighten_limits(&mut tightening, &mut project.limits, &users.limits);
    tightening.ignored
}

/// Compares the keys of a project with the user's, one by one.
struct Tightening<'a> {
    written: &'a Value,
    ignored: Vec<&'static str>,
}

impl Tightening<'_> {
    fn is_set(&self, key: &str) -> bool {
        let found = key
            .split('.')
            .try_fold(self.written, |value, part| value.get(part));
        found.is_some_and(|value| !value.is_null())
    }

    /// A key that only the user may set.
    fn users<T: Clone>(&mut self, key: &'static str, users: &T) -> T {
        if self.is_set(key) {
            self.ignored.push(key);
        }
        users.clone()
    }

    /// A key that the project may set to a value at least as strict as the user's.
    fn stricter<T>(
        &mut self,
        key: &'static str,
        project: T,
        users: T,
        is_as_strict: impl Fn(&T, &T) -> bool,
    ) -> T {
        if !self.is_set(key) {
            return users;
        }
        if is_as_strict(&project, &users) {
            return project;
        }
        self.ignored.push(key);
        users
    }

    fn at_most<T: Ord>(&mut self, key: &'static str, project: T, users: T) -> T {
        self.stricter(key, project, users, |project, users| project <= users)
    }

    fn at_least<T: Ord>(&mut self, key: &'static str, project: T, users: T) -> T {
        self.stricter(key, project, users, |project, users| project >= users)
    }
}

/// Whether a policy allows everything. Any other policy is evaluated beside the user's, and the stricter verdict applies.
fn allows_all(policy: &Option<PolicyChoice>) -> bool {
    match policy {
        None | Some(PolicyChoice::Default | PolicyChoice::Cautious | PolicyChoice::File(_)) => {
            false
        }
        Some(PolicyChoice::AllowAll) => true,
    }
}

/// Only the user sets where approvals are announced and decided; a project may shorten the times.
fn tighten_approvals(tightening: &mut Tightening<'_>, project: &mut Approvals, users: &Approvals) {
    let mut at_most = |key, project, users| {
        tightening.stricter(
            key,
            project,
            users,
            |project: &TimeSpan, users: &TimeSpan| project.0 <= users.0,
        )
    };
    let wait = at_most("approvals.wait", project.wait, users.wait);
    let valid_for = at_most("approvals.valid_for", project.valid_for, users.valid_for);
    let expire_after = at_most(
        "approvals.expire_after",
        project.expire_after,
        users.expire_after,
    );
    *project = Approvals {
        wait,
        valid_for,
        expire_after,
        base_url: tightening.users("approvals.base_url", &users.base_url),
        notify: tightening.users("approvals.notify", &users.notify),
    };
}

/// The activity log is the user's: a project can neither shorten nor lengthen what is kept.
fn tighten_activity(tightening: &mut Tightening<'_>, project: &mut Activity, users: &Activity) {
    let redact: Vec<String> = users
        .redact
        .iter()
        .chain(&project.redact)
        .cloned()
        .collect();
    *project = Activity {
        durability: tightening.at_least(
            "activity.durability",
            project.durability,
            users.durability,
        ),
        on_failure: tightening.at_least(
            "activity.on_failure",
            project.on_failure,
            users.on_failure,
        ),
        redact,
        body_bytes: tightening.users("activity.body_bytes", &users.body_bytes),
        retain: tightening.users("activity.retain", &users.retain),
        heads: tightening.users("activity.heads", &users.heads),
    };
}

/// Only the user may loosen which intents must be declared and how server hints are checked.
fn tighten_intent(
    tightening: &mut Tightening<'_>,
    project: &mut Config,
    users: &IntentDeclaration,
) {
    let declared = &mut project.intent_declaration;
    declared.strict_server_validation = tightening.at_least(
        "intent_declaration.strict_server_validation",
        declared.strict_server_validation,
        users.strict_server_validation,
    );
    declared.required = tightening.at_least(
        "intent_declaration.required",
        declared.required,
        users.required,
    );
    if !tightening.is_set("intent_declaration.form") {
        declared.form = users.form;
    }
}

fn tighten_limits(tightening: &mut Tightening<'_>, project: &mut Limits, users: &Limits) {
    let idle = (project.session_idle.0, users.session_idle.0);
    let session_idle = tightening.at_most("limits.session_idle", idle.0, idle.1);
    let mut at_most = |key, project, users| tightening.at_most(key, project, users);
    *project = Limits {
        session_idle: TimeSpan(session_idle),
        frame_mib: at_most("limits.frame_mib", project.frame_mib, users.frame_mib),
        http_mib: at_most("limits.http_mib", project.http_mib, users.http_mib),
        inflight_mib: at_most(
            "limits.inflight_mib",
            project.inflight_mib,
            users.inflight_mib,
        ),
        connections: at_most("limits.connections", project.connections, users.connections),
        concurrency_per_server: at_most(
            "limits.concurrency_per_server",
            project.concurrency_per_server,
            users.concurrency_per_server,
        ),
        processes_per_server: at_most(
            "limits.processes_per_server",
            project.processes_per_server,
            users.processes_per_server,
        ),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BoxChoice;

    fn weighed(project: &str, users: &str) -> (Config, Vec<&'static str>) {
        let read = |text: &str| -> Config { serde_saphyr::from_str(text).expect("it is right") };
        let mut config = read(project);
        let written = serde_saphyr::from_str(project).expect("it is YAML");
        let ignored = tighten(&mut config, &written, &read(users));
        (config, ignored)
    }

    #[test]
    fn the_users_settings_apply_where_a_project_sets_none() {
        let users = "listen: 127.0.0.1:1\nhosts: [h]\nauth: {token: t}\npolicy: allow-all\npolicy_mode: fast\n\
                     activity: {durability: power, on_failure: allow, redact: [a], body_bytes: 1, retain: {days: 1}}\n\
                     limits: {frame_mib: 8, http_mib: 32, concurrency_per_server: 1, processes_per_server: 9}\n\
                     telemetry: {log: debug}\n";
        let (config, ignored) = weighed("servers: {}", users);
        let expected: Config = serde_saphyr::from_str(users).expect("it is right");
        assert_eq!((config, ignored), (expected, vec![]));
    }

    #[test]
    fn a_project_can_tighten_but_not_loosen_settings() {
        let strict = "approvals: {wait: 1s, valid_for: 1s, expire_after: 1s}\nbox: {mode: required}\npolicy: default\npolicy_mode: strict\nactivity: {durability: power, on_failure: refuse, redact: [b]}\n\
                      limits: {frame_mib: 1, http_mib: 1, inflight_mib: 1, connections: 1, session_idle: 1s, concurrency_per_server: 1, processes_per_server: 1}\n";
        let loose = "approvals: {wait: 2s, valid_for: 2s, expire_after: 2s}\nbox: {mode: best_effort}\npolicy: allow-all\npolicy_mode: fast\nactivity: {durability: process, on_failure: allow, redact: [a]}\n\
                     limits: {frame_mib: 9, http_mib: 99, inflight_mib: 999, connections: 9999, session_idle: 99h, concurrency_per_server: 999, processes_per_server: 9}\n";
        let (config, ignored) = weighed(strict, loose);
        let mut expected: Config = serde_saphyr::from_str(strict).expect("it is right");
        expected.activity.redact = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!((config, ignored), (expected, vec![]));

        let (config, ignored) = weighed(loose, strict);
        let mut expected: Config = serde_saphyr::from_str(strict).expect("it is right");
        expected.activity.redact = vec!["b".to_owned(), "a".to_owned()];
        assert_eq!(config, expected);
        let names = [
            "box.mode",
            "policy",
            "policy_mode",
            "approvals.wait",
            "approvals.valid_for",
            "approvals.expire_after",
            "activity.durability",
            "activity.on_failure",
            "limits.session_idle",
            "limits.frame_mib",
            "limits.http_mib",
            "limits.inflight_mib",
            "limits.connections",
            "limits.concurrency_per_server",
            "limits.processes_per_server",
        ];
        assert_eq!(ignored, names);
    }

    #[test]
    fn user_only_settings_in_a_project_are_ignored_and_reported() {
        let project = "approvals: {base_url: 'http://evil', notify: [{url: 'http://evil'}]}\nlisten: 0.0.0.0:1\nhosts: [evil]\nauth: {token: known}\ndata_dir: here\n\
                       telemetry: {log: 'off'}\nactivity: {body_bytes: 0, retain: {days: 0, max_mb: 0}}\n";
        let (config, ignored) = weighed(project, "servers: {}");
        assert_eq!(config, Config::default());
        let names = [
            "listen",
            "hosts",
            "auth",
            "data_dir",
            "telemetry",
            "approvals.base_url",
            "approvals.notify",
            "activity.body_bytes",
            "activity.retain",
        ];
        assert_eq!(ignored, names);
    }
    #[test]
    fn a_projects_box_of_workflows_counts_only_where_the_user_has_none() {
        let box_of = |config: &Config| config.workflows.sandbox.clone().map(|entry| entry.0.mode);
        let strict = "workflows: {box: required}";
        let (config, ignored) = weighed(strict, "servers: {}");
        assert_eq!(box_of(&config), Some(Some(BoxChoice::Required)));
        assert!(ignored.is_empty());
        let (config, ignored) = weighed("servers: {}", strict);
        assert_eq!(box_of(&config), Some(Some(BoxChoice::Required)));
        assert!(ignored.is_empty());
        let (config, ignored) = weighed("workflows: {box: 'off'}", strict);
        assert_eq!(box_of(&config), Some(Some(BoxChoice::Required)));
        assert_eq!(ignored, ["workflows.box"]);
    }

    #[test]
    fn a_projects_box_of_agents_only_tightens_the_users() {
        let box_of = |config: &Config| {
            let keys = config.agents.keys();
            (keys.mode, keys.net.len())
        };
        let (best_effort, required) = (Some(BoxChoice::BestEffort), Some(BoxChoice::Required));
        let granting = "agents: {box: {net: [example.com]}}";
        for (project, users, expected, is_ignored) in [
            ("servers: {}", "servers: {}", (best_effort, 0), false),
            ("agents: {box: required}", granting, (required, 0), false),
            (
                "agents: {box: 'off'}",
                "servers: {}",
                (best_effort, 0),
                true,
            ),
            (
                "agents: {box: best_effort}",
                "agents: {box: required}",
                (required, 0),
                true,
            ),
            (granting, "servers: {}", (best_effort, 0), true),
            ("servers: {}", granting, (best_effort, 1), false),
        ] {
            let (config, ignored) = weighed(project, users);
            assert_eq!(box_of(&config), expected, "{project} {users}");
            assert_eq!(
                ignored.contains(&"agents.box"),
                is_ignored,
                "{project} {users}"
            );
        }
    }
}
