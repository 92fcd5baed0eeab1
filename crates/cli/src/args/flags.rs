//! Flags as typed become flags as meant.

use callgate_config::{self as config, Flags};

use super::{FailMode, Gateway, PolicyMode, ViewName};

impl Gateway {
    /// A note for each flag or variable that was given under its old name.
    pub(crate) fn old_spellings(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.upstreams.is_empty() {
            notes.push("`--upstream` is an old name of `--server`; use the new one".to_owned());
        }
        if self.upstream_timeout.is_some() {
            notes.push(
                "`--upstream-timeout` and CALLGATE_UPSTREAM_TIMEOUT are old names of `--server-timeout` and \
                 CALLGATE_SERVER_TIMEOUT; use the new ones"
                    .to_owned(),
            );
        }
        notes
    }
}

impl From<&Gateway> for Flags {
    fn from(typed: &Gateway) -> Self {
        Self {
            servers: [&*typed.servers, &*typed.upstreams].concat(),
            view: typed.view.map(|view| match view {
                ViewName::Direct => config::View::Direct,
                ViewName::Search => config::View::Search,
                ViewName::Code => config::View::Code,
            }),
            policy: typed.policy.clone(),
            policy_mode: typed.policy_mode.map(|mode| match mode {
                PolicyMode::Strict => config::PolicyMode::Strict,
                PolicyMode::Fast => config::PolicyMode::Fast,
            }),
            guard_url: typed.guard_url.clone(),
            fail_mode: typed.fail_mode.map(|mode| match mode {
                FailMode::Deny => config::FailMode::Deny,
                FailMode::Allow => config::FailMode::Allow,
                FailMode::FailClosedWithAudit => config::FailMode::FailClosedWithAudit,
            }),
            tenant: typed.tenant.clone(),
            server_timeout: typed
                .server_timeout
                .clone()
                .or_else(|| typed.upstream_timeout.clone()),
            reconnect_cap: typed.reconnect_cap.clone(),
            demo: typed.demo,
        }
    }
}
