//! Settings that flags give a gateway.

use crate::{FailMode, PolicyMode, View};

/// Settings from the command line; a flag overrides the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Flags {
    /// More servers, each as `name:command` or `name:URL`.
    pub servers: Vec<String>,
    /// The view of hosts whose URL selects none.
    pub view: Option<View>,
    /// The policy: a file or a built-in name.
    pub policy: Option<String>,
    /// What the rules of a policy file are matched against.
    pub policy_mode: Option<PolicyMode>,
    /// A remote gateway that decides in place of the policy's rules.
    pub guard_url: Option<String>,
    /// What happens to a call when the remote gateway cannot be asked.
    pub fail_mode: Option<FailMode>,
    /// The tenant at the remote gateway.
    pub tenant: Option<String>,
    /// How long a call may take.
    pub server_timeout: Option<String>,
    /// The longest pause between two connection attempts to a server.
    pub reconnect_cap: Option<String>,
    /// Whether the bundled demo server is added.
    pub demo: bool,
}
