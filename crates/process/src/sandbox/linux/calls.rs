//! Seccomp: system calls that a sandboxed process must not make.
//!
//! A list of what is refused, because programs in general need most of the others. The kernel compiles it at every start of a
//! sandboxed process, so its length counts.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

/// How much the sandbox shares with the rest of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setting {
    OwnNamespaces,
    /// No namespaces: what they would keep apart is refused here.
    Shared {
        internet: Internet,
        attributes: Attributes,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Internet {
    Closed,
    /// TCP, to ports that Landlock allows.
    Tcp,
}

/// Changes of permissions, owners and times by path, which Landlock does not restrict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attributes {
    Refused,
    /// Many programs stop when they cannot set permissions.
    Allowed,
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Applies the filters to this process. Returns whether the kernel enforces them.
pub(super) fn filter(setting: Setting) -> Result<bool, seccompiler::Error> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(false);
    };
    // As if the kernel did not have them, so that programs use the older calls, which can be judged by their arguments.
    let absent = UNKNOWN.iter().map(|call| (*call, Vec::new())).collect();
    Ok(apply(absent, libc::ENOSYS, arch)? && apply(refused(setting)?, libc::EPERM, arch)?)
}

fn apply(rules: Rules, errno: i32, arch: TargetArch) -> Result<bool, seccompiler::Error> {
    let program = compiled(rules, errno, arch)?;
    match seccompiler::apply_filter(&program) {
        // The kernel was built without seccomp, or does not permit it here.
        Err(seccompiler::Error::Prctl(_) | seccompiler::Error::Seccomp(_)) => Ok(false),
        Ok(()) => Ok(true),
        Err(other) => Err(other),
    }
}

fn compiled(rules: Rules, errno: i32, arch: TargetArch) -> Result<BpfProgram, seccompiler::Error> {
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?;
    Ok(without_x32(filter.try_into()?))
}

fn refused(setting: Setting) -> Result<Rules, seccompiler::Error> {
    let mut rules: Rules = ALWAYS.iter().map(|call| (*call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    rules.extend(ALWAYS_X86.iter().map(|call| (*call, Vec::new())));
    let any_namespace = || -> Result<Vec<SeccompRule>, seccompiler::Error> {
        NAMESPACE_FLAGS
            .iter()
            .map(|flag| rule(vec![bits(0, *flag, *flag)?]))
            .collect()
    };
    rules.insert(libc::SYS_clone, any_namespace()?);
    let mut unshared = any_namespace()?;
    // Not of `clone`, where this bit belongs to the signal.
    unshared.push(rule(vec![bits(0, CLONE_NEWTIME, CLONE_NEWTIME)?])?);
    rules.insert(libc::SYS_unshare, unshared);
    // They type into a terminal, which may be that of the person who started the gateway.
    rules.insert(
        libc::SYS_ioctl,
        vec![
            rule(vec![is(1, libc::TIOCSTI)?])?,
            rule(vec![is(1, TIOCLINUX)?])?,
        ],
    );
    match setting {
        Setting::OwnNamespaces => {
            rules.insert(libc::SYS_socket, sockets_with_namespaces()?);
            let other_family = rule(vec![is_not(0, libc::AF_UNIX)?])?;
            rules.insert(libc::SYS_socketpair, vec![other_family]);
        }
        Setting::Shared {
            internet,
            attributes,
        } => {
            rules.extend(shared(internet)?);
            if attributes == Attributes::Refused {
                rules.extend(changes_by_path()?);
            }
        }
    }
    Ok(rules)
}

/// Unix sockets, and IP without raw packets.  Other families, like vsock, are not divided by network namespaces, or need none.
fn sockets_with_namespaces() -> Result<Vec<SeccompRule>, seccompiler::Error> {
    Ok(vec![
        rule(vec![
            is_not(0, libc::AF_UNIX)?,
            is_not(0, libc::AF_INET)?,
            is_not(0, libc::AF_INET6)?,
        ])?,
        rule(vec![bits(
            1,
            SOCKET_TYPE_BITS,
            libc::SOCK_RAW.unsigned_abs().into(),
        )?])?,
        rule(vec![bits(1, SOCKET_TYPE_BITS, SOCK_PACKET)?])?,
        // Rare protocols, such as SCTP, are a way into the kernel and to nowhere else.
        rule(
            PROTOCOLS
                .iter()
                .map(|protocol| is_not(2, *protocol))
                .collect::<Result<_, _>>()?,
        )?,
    ])
}

/// What would reach other processes of the user, or hosts, in namespaces that are shared with them.
fn shared(internet: Internet) -> Result<Rules, seccompiler::Error> {
    let mut rules: Rules = SHARED.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(
        libc::SYS_socket,
        match internet {
            Internet::Closed => Vec::new(),
            Internet::Tcp => tcp_only()?,
        },
    );
    // A datagram socket of a pair could be connected anew, to another program's socket.
    let mut pairs = types_besides(&[libc::SOCK_STREAM, libc::SOCK_SEQPACKET])?;
    pairs.push(rule(vec![is_not(0, libc::AF_UNIX)?])?);
    rules.insert(libc::SYS_socketpair, pairs);
    // It opens a connection without the call that Landlock judges.
    let fast_open = libc::MSG_FASTOPEN.unsigned_abs().into();
    for (call, argument) in [
        (libc::SYS_sendto, 3),
        (libc::SYS_sendmsg, 2),
        (libc::SYS_sendmmsg, 3),
    ] {
        rules.insert(
            call,
            vec![rule(vec![bits(argument, fast_open, fast_open)?])?],
        );
    }
    // Only for the own process: 0 means that.
    for call in OF_A_PROCESS {
        rules.insert(call, vec![rule(vec![is_not(0, 0)?])?]);
    }
    for call in [libc::SYS_setpriority, libc::SYS_ioprio_set] {
        let own_process = if call == libc::SYS_ioprio_set { 1 } else { 0 };
        rules.insert(
            call,
            vec![
                rule(vec![is_not(0, own_process)?])?,
                rule(vec![is_not(1, 0)?])?,
            ],
        );
    }
    Ok(rules)
}

/// Not MPTCP, which Landlock does not judge, nor UDP.
fn tcp_only() -> Result<Vec<SeccompRule>, seccompiler::Error> {
    let mut rules = types_besides(&[libc::SOCK_STREAM])?;
    rules.push(rule(vec![
        is_not(0, libc::AF_INET)?,
        is_not(0, libc::AF_INET6)?,
    ])?);
    rules.push(rule(vec![is_not(2, 0)?, is_not(2, libc::IPPROTO_TCP)?])?);
    Ok(rules)
}

fn types_besides(allowed: &[i32]) -> Result<Vec<SeccompRule>, seccompiler::Error> {
    (0..=SOCKET_TYPE_BITS)
        .filter(|kind| {
            !allowed
                .iter()
                .any(|allowed| u64::from(allowed.unsigned_abs()) == *kind)
        })
        .map(|kind| rule(vec![bits(1, SOCKET_TYPE_BITS, kind)?]))
        .collect()
}

fn changes_by_path() -> Result<Rules, seccompiler::Error> {
    let mut rules: Rules = ATTRIBUTES.iter().map(|call| (*call, Vec::new())).collect();
    #[cfg(target_arch = "x86_64")]
    rules.extend(ATTRIBUTES_X86.iter().map(|call| (*call, Vec::new())));
    // Without a path it changes an open file.
    let has_path = SeccompCondition::new(1, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    rules.insert(libc::SYS_utimensat, vec![rule(vec![has_path])?]);
    Ok(rules)
}

fn rule(conditions: Vec<SeccompCondition>) -> Result<SeccompRule, seccompiler::Error> {
    Ok(SeccompRule::new(conditions)?)
}

fn is(argument: u8, value: impl TryInto<u64>) -> Result<SeccompCondition, seccompiler::Error> {
    compare(argument, SeccompCmpOp::Eq, value)
}

fn is_not(argument: u8, value: impl TryInto<u64>) -> Result<SeccompCondition, seccompiler::Error> {
    compare(argument, SeccompCmpOp::Ne, value)
}

fn compare(
    argument: u8,
    comparison: SeccompCmpOp,
    value: impl TryInto<u64>,
) -> Result<SeccompCondition, seccompiler::Error> {
    let value = value.try_into().unwrap_or(u64::MAX);
    Ok(SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        comparison,
        value,
    )?)
}

/// Whether the bits of `mask` have this value.
fn bits(argument: u8, mask: u64, value: u64) -> Result<SeccompCondition, seccompiler::Error> {
    let masked = SeccompCmpOp::MaskedEq(mask);
    Ok(SeccompCondition::new(
        argument,
        SeccompCmpArgLen::Dword,
        masked,
        value,
    )?)
}

/// Refuses every call under its x32 number as if the kernel did not have that interface. The numbers reach the same functions
/// past the rules, and programs that use them are next to unknown.
#[cfg(target_arch = "x86_64")]
fn without_x32(program: BpfProgram) -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    let step = |code: u32, (jt, jf): (u8, u8), k: u32| sock_filter {
        code: u16::try_from(code).unwrap_or(u16::MAX),
        jt,
        jf,
        k,
    };
    let absent = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    let refuse = [
        // The number of the call is the first thing that a filter can load.
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, (0, 0), 0),
        step(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, (0, 1), X32),
        step(libc::BPF_RET | libc::BPF_K, (0, 0), absent),
    ];
    refuse.into_iter().chain(program).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn without_x32(program: BpfProgram) -> BpfProgram {
    program
}

/// The protocols of sockets in a network of its own. 0 is the usual one of the family.
const PROTOCOLS: [i32; 6] = [
    0,
    libc::IPPROTO_ICMP,
    libc::IPPROTO_TCP,
    libc::IPPROTO_UDP,
    libc::IPPROTO_ICMPV6,
    libc::IPPROTO_MPTCP,
];

const SOCKET_TYPE_BITS: u64 = 0xf;
const SOCK_PACKET: u64 = 10;
const TIOCLINUX: u64 = 0x541c;

/// The `CLONE_NEW…` flags: cgroup, UTS, IPC, user, process, network and mount.
const NAMESPACE_FLAGS: [u64; 7] = [
    0x0200_0000,
    0x0400_0000,
    0x0800_0000,
    0x1000_0000,
    0x2000_0000,
    0x4000_0000,
    0x0002_0000,
];

const CLONE_NEWTIME: u64 = 0x80;

/// Newer forms of calls, whose arguments a filter cannot read, and io_uring, which makes calls past the filter.
const UNKNOWN: [i64; 4] = [
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

// Too new for the crate that names the others; the numbers are the same on all architectures.
const SYS_SETXATTRAT: i64 = 463;
const SYS_REMOVEXATTRAT: i64 = 466;
const SYS_OPEN_TREE_ATTR: i64 = 467;
const SYS_FILE_SETATTR: i64 = 469;

/// Mounts, other processes' memory, keys, the kernel itself, and ways to files without a path.
const ALWAYS: [i64; 49] = [
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pidfd_getfd,
    libc::SYS_pivot_root,
    libc::SYS_process_madvise,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
];

#[cfg(target_arch = "x86_64")]
const ALWAYS_X86: [i64; 7] = [
    libc::SYS_ioperm,
    libc::SYS_iopl,
    libc::SYS_modify_ldt,
    libc::SYS_sysfs,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_vhangup,
];

/// System V IPC, message queues and listening: shared with every program of the user.
const SHARED: [i64; 17] = [
    libc::SYS_listen,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_msgrcv,
    libc::SYS_msgsnd,
    libc::SYS_process_mrelease,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_shmget,
];

/// Calls whose first argument is a process, 0 for the own one.
const OF_A_PROCESS: [i64; 5] = [
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

const ATTRIBUTES: [i64; 10] = [
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchownat,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_setxattr,
    SYS_SETXATTRAT,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
];

#[cfg(target_arch = "x86_64")]
const ATTRIBUTES_X86: [i64; 6] = [
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_futimesat,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_filter_can_be_built() {
        let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        for internet in [Internet::Closed, Internet::Tcp] {
            for attributes in [Attributes::Refused, Attributes::Allowed] {
                let shared = Setting::Shared {
                    internet,
                    attributes,
                };
                for setting in [Setting::OwnNamespaces, shared] {
                    let program = compiled(refused(setting).unwrap(), 1, arch).unwrap();
                    // The kernel compiles it before each start.
                    assert!(program.len() < 1000, "{setting:?}: {}", program.len());
                }
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn calls_under_their_x32_numbers_are_refused_first() {
        let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
        let program = compiled(refused(Setting::OwnNamespaces).unwrap(), 1, arch).unwrap();
        let steps: Vec<(u16, u32)> = program
            .iter()
            .take(3)
            .map(|one| (one.code, one.k))
            .collect();
        assert_eq!(steps, [(0x20, 0), (0x45, 0x4000_0000), (0x06, 0x0005_0026)]);
        assert_eq!((program[1].jt, program[1].jf), (0, 1));
    }
}
