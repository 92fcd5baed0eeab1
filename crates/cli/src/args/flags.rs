//! Flags as typed become flags as meant.

use callgate_config::{self as config, Flags};

use super::{FailMode, Gateway, PolicyMode, ViewName};

impl From<&Gateway> for Flags {
    fn from(typed: &Gateway) -> Self {
        Self {
            upstreams: typed.upstreams.clone(),
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
            upstream_timeout: typed.upstream_timeout.clone(),
            reconnect_cap: typed.reconnect_cap.clone(),
            demo: typed.demo,
        }
    }
}
