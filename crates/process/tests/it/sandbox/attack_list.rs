//! The list of attacks. Each prints `GOT` if it gets through. Each must get through without a sandbox, so that it is known to
//! be one, and must not get through with one of either kind.

/// When an attack works without a sandbox.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Works {
    Always,
    /// Only root may do it.
    ForRoot,
    /// Not on every machine: it needs a kernel module, or is refused by other settings.
    Sometimes,
}
use Works::{Always, ForRoot, Sometimes};

pub(super) const FILES: [(&str, Works, &str); 26] = [
    ("reads a file", Always, "cat $OUTSIDE/secret && echo GOT"),
    ("lists a folder", Always, "ls $OUTSIDE/ && echo GOT"),
    (
        "leaves its folder",
        Always,
        "cat $GRANTED/../${OUTSIDE##*/}/secret && echo GOT",
    ),
    (
        "follows its own link",
        Always,
        "rm -f s; ln -s $OUTSIDE/secret s && cat s && echo GOT",
    ),
    (
        "makes a hard link",
        Always,
        "rm -f h; ln $OUTSIDE/secret h && cat h && echo GOT",
    ),
    (
        "moves a file in",
        Always,
        "mv $OUTSIDE/secret m && echo GOT && mv m $OUTSIDE/secret",
    ),
    (
        "uses its own root",
        Always,
        "cat /proc/self/root$OUTSIDE/secret && echo GOT",
    ),
    (
        "uses the root of its parent",
        Always,
        "cat /proc/$PPID/root$OUTSIDE/secret && echo GOT",
    ),
    (
        "uses the root of process 1",
        Sometimes,
        "cat /proc/1/root$OUTSIDE/secret && echo GOT",
    ),
    (
        "uses the folder of another",
        Always,
        "ls /proc/$GATEWAY/cwd/ && echo GOT",
    ),
    (
        "reads a password file",
        ForRoot,
        "cat /etc/shadow && echo GOT",
    ),
    (
        "creates a file",
        Always,
        "echo x > $OUTSIDE/new && echo GOT; rm -f $OUTSIDE/new",
    ),
    (
        "appends to a file",
        Always,
        "echo x >> $OUTSIDE/secret && echo GOT",
    ),
    (
        "truncates a file",
        Always,
        "perl -e 'truncate(\"$ENV{OUTSIDE}/secret\", 5) and print qq(GOT\\n)'",
    ),
    (
        "creates a folder",
        Always,
        "mkdir $OUTSIDE/d && echo GOT && rmdir $OUTSIDE/d",
    ),
    (
        "changes permissions",
        Always,
        "chmod 600 $OUTSIDE/secret && echo GOT",
    ),
    (
        "changes times",
        Always,
        "touch -d 2001-01-01 -c $OUTSIDE/secret && [ -n \"$(find $OUTSIDE/secret ! -newermt 2002-01-01)\" ] && echo GOT; touch $OUTSIDE/secret",
    ),
    (
        "writes to the system",
        ForRoot,
        ": > /usr/lib/callgate-test && echo GOT && rm /usr/lib/callgate-test",
    ),
    (
        "configures the kernel",
        ForRoot,
        "(: >> /proc/sys/vm/swappiness) && echo GOT",
    ),
    (
        "mounts",
        ForRoot,
        "perl -e '($n, $t) = (\"none\", \"tmpfs\"); $g = $ENV{GRANTED}; syscall(165, $n, $g, $t, 0, 0) == 0 and print qq(GOT\\n)'; umount $GRANTED",
    ),
    (
        "changes its root",
        ForRoot,
        "perl -e 'chroot(\".\") and print qq(GOT\\n)'",
    ),
    (
        "makes a device",
        ForRoot,
        "mknod dev b 7 0 && echo GOT; rm -f dev",
    ),
    (
        "opens by handle",
        ForRoot,
        "perl -e '$h = pack(\"Ii\", 128, 0) . chr(0) x 128; $m = pack(\"i\", 0); syscall(303, -100, \"$ENV{OUTSIDE}/secret\", $h, $m, 0) == 0 or exit; opendir(D, $ENV{OUTSIDE}); syscall(304, fileno(D), $h, 0) >= 0 and print qq(GOT\\n)'",
    ),
    (
        "writes to its starter's program",
        Sometimes,
        "(: >> /proc/$PPID/exe) && echo GOT",
    ),
    (
        "leaves its group and its starter",
        Always,
        "setsid -w sh -c '(setsid cat $OUTSIDE/secret &)' | grep . && echo GOT",
    ),
    (
        "runs a program from memory",
        Always,
        "perl -e '$n = qq(x\\0); $f = syscall(319, $n, 0); open(M, qq(>&=$f)); binmode M; open(C, q(<), q(/bin/cat)); binmode C; local $/; print M <C>; M->flush; \
         $c = qq(cat\\0); $s = qq($ENV{OUTSIDE}/secret\\0); $a = pack(q(PPQ), $c, $s, 0); $e = pack(q(Q), 0); $p = qq(\\0); syscall(322, $f, $p, $a, $e, 0x1000)' | grep . && echo GOT",
    ),
];

pub(super) const PROCESSES: [(&str, Works, &str); 24] = [
    (
        "reads another's command line",
        Always,
        "tr '\\0' ' ' < /proc/$VICTIM/cmdline | grep sleep && echo GOT",
    ),
    (
        "reads another's environment",
        Always,
        "tr '\\0' ' ' < /proc/$VICTIM/environ | grep PATH && echo GOT",
    ),
    (
        "reads its starter's environment",
        Always,
        "tr '\\0' ' ' < /proc/$PPID/environ | grep PATH && echo GOT",
    ),
    (
        "reads its starter's program",
        Always,
        "head -c 4 /proc/$PPID/exe && echo GOT",
    ),
    (
        "reads another's memory map",
        Always,
        "cat /proc/$VICTIM/maps && echo GOT",
    ),
    (
        "traces another",
        Always,
        "perl -e 'syscall(101, 0x4206, $ENV{VICTIM}+0, 0, 0) == 0 and print qq(GOT\\n)'",
    ),
    (
        "traces its starter",
        Always,
        "perl -e 'syscall(101, 0x4206, getppid()+0, 0, 0) == 0 and print qq(GOT\\n)'",
    ),
    (
        "reads another's memory",
        Always,
        "perl -e '($a) = map { hex } `cat /proc/$ENV{VICTIM}/maps` =~ /^(\\w+)/ or $a = 0x400000; $b = chr(0) x 8; $l = pack(\"PQ\", $b, 8); $r = pack(\"QQ\", $a, 8); syscall(310, $ENV{VICTIM}+0, $l, 1, $r, 1, 0) >= 0 and print qq(GOT\\n)'",
    ),
    (
        "opens another's memory",
        Always,
        "perl -e 'open(M, q(<), qq(/proc/$ENV{VICTIM}/mem)) and print qq(GOT\\n)'",
    ),
    (
        "opens the gateway's memory",
        Always,
        "perl -e 'open(M, q(<), qq(/proc/$ENV{GATEWAY}/mem)) and print qq(GOT\\n)'",
    ),
    (
        "reads the gateway's environment",
        Always,
        "tr '\\0' ' ' < /proc/$GATEWAY/environ | grep PATH && echo GOT",
    ),
    (
        "handles its page faults",
        ForRoot,
        "perl -e 'syscall(323, 0) >= 0 and print qq(GOT\\n)'",
    ),
    (
        "keeps a key",
        Sometimes,
        "perl -e '$t = q(user); $n = q(callgate-test); $v = q(x); syscall(248, $t, $n, $v, 1, -2) >= 0 and print qq(GOT\\n)'",
    ),
    (
        "makes a time namespace",
        ForRoot,
        "perl -e 'syscall(272, 0x80) == 0 and print qq(GOT\\n)'",
    ),
    (
        "takes another's descriptor",
        Always,
        "perl -e '$p = syscall(434, $ENV{VICTIM}+0, 0); $p >= 0 and syscall(438, $p, 0, 0) >= 0 and print qq(GOT\\n)'",
    ),
    ("signals another", Always, "kill -CONT $VICTIM && echo GOT"),
    (
        "signals the gateway",
        Always,
        "kill -CONT $GATEWAY && echo GOT",
    ),
    (
        "limits another",
        Always,
        "perl -e '$l = pack(\"QQ\", 5000, 5000); syscall(302, $ENV{VICTIM}+0, 7, $l, 0) == 0 and print qq(GOT\\n)'",
    ),
    (
        "slows another down",
        Always,
        "perl -e 'setpriority(0, $ENV{VICTIM}, 1) and print qq(GOT\\n)'",
    ),
    (
        "makes a user namespace",
        Sometimes,
        "perl -e 'syscall(272, 0x10000000) == 0 and print qq(GOT\\n)'",
    ),
    (
        "clones into a user namespace",
        Sometimes,
        "perl -e '$p = syscall(56, 0x10000011, 0, 0, 0, 0); exit if $p == 0; $p > 0 and print qq(GOT\\n)'",
    ),
    (
        "asks for a keyring",
        Sometimes,
        "perl -e 'syscall(250, 0, -3, 1) >= 0 and print qq(GOT\\n)'",
    ),
    (
        "types into a terminal",
        Always,
        "perl -e '$c = \"x\"; ioctl(STDIN, 0x5412, $c); $! != 1 and print qq(GOT\\n)'",
    ),
    (
        "makes an io_uring",
        Sometimes,
        "perl -e '$p = chr(0) x 120; syscall(425, 1, $p) >= 0 and print qq(GOT\\n)'",
    ),
];

pub(super) const SOCKETS: [(&str, Works, &str); 12] = [
    (
        "connects to a Unix socket",
        Always,
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, sockaddr_un(\"$ENV{OUTSIDE}/socket\")) and print qq(GOT\\n)'",
    ),
    (
        "connects to an abstract socket",
        Always,
        "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); connect(S, pack(\"Sa*\", AF_UNIX, chr(0) . $ENV{ABSTRACT})) and print qq(GOT\\n)'",
    ),
    (
        "sends raw packets",
        ForRoot,
        "perl -MSocket -e 'socket(S, AF_INET, SOCK_RAW, 1) and print qq(GOT\\n)'",
    ),
    (
        "sends raw frames",
        ForRoot,
        "perl -e 'socket(S, 17, 3, 0) and print qq(GOT\\n)'",
    ),
    (
        "opens a netlink socket",
        Always,
        "perl -e 'socket(S, 16, 3, 0) and print qq(GOT\\n)'",
    ),
    (
        "opens a vsock",
        Sometimes,
        "perl -e 'socket(S, 40, 1, 0) and print qq(GOT\\n)'",
    ),
    (
        "opens an SCTP socket",
        Sometimes,
        "perl -e 'socket(S, 2, 1, 132) and print qq(GOT\\n)'",
    ),
    (
        "opens a DCCP socket",
        Sometimes,
        "perl -e 'socket(S, 2, 6, 33) and print qq(GOT\\n)'",
    ),
    (
        "opens a pair of another family",
        Sometimes,
        "perl -e 'socketpair(A, B, 30, 1, 0) and print qq(GOT\\n)'",
    ),
    (
        "opens a crypto socket",
        Sometimes,
        "perl -e 'socket(S, 38, 5, 0) and print qq(GOT\\n)'",
    ),
    (
        "opens an XDP socket",
        Sometimes,
        "perl -e 'socket(S, 44, 3, 0) and print qq(GOT\\n)'",
    ),
    (
        "opens an old packet socket",
        Sometimes,
        "perl -e 'socket(S, 2, 10, 0) and print qq(GOT\\n)'",
    ),
];
