//! Watched programs: what they use is reported, and they run as they would otherwise.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use callgate_process::stderr_tail::StderrTail;
use callgate_process::watch::{self, Use};
use callgate_process::{Ending, Process, ProcessSpec};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

use crate::given::{DEADLINE, Mark, spec, wait};

/// A folder for what a program uses, and the report beside it.
struct Place {
    folder: TempDir,
    report: TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            report: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// A shell script that is watched.
    fn spec(&self, script: &str) -> ProcessSpec {
        self.program("sh", &["-c", script])
    }

    fn program(&self, command: &str, args: &[&str]) -> ProcessSpec {
        let plain = spec(command, args);
        let report = self.report.path().join("report");
        let (command, args) =
            watch::command_line(&plain.warden_program, &report, &plain.command, &plain.args);
        ProcessSpec {
            command,
            args,
            cwd: Some(self.path("")),
            ..plain
        }
    }

    /// What was used below the folder.
    fn uses(&self) -> Vec<Use> {
        let all = watch::read_report(&self.report.path().join("report")).unwrap();
        let below = |one: &Use| match one {
            Use::Read(path) | Use::Write(path) | Use::Change(path) | Use::Socket(path) => {
                path.starts_with(self.path(""))
            }
            Use::Connect(_) | Use::Name(_) | Use::Datagram(_) | Use::Listen(_) => true,
            Use::Missed(_) => true,
        };
        all.into_iter().filter(below).collect()
    }
}

async fn run(spec: &ProcessSpec) -> (Ending, String) {
    let mut process = Process::spawn(spec, StderrTail::new()).unwrap();
    drop(process.take_stdin());
    let mut stdout = String::new();
    let mut pipe = process.take_stdout().unwrap();
    tokio::time::timeout(DEADLINE, pipe.read_to_string(&mut stdout))
        .await
        .expect("stdout ends")
        .unwrap();
    (wait(&mut process).await, stdout)
}

#[tokio::test]
async fn files_of_a_watched_program_and_of_its_descendants_are_reported() {
    let place = Place::new();
    fs::create_dir(place.path("listed")).unwrap();
    for name in [
        "read",
        "written",
        "removed",
        "seen-only",
        "renamed",
        "target",
    ] {
        fs::write(place.path(name), "x\n").unwrap();
    }
    symlink(place.path("target"), place.path("link")).unwrap();
    let script = "cat read; echo y >> written; rm removed; test -e seen-only; cat missing 2> /dev/null; \
                  mv renamed new-name; (sh -c 'cat link; ls listed') | cat; \
                  mkdir own && echo z > own/inner && cat own/inner; true";
    let (ending, stdout) = run(&place.spec(script)).await;
    assert_eq!(ending, Ending::Exited { code: 0 });
    assert_eq!(stdout, "x\nx\nz\n");
    let mut uses = place.uses();
    uses.sort();
    let mut expected = vec![
        Use::Read(place.path("read")),
        Use::Read(place.path("link")),
        Use::Read(place.path("target")),
        Use::Read(place.path("listed")),
        Use::Write(place.path("written")),
        Use::Change(place.path("removed")),
        Use::Change(place.path("renamed")),
        Use::Change(place.path("new-name")),
        Use::Change(place.path("own")),
    ];
    expected.sort();
    assert_eq!(uses, expected);
}

#[tokio::test]
async fn a_program_its_interpreter_and_what_links_to_them_are_reported() {
    let place = Place::new();
    symlink("/bin/sh", place.path("shell")).unwrap();
    let script = format!("#!{}\necho ran\n", place.path("shell").display());
    fs::write(place.path("tool"), script).unwrap();
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(place.path("tool"), fs::Permissions::from_mode(0o755)).unwrap();
    let tool = place.path("tool");
    let (ending, stdout) = run(&place.program(tool.to_str().unwrap(), &[])).await;
    assert_eq!(ending, Ending::Exited { code: 0 });
    assert_eq!(stdout, "ran\n");
    let uses = place.uses();
    for expected in [Use::Read(tool), Use::Read(place.path("shell"))] {
        assert!(uses.contains(&expected), "{expected:?} in {uses:?}");
    }
}

#[tokio::test]
async fn connections_packets_names_and_sockets_are_reported() {
    let place = Place::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let _socket = UnixListener::bind(place.path("socket")).unwrap();
    let script = format!(
        r#"
import socket, threading
socket.create_connection(("127.0.0.1", {port})).close()
# Connecting sends nothing; a resolver does it to find its own address.
probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); probe.connect(("127.0.0.1", 443))
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); udp.sendto(b"x", ("127.0.0.1", 9))
asked = bytes([0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]) + b"\x03api\x07example\x03com\0\0\x01\0\x01"
udp.sendto(asked, ("127.0.0.1", 53))
thread = threading.Thread(target=lambda: udp.sendmsg([asked.replace(b"api", b"two")], [], 0, ("127.0.0.1", 53)))
thread.start(); thread.join()
unix = socket.socket(socket.AF_UNIX); unix.connect("{socket}")
own = socket.socket(); own.bind(("127.0.0.1", 0)); own.listen()
print(own.getsockname()[1])
"#,
        port = address.port(),
        socket = place.path("socket").display(),
    );
    fs::write(place.path("talk.py"), script).unwrap();
    let (ending, stdout) = run(&place.program("python3", &["talk.py"])).await;
    assert_eq!(ending, Ending::Exited { code: 0 });
    let own: u16 = stdout.trim().parse().unwrap();
    let uses = place.uses();
    let local = |port: u16| ([127, 0, 0, 1], port).into();
    for expected in [
        Use::Connect(address),
        Use::Datagram(local(9)),
        Use::Name("api.example.com".to_owned()),
        Use::Name("two.example.com".to_owned()),
        Use::Socket(place.path("socket")),
        Use::Listen(local(own)),
    ] {
        assert!(uses.contains(&expected), "{expected:?} in {uses:?}");
    }
    assert!(!uses.contains(&Use::Connect(local(443))), "{uses:?}");
    assert!(!uses.contains(&Use::Datagram(local(53))), "{uses:?}");
}

#[tokio::test]
async fn a_watched_program_keeps_its_exit_code_its_signals_and_its_end() {
    let place = Place::new();
    let (ending, _) = run(&place.spec("exit 7")).await;
    assert_eq!(ending, Ending::Exited { code: 7 });
    let (ending, _) = run(&place.spec("kill -9 $$")).await;
    assert_eq!(ending, Ending::Exited { code: 137 });
    let (ending, stdout) = run(&place.spec("trap 'echo caught' USR1; kill -USR1 $$; exit 3")).await;
    assert_eq!(
        (ending, stdout.as_str()),
        (Ending::Exited { code: 3 }, "caught\n")
    );
    let (ending, _) = run(&place.program("/no/such/program", &[])).await;
    assert!(matches!(ending, Ending::NotStarted { .. }), "{ending:?}");
}

#[tokio::test]
async fn a_watched_program_ends_with_its_descendants_when_it_is_asked_to() {
    let place = Place::new();
    let mark = Mark::new();
    let script = mark.script("trap 'echo asked; exit 5' TERM; sleep MARK & echo ready; wait");
    let mut process = Process::spawn(&place.spec(&script), StderrTail::new()).unwrap();
    let mut stdout = process.take_stdout().unwrap();
    let mut read = vec![0; 6];
    stdout.read_exact(&mut read).await.unwrap();
    assert_eq!(read, b"ready\n");
    let warden = rustix::process::Pid::from_raw(process.warden_pid().unwrap().cast_signed());
    rustix::process::kill_process(warden.unwrap(), rustix::process::Signal::TERM).unwrap();
    let mut rest = String::new();
    tokio::time::timeout(DEADLINE, stdout.read_to_string(&mut rest))
        .await
        .expect("stdout ends")
        .unwrap();
    assert_eq!(rest, "asked\n");
    assert_eq!(wait(&mut process).await, Ending::Exited { code: 5 });
    mark.assert_none_alive();
}
