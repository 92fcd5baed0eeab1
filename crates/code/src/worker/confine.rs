//! The sandbox on Linux: resource limits, no file system and no network (Landlock), and only the system calls that
//! computing and two pipes need (seccomp). On a kernel without Landlock or seccomp the interpreter's own restrictions
//! and the resource limits remain.

use std::{collections::BTreeMap, io};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetStatus,
};
use rustix::process::{Resource, Rlimit, getpid, getrlimit, nice, setrlimit};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::STACK_BYTES;

/// Memory for threads and the allocator beside the script's.
const SLACK_BYTES: u64 = 8 * 1024 * 1024;
/// Scripts run at a lower priority than the gateway.
const NICENESS: i32 = 5;

/// Why the sandbox could not be set up. The worker then exits.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unconfined {
    #[error("could not set a resource limit")]
    Limit(#[from] io::Error),
    #[error("could not apply the Landlock file-system restriction")]
    Files(#[from] landlock::RulesetError),
}

/// Removes access to files and network, and limits memory to what is in use plus `memory_bytes`.
pub(super) fn confine(memory_bytes: u64) -> Result<(), Unconfined> {
    let has = data_bytes().unwrap_or(SLACK_BYTES);
    nice(NICENESS).map_err(io::Error::from)?;
    close_files()?;
    limit(has, memory_bytes)?;
    Ok(())
}

/// Sets resource limits: memory beyond `has`, no new descriptors, no file writes.
pub(super) fn limit(has: u64, memory_bytes: u64) -> io::Result<()> {
    let memory = has + STACK_BYTES as u64 + SLACK_BYTES + memory_bytes;
    let limits = [
        (Resource::Data, memory),
        (Resource::Core, 0),
        (Resource::Fsize, 0),
        // stdin, stdout and stderr are open, so no other descriptor can be opened.
        (Resource::Nofile, 3),
    ];
    for (resource, most) in limits {
        let most = match getrlimit(resource).maximum {
            Some(hard) => most.min(hard),
            None => most,
        };
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit)?;
    }
    Ok(())
}

/// The private writable memory of this process, which `RLIMIT_DATA` counts.
fn data_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmData:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

/// Applies Landlock. Returns whether the kernel enforces it.
pub(super) fn close_files() -> Result<bool, landlock::RulesetError> {
    let abi = ABI::V4;
    // Best effort: a kernel without Landlock reports that in the status instead of an error.
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .create()?
        .restrict_self()?;
    Ok(ruleset.ruleset != RulesetStatus::NotEnforced)
}

/// Applies the seccomp filter to every thread. Returns whether the kernel enforces it.
pub(super) fn filter_calls() -> Result<bool, seccompiler::Error> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else {
        return Ok(false);
    };
    let only = |descriptors: &[u64]| -> Result<Vec<SeccompRule>, seccompiler::Error> {
        let mut rules = Vec::new();
        for descriptor in descriptors {
            let is =
                SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, *descriptor)?;
            rules.push(SeccompRule::new(vec![is])?);
        }
        Ok(rules)
    };
    let mut calls: BTreeMap<i64, Vec<SeccompRule>> = ALLOWED_CALLS
        .iter()
        .map(|call| (*call, Vec::new()))
        .collect();
    calls.insert(libc::SYS_read, only(&[0])?);
    calls.insert(libc::SYS_write, only(&[1, 2])?);
    // `abort` signals the own thread; signals to other processes stay refused.
    let own = u64::from(getpid().as_raw_pid().unsigned_abs());
    calls.insert(libc::SYS_tgkill, only(&[own])?);
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(calls, refuse, SeccompAction::Allow, arch)?;
    let program: BpfProgram = filter.try_into()?;
    match seccompiler::apply_filter_all_threads(&program) {
        // The kernel was built without seccomp, or does not permit it here.
        Err(seccompiler::Error::Prctl(_) | seccompiler::Error::Seccomp(_)) => Ok(false),
        Ok(()) => Ok(true),
        Err(other) => Err(other),
    }
}

/// System calls for computing, waiting and exiting. None of them reaches files, sockets or other processes.
const ALLOWED_CALLS: [i64; 28] = [
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_prctl,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_uname,
];
