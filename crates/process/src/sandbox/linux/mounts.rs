//! The mounts of this process, from `/proc/self/mountinfo`.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;

/// Mount points with the flags that a user namespace may not take off again.
#[derive(Debug)]
pub(super) struct Mounts(Vec<(PathBuf, MountFlags)>);

impl Mounts {
    pub(super) fn read() -> io::Result<Self> {
        let text = fs::read("/proc/self/mountinfo")?;
        Ok(Self(
            text.split(|byte| *byte == b'\n')
                .filter_map(parse)
                .collect(),
        ))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Path, MountFlags)> {
        self.0.iter().map(|(path, flags)| (path.as_path(), *flags))
    }
}

/// Reads `ID PARENT DEVICE ROOT MOUNT-POINT OPTIONS …`.
fn parse(line: &[u8]) -> Option<(PathBuf, MountFlags)> {
    let mut fields = line.split(|byte| *byte == b' ').skip(4);
    let path = unescape(fields.next()?);
    let mut flags = MountFlags::empty();
    for option in fields.next()?.split(|byte| *byte == b',') {
        flags |= match option {
            b"ro" => MountFlags::RDONLY,
            b"nosuid" => MountFlags::NOSUID,
            b"nodev" => MountFlags::NODEV,
            b"noexec" => MountFlags::NOEXEC,
            _ => MountFlags::empty(),
        };
    }
    Some((path, flags))
}

/// Spaces and the like are written as `\040`.
fn unescape(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let code = match (first, after.get(..3)) {
            (b'\\', Some(digits)) => std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| u8::from_str_radix(digits, 8).ok()),
            _ => None,
        };
        match code {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_and_flags_are_read() {
        let line = br"36 35 98:0 /mnt1 /mnt/a\040b ro,nosuid,noatime master:1 - ext3 /dev/root rw";
        let expected = (
            PathBuf::from("/mnt/a b"),
            MountFlags::RDONLY | MountFlags::NOSUID,
        );
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse(b""), None);
    }
}
