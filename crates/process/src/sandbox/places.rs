//! The system's own files, which every sandbox can read: programs, libraries, and the settings that programs need to run.

/// Folders of programs and libraries. On many systems some are links into `/usr`.
pub(super) const FOLDERS: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    // Runtimes count processors here.
    "/sys/devices/system/cpu",
];

/// Not all of `/etc`: it holds secrets, which root can read also without capabilities.
pub(super) const SETTINGS: [&str; 38] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/inputrc",
    "/etc/ld-musl-aarch64.path",
    "/etc/ld-musl-x86_64.path",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/cert.pem",
    "/etc/pki/tls/certs",
    "/etc/pki/tls/openssl.cnf",
    "/etc/protocols",
    "/etc/python3",
    "/etc/rpc",
    "/etc/services",
    "/etc/ssl/cert.pem",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
    "/etc/xattr.conf",
    "/etc/xml",
];

/// Names of hosts, which a sandbox with a network of its own replaces.
pub(super) const HOST_NAMES: [&str; 2] = ["/etc/hosts", "/etc/resolv.conf"];

/// Devices that hold no data of others.
pub(super) const DEVICES: [&str; 6] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// What a sandbox that shares the system's `/proc` reads there: nothing about other processes.
#[cfg(target_os = "linux")]
pub(super) const PROC: [&str; 12] = [
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
    "/proc/version_signature",
    "/proc/vmstat",
    "/proc/sys/kernel",
    "/proc/sys/vm",
];
