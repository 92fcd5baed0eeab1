//! What a sandbox does not restrict on this machine.

use serde::{Deserialize, Serialize};

use super::{Mode, Namespaces, Network, Sandbox};

/// How a line on stderr begins that names a gap. The sandbox writes one per gap before the command starts.
pub const GAP_PREFIX: &str = "callgate: not enforced by the sandbox: ";

/// What the kernel enforced when a sandbox was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enforced {
    /// The version of Landlock's interface; 0 without Landlock.
    pub landlock: u8,
    /// Whether system calls are filtered with seccomp.
    pub system_calls: bool,
    /// Whether the number of processes is limited.
    pub process_count: bool,
}

/// A restriction that a sandbox lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gap {
    /// This system has no sandbox at all.
    NoSandbox,
    /// No namespaces, for this reason; Landlock and seccomp do their work.
    NoNamespaces {
        reason: String,
    },
    /// No Landlock; with namespaces, the mount namespace still hides files.
    NoLandlock,
    Truncation,
    Signals,
    Ports,
    /// The egress proxy's port number is open on every host, because Landlock knows ports and not addresses.
    SamePortElsewhere {
        port: u16,
    },
    FileNames,
    FileAttributes,
    SystemCalls,
    ProcessCount,
}

impl Gap {
    /// Whether a sandbox that is required must not start with this gap.
    pub fn is_severe(&self, has_namespaces: bool) -> bool {
        match self {
            Self::NoSandbox | Self::SystemCalls => true,
            Self::NoLandlock => !has_namespaces,
            Self::Truncation | Self::Signals | Self::Ports => true,
            Self::NoNamespaces { .. }
            | Self::SamePortElsewhere { .. }
            | Self::FileNames
            | Self::FileAttributes
            | Self::ProcessCount => false,
        }
    }

    /// One sentence for people.
    pub fn sentence(&self) -> String {
        match self {
            Self::NoSandbox => "this system has no sandbox; the command has all rights of the user".to_owned(),
            Self::NoNamespaces { reason } => {
                format!("the command has no namespaces of its own ({reason}); Landlock and seccomp restrict it")
            }
            Self::NoLandlock => "the kernel has no Landlock, which restricts files".to_owned(),
            Self::Truncation => "files outside can be truncated: the kernel's Landlock is older than version 3".to_owned(),
            Self::Signals => {
                "other processes of the user can be signalled: the kernel's Landlock is older than version 6".to_owned()
            }
            Self::Ports => "TCP connections are not restricted: the kernel's Landlock is older than version 4".to_owned(),
            Self::SamePortElsewhere { port } => format!("TCP port {port} can be reached on every host"),
            Self::FileNames => "names, sizes and times of files outside can be seen; their contents cannot".to_owned(),
            Self::FileAttributes => {
                "permissions and times of the user's files outside can be changed; their contents cannot".to_owned()
            }
            Self::SystemCalls => "system calls are not filtered: the kernel has no seccomp".to_owned(),
            Self::ProcessCount => "the number of processes is not limited".to_owned(),
        }
    }
}

/// The gaps of `sandbox` where the kernel enforces `enforced`.
pub(crate) fn gaps(sandbox: &Sandbox, enforced: Enforced, no_namespaces: Option<&str>) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let landlock = enforced.landlock;
    let mut process_count = enforced.process_count;
    if landlock == 0 {
        gaps.push(Gap::NoLandlock);
    }
    if let Some(reason) = reason(sandbox, no_namespaces) {
        gaps.push(Gap::NoNamespaces { reason });
        gaps.push(Gap::FileNames);
        process_count = false;
        if sandbox.mode == Mode::BestEffort {
            gaps.push(Gap::FileAttributes);
        }
        if (1..3).contains(&landlock) {
            gaps.push(Gap::Truncation);
        }
        if landlock < 6 {
            gaps.push(Gap::Signals);
        }
        if let Network::Proxied(network) = &sandbox.network
            && let Some(fallback) = &network.fallback
        {
            gaps.push(match landlock {
                0..4 => Gap::Ports,
                4.. => Gap::SamePortElsewhere {
                    port: fallback.port,
                },
            });
        }
    }
    if !enforced.system_calls {
        gaps.push(Gap::SystemCalls);
    }
    if !process_count {
        gaps.push(Gap::ProcessCount);
    }
    gaps
}

fn reason(sandbox: &Sandbox, no_namespaces: Option<&str>) -> Option<String> {
    match (sandbox.namespaces, no_namespaces) {
        (Namespaces::Off, None) => Some("switched off".to_owned()),
        (_, Some(reason)) => Some(reason.to_owned()),
        (Namespaces::WhereAllowed, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{LoopbackProxy, ProxiedNetwork};

    const ALL: Enforced = Enforced {
        landlock: 7,
        system_calls: true,
        process_count: true,
    };

    fn severe(sandbox: &Sandbox, enforced: Enforced, no_namespaces: Option<&str>) -> Vec<Gap> {
        gaps(sandbox, enforced, no_namespaces)
            .into_iter()
            .filter(|gap| gap.is_severe(no_namespaces.is_none()))
            .collect()
    }

    #[test]
    fn a_current_kernel_with_namespaces_leaves_no_gap() {
        let sandbox = Sandbox::new(Mode::Required);
        assert_eq!(gaps(&sandbox, ALL, None), []);
    }

    #[test]
    fn without_namespaces_a_current_kernel_holds_what_required_demands() {
        let sandbox = Sandbox::new(Mode::Required);
        assert_eq!(severe(&sandbox, ALL, Some("refused")), []);
    }

    #[test]
    fn old_kernels_without_namespaces_do_not_hold_what_required_demands() {
        let mut sandbox = Sandbox::new(Mode::Required);
        sandbox.network = Network::Proxied(ProxiedNetwork {
            socket: "/s".into(),
            fallback: Some(LoopbackProxy {
                port: 9,
                password: String::new(),
            }),
            direct: Vec::new(),
        });
        let cases: [(u8, &[Gap]); 5] = [
            (0, &[Gap::NoLandlock, Gap::Signals, Gap::Ports]),
            (2, &[Gap::Truncation, Gap::Signals, Gap::Ports]),
            (3, &[Gap::Signals, Gap::Ports]),
            (5, &[Gap::Signals]),
            (6, &[]),
        ];
        for (landlock, expected) in cases {
            let enforced = Enforced { landlock, ..ALL };
            assert_eq!(
                severe(&sandbox, enforced, Some("no")),
                expected,
                "{landlock}"
            );
        }
    }

    #[test]
    fn missing_seccomp_is_severe_with_namespaces_and_missing_landlock_is_not() {
        let sandbox = Sandbox::new(Mode::Required);
        let no_calls = Enforced {
            system_calls: false,
            ..ALL
        };
        assert_eq!(severe(&sandbox, no_calls, None), [Gap::SystemCalls]);
        let no_landlock = Enforced { landlock: 0, ..ALL };
        assert_eq!(gaps(&sandbox, no_landlock, None), [Gap::NoLandlock]);
        assert_eq!(severe(&sandbox, no_landlock, None), []);
    }
}
