//! The system calls at which a watched program stops, and what each of them uses.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use super::sockets;
use super::tracee::Tracee;
use crate::watch::Use;

/// A system call that is about to be made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    pub(super) number: i64,
    pub(super) args: [u64; 6],
}

/// The position of a path among the arguments, and that of the descriptor it begins at.
#[derive(Debug, Clone, Copy)]
struct At {
    folder: Option<usize>,
    path: usize,
}

const fn at(folder: usize, path: usize) -> At {
    At {
        folder: Some(folder),
        path,
    }
}

#[cfg(target_arch = "x86_64")]
const fn plain(path: usize) -> At {
    At { folder: None, path }
}

/// What a call does.
#[derive(Debug, Clone, Copy)]
enum Does {
    /// Opens; the flags are this argument.
    Open(At, usize),
    /// Opens; a pointer to the flags is this argument.
    OpenHow(At, usize),
    /// Runs a program.
    Run(At),
    /// Opens for writing and makes the file if there is none.
    Create(At),
    /// Makes an entry of a folder.
    Make(At),
    /// Removes an entry of a folder.
    Remove(At),
    Rename(At, At),
    /// Makes an entry for an existing file.
    Link(At, At),
    /// Changes a file or its attributes.
    Write(At),
    Connect,
    Bind,
    Listen,
    Send,
    SendMessage,
    SendMessages,
}

const CALLS: [(i64, Does); 24] = [
    (libc::SYS_openat, Does::Open(at(0, 1), 2)),
    (libc::SYS_openat2, Does::OpenHow(at(0, 1), 2)),
    (
        libc::SYS_execve,
        Does::Run(At {
            folder: None,
            path: 0,
        }),
    ),
    (libc::SYS_execveat, Does::Run(at(0, 1))),
    (
        libc::SYS_truncate,
        Does::Write(At {
            folder: None,
            path: 0,
        }),
    ),
    (libc::SYS_mkdirat, Does::Make(at(0, 1))),
    (libc::SYS_mknodat, Does::Make(at(0, 1))),
    (libc::SYS_unlinkat, Does::Remove(at(0, 1))),
    (libc::SYS_symlinkat, Does::Make(at(1, 2))),
    (libc::SYS_linkat, Does::Link(at(0, 1), at(2, 3))),
    (libc::SYS_renameat2, Does::Rename(at(0, 1), at(2, 3))),
    (libc::SYS_fchmodat, Does::Write(at(0, 1))),
    (libc::SYS_fchmodat2, Does::Write(at(0, 1))),
    (libc::SYS_fchownat, Does::Write(at(0, 1))),
    (libc::SYS_utimensat, Does::Write(at(0, 1))),
    (
        libc::SYS_setxattr,
        Does::Write(At {
            folder: None,
            path: 0,
        }),
    ),
    (
        libc::SYS_lsetxattr,
        Does::Write(At {
            folder: None,
            path: 0,
        }),
    ),
    (
        libc::SYS_removexattr,
        Does::Write(At {
            folder: None,
            path: 0,
        }),
    ),
    (libc::SYS_connect, Does::Connect),
    (libc::SYS_bind, Does::Bind),
    (libc::SYS_listen, Does::Listen),
    (libc::SYS_sendto, Does::Send),
    (libc::SYS_sendmsg, Does::SendMessage),
    (libc::SYS_sendmmsg, Does::SendMessages),
];

/// The number is the same on every architecture that has it.
const RENAMEAT: (i64, Does) = (libc::SYS_renameat, Does::Rename(at(0, 1), at(2, 3)));

/// The older forms, which newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: [(i64, Does); 14] = [
    (libc::SYS_open, Does::Open(plain(0), 1)),
    (libc::SYS_creat, Does::Create(plain(0))),
    (libc::SYS_mkdir, Does::Make(plain(0))),
    (libc::SYS_rmdir, Does::Remove(plain(0))),
    (libc::SYS_mknod, Does::Make(plain(0))),
    (libc::SYS_unlink, Does::Remove(plain(0))),
    (libc::SYS_symlink, Does::Make(plain(1))),
    (libc::SYS_link, Does::Link(plain(0), plain(1))),
    (libc::SYS_rename, Does::Rename(plain(0), plain(1))),
    (libc::SYS_chmod, Does::Write(plain(0))),
    (libc::SYS_chown, Does::Write(plain(0))),
    (libc::SYS_lchown, Does::Write(plain(0))),
    (libc::SYS_utimes, Does::Write(plain(0))),
    (libc::SYS_utime, Does::Write(plain(0))),
];

#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: [(i64, Does); 0] = [];

/// As if the kernel did not have it: what goes through its queues cannot be seen. A sandbox refuses it, too.
const UNSEEN: [i64; 3] = [
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

fn table() -> impl Iterator<Item = &'static (i64, Does)> {
    CALLS.iter().chain([&RENAMEAT]).chain(&OLD_CALLS)
}

/// Makes this process and its descendants stop at the calls of the table.
pub(super) fn stop_at() -> Result<(), seccompiler::Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let absent = UNSEEN.iter().map(|call| (*call, Vec::new())).collect();
    let unknown = SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
    let stops = table().map(|(call, _)| (*call, Vec::new())).collect();
    for (calls, action) in [(absent, unknown), (stops, SeccompAction::Trace(0))] {
        let filter = SeccompFilter::new(calls, SeccompAction::Allow, action, arch)?;
        let program: BpfProgram = filter.try_into()?;
        seccompiler::apply_filter(&program)?;
    }
    Ok(())
}

impl Call {
    /// What the call uses, if it succeeds.
    pub(super) fn uses(&self, tracee: &Tracee) -> Vec<Use> {
        let Some((_, does)) = table().find(|(number, _)| *number == self.number) else {
            return Vec::new();
        };
        let path = |at: At| {
            let folder = at.folder.map(|index| self.args[index]);
            tracee.path(folder, self.args[at.path])
        };
        let one = |found: Option<Use>| found.into_iter().collect();
        match *does {
            Does::Open(at, flags) => one(path(at).and_then(|path| opened(path, self.args[flags]))),
            Does::OpenHow(at, how) => {
                let flags = tracee.number(self.args[how]);
                one(path(at)
                    .zip(flags)
                    .and_then(|(path, flags)| opened(path, flags)))
            }
            Does::Run(at) => path(at).map(run).unwrap_or_default(),
            Does::Create(at) => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                one(path(at).and_then(|path| opened(path, flags.unsigned_abs().into())))
            }
            Does::Make(at) => one(path(at).and_then(made)),
            Does::Remove(at) => one(path(at).filter(|path| is_entry(path)).map(Use::Change)),
            Does::Rename(from, to) => match (path(from), path(to)) {
                (Some(from), Some(to)) if is_entry(&from) => {
                    vec![Use::Change(from), Use::Change(to)]
                }
                _ => Vec::new(),
            },
            Does::Link(from, to) => match (path(from), path(to).and_then(made)) {
                (Some(from), Some(to)) if is_entry(&from) => vec![Use::Read(from), to],
                _ => Vec::new(),
            },
            Does::Write(at) => one(path(at).filter(|path| path.exists()).map(Use::Write)),
            Does::Connect => one(sockets::connect(tracee, self.args)),
            Does::Bind => one(sockets::bind(tracee, self.args)),
            Does::Listen => one(sockets::listen(tracee, self.args)),
            Does::Send => one(sockets::send(tracee, self.args)),
            Does::SendMessage => one(sockets::send_message(tracee, self.args)),
            Does::SendMessages => sockets::send_messages(tracee, self.args),
        }
    }
}

/// `None` if the call will fail because there is nothing, as when a program searches several folders.
fn opened(path: PathBuf, flags: u64) -> Option<Use> {
    let has = |flag: i32| flags & u64::from(flag.unsigned_abs()) == u64::from(flag.unsigned_abs());
    // Such a descriptor reads nothing. What is opened below it has a path of its own.
    if has(libc::O_PATH) {
        return None;
    }
    let accesses = u64::from(libc::O_ACCMODE.unsigned_abs());
    let writes = flags & accesses != 0 || has(libc::O_TRUNC);
    if has(libc::O_TMPFILE) {
        return path.is_dir().then(|| Use::Change(path.join("unnamed")));
    }
    match path.exists() {
        true if writes => Some(Use::Write(path)),
        true => Some(Use::Read(path)),
        false if has(libc::O_CREAT) => made(path),
        false => None,
    }
}

/// `None` if the call will fail: the entry is there already, or there is no folder for it.
fn made(path: PathBuf) -> Option<Use> {
    let can_be_made = !is_entry(&path) && path.parent()?.is_dir();
    can_be_made.then_some(Use::Change(path))
}

fn is_entry(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// A program, and the interpreter that its first line names: the kernel opens that one without a call.
fn run(path: PathBuf) -> Vec<Use> {
    if !path.is_file() {
        return Vec::new();
    }
    let interpreter = interpreter(&path).map(Use::Read);
    std::iter::once(Use::Read(path))
        .chain(interpreter)
        .collect()
}

fn interpreter(program: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(program)
        .ok()?
        .take(256)
        .read_to_end(&mut start)
        .ok()?;
    let line = start
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let words = line.split(|byte| byte.is_ascii_whitespace());
    let name = words.into_iter().find(|word| !word.is_empty())?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(name))).filter(|path| path.is_absolute())
}
