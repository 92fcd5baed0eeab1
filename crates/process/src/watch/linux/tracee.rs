//! A stopped thread, read through `/proc`: its system call, its memory, its folder and its descriptors.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::calls::Call;

/// The longest path that the kernel takes.
const PATH_BYTES: usize = 4096;

/// How much is read at once: no more than what is surely in one page with the address.
const STEP: usize = 256;

#[derive(Debug)]
pub(super) struct Tracee {
    thread: i32,
}

impl Tracee {
    pub(super) fn new(thread: i32) -> Self {
        Self { thread }
    }

    fn proc(&self, what: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/{what}", self.thread))
    }

    /// The system call in which the thread is stopped. The file has the same form on every architecture.
    pub(super) fn call(&self) -> Option<Call> {
        let text = fs::read_to_string(self.proc("syscall")).ok()?;
        let mut words = text.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let mut args = [0; 6];
        for arg in &mut args {
            *arg = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
        }
        Some(Call { number, args })
    }

    /// `length` bytes of its memory, fewer where they end.
    pub(super) fn bytes(&self, address: u64, length: usize) -> Option<Vec<u8>> {
        let memory = File::open(self.proc("mem")).ok()?;
        let mut bytes = vec![0; length];
        let read = memory.read_at(&mut bytes, address).ok()?;
        bytes.truncate(read);
        Some(bytes)
    }

    pub(super) fn number(&self, address: u64) -> Option<u64> {
        let bytes = self.bytes(address, 8)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }

    /// A text that ends with a zero byte.
    fn text(&self, address: u64) -> Option<OsString> {
        let memory = File::open(self.proc("mem")).ok()?;
        let mut text = Vec::new();
        while text.len() < PATH_BYTES {
            let mut bytes = [0; STEP];
            let read = memory
                .read_at(&mut bytes, address + text.len() as u64)
                .ok()?;
            match bytes[..read].iter().position(|byte| *byte == 0) {
                Some(end) => {
                    text.extend(&bytes[..end]);
                    return Some(OsString::from_vec(text));
                }
                None if read == 0 => return None,
                None => text.extend(&bytes[..read]),
            }
        }
        None
    }

    /// The absolute path that the thread names; `folder` is the descriptor that a relative one begins at. An empty path is the
    /// descriptor itself.
    pub(super) fn path(&self, folder: Option<u64>, address: u64) -> Option<PathBuf> {
        let named = PathBuf::from(self.text(address)?);
        if named.is_absolute() {
            return plain(&self.own(&named));
        }
        let base = match folder.map(descriptor) {
            Some(number) if number != libc::AT_FDCWD => {
                fs::read_link(self.proc(&format!("fd/{number}"))).ok()
            }
            Some(_) | None => self.folder(),
        };
        // Pipes and the like are called `pipe:[1]`.
        let base = base.filter(|base| base.is_absolute())?;
        match named.as_os_str().is_empty() {
            true => Some(base),
            false => plain(&base.join(named)),
        }
    }

    /// A path that means the thread itself, by the number of the thread: here, it would mean this process.
    fn own(&self, named: &Path) -> PathBuf {
        for (myself, what) in [
            ("/proc/self", ""),
            ("/proc/thread-self", ""),
            ("/dev/fd", "fd"),
            ("/dev/stdin", "fd/0"),
            ("/dev/stdout", "fd/1"),
            ("/dev/stderr", "fd/2"),
        ] {
            if let Ok(rest) = named.strip_prefix(myself) {
                let own = self.proc(what);
                return match rest.as_os_str().is_empty() {
                    true => own,
                    false => own.join(rest),
                };
            }
        }
        named.to_owned()
    }

    /// Its working folder.
    pub(super) fn folder(&self) -> Option<PathBuf> {
        fs::read_link(self.proc("cwd")).ok()
    }

    /// A copy of one of its descriptors.
    pub(super) fn descriptor(&self, number: u64) -> Option<OwnedFd> {
        let status = fs::read_to_string(self.proc("status")).ok()?;
        let process = status
            .lines()
            .find_map(|line| line.strip_prefix("Tgid:"))?
            .trim();
        let process = Pid::from_raw(process.parse().ok()?)?;
        let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
        pidfd_getfd(process, descriptor(number), PidfdGetfdFlags::empty()).ok()
    }
}

/// A descriptor as an argument: the lower half of the register.
fn descriptor(argument: u64) -> i32 {
    (argument as u32).cast_signed()
}

/// The path without `.` and `..`. Where `..` follows a link, the system knows what it means.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain = plain.canonicalize().ok()?;
                plain.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                plain.push(component);
            }
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_made_plain_as_links_lead() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("a/b")).unwrap();
        std::os::unix::fs::symlink(root.join("a/b"), root.join("link")).unwrap();
        let cases = [
            ("x/./y", Some("x/y")),
            ("a/../c", Some("c")),
            ("link/../c", Some("a/c")),
            ("missing/../c", None),
        ];
        for (written, expected) in cases {
            let expected = expected.map(|path| root.join(path));
            assert_eq!(plain(&root.join(written)), expected, "{written}");
        }
    }
}
