//! What a gateway can be told without a file.

use crate::{FailMode, PolicyMode, View};

/// What a gateway is told beside its file; a flag beats the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Flags {
    /// More servers, each as `name:command` or `name:URL`.
    pub upstreams: Vec<String>,
    /// What hosts see where the URL does not say it.
    pub view: Option<View>,
    /// The policy: a file or a built-in name.
    pub policy: Option<String>,
    /// How much a policy file is asked.
    pub policy_mode: Option<PolicyMode>,
    /// Another gateway that is asked in place of the policy's rules.
    pub guard_url: Option<String>,
    /// What counts when it cannot be asked.
    pub fail_mode: Option<FailMode>,
    /// The tenant that it is asked for.
    pub tenant: Option<String>,
    /// How long a call may take.
    pub upstream_timeout: Option<String>,
    /// Longest pause between two attempts to reach a server.
    pub reconnect_cap: Option<String>,
    /// Whether the bundled demo server is added.
    pub demo: bool,
}
