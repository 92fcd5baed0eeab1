//! What programs do every day works in a sandbox.

use std::path::PathBuf;
use std::process::Command;

use callgate_process::sandbox::{FileAccess, Mode, Namespaces};

use super::{KINDS, Machine, grant, run};

/// Scripts that print `fine` at their end, for both kinds of sandboxes.
const EVERYWHERE: [(&str, &str); 8] = [
    (
        "shell",
        "set -e; a=$(echo one | tr o 0 | cat); [ $a = 0ne ]; (exit 3) || [ $? = 3 ]; echo fine",
    ),
    (
        "files",
        "set -e; echo a > f; echo b >> f; mkdir -p d/e; mv f d/e/g; ln -s d/e/g l; grep -q b l; cp l c; rm -r d; echo fine",
    ),
    (
        "temporary files",
        "set -e; t=$(mktemp); echo x > $t; cat $t > /dev/null; rm $t; echo fine",
    ),
    (
        "home",
        "set -e; [ -d \"$HOME\" ]; echo x > $HOME/.settings; echo fine",
    ),
    (
        "devices",
        "set -e; head -c 4 /dev/urandom > /dev/null; head -c 4 /dev/zero | wc -c > /dev/null; echo x > /dev/stderr; echo x | cat /dev/stdin > /dev/null; echo fine",
    ),
    (
        "signals",
        "set -e; sleep 100 & kill $!; wait $! || true; trap 'echo fine' USR1; kill -USR1 $$; sleep 0.01",
    ),
    (
        "git",
        "set -e; git init -q r; cd r; echo x > f; git add f; git -c user.name=a -c user.email=a@b commit -qm m; git log --oneline | grep -q m; git gc -q; git clone -q . ../clone; echo fine",
    ),
    (
        "processes",
        "set -e; perl -e 'for (1..20) { fork or exit 0 } 1 while wait > 0; print qq(fine\\n)'",
    ),
];

/// What needs namespaces, because it is shared with other programs elsewhere.
const WITH_NAMESPACES: [(&str, &str); 4] = [
    (
        "own processes",
        "set -e; [ -r /proc/$$/status ]; ls /proc/self/fd > /dev/null; [ $(ls -d /proc/[0-9]* | wc -l) -lt 10 ]; echo fine",
    ),
    (
        "local sockets",
        "set -e; perl -MSocket -e 'socket(L, AF_INET, SOCK_STREAM, 0); bind(L, sockaddr_in(0, INADDR_LOOPBACK)) or die; listen(L, 5) or die; ($p) = sockaddr_in(getsockname(L)); if (!fork) { socket(C, AF_INET, SOCK_STREAM, 0); connect(C, sockaddr_in($p, inet_aton(q(localhost)))) or die $!; syswrite(C, qq(fine\\n)); exit } accept(S, L); print <S>'",
    ),
    (
        "Unix sockets",
        "set -e; perl -MSocket -e 'socket(L, AF_UNIX, SOCK_STREAM, 0); bind(L, sockaddr_un(q(sock))) or die; listen(L, 5); socket(C, AF_UNIX, SOCK_STREAM, 0); connect(C, sockaddr_un(q(sock))) or die; print qq(fine\\n)'",
    ),
    (
        "terminals",
        "set -e; perl -e 'open(M, q(+<), q(/dev/ptmx)) or die $!; $b = pack(q(i), 0); ioctl(M, 0x40045431, $b) or die $!; $n = pack(q(I), 0); ioctl(M, 0x80045430, $n) or die $!; $n = unpack(q(I), $n); open(S, q(+<), qq(/dev/pts/$n)) or die $!; -t S and print qq(fine\\n)'",
    ),
];

async fn fine(machine: &Machine, kind: Namespaces, scripts: &[(&str, &str)]) {
    for (name, script) in scripts {
        for file in std::fs::read_dir(machine.granted()).unwrap() {
            let path = file.unwrap().path();
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_dir_all(&path);
        }
        let mut sandbox = machine.sandbox(kind);
        // `required` without namespaces refuses `chmod`, which git cannot do without.
        if kind == Namespaces::Off {
            sandbox.mode = Mode::BestEffort;
        }
        let mut spec = machine.spec(script, Some(sandbox));
        spec.env
            .push(("HOME".to_owned(), "/srv/of-no-account".to_owned()));
        let outcome = run(&spec).await;
        assert!(
            outcome.stdout.ends_with("fine\n"),
            "{name}, {kind:?}: {outcome:?}"
        );
    }
}

#[tokio::test]
async fn everyday_work_is_possible_in_a_sandbox() {
    let machine = Machine::new();
    for kind in KINDS {
        fine(&machine, kind, &EVERYWHERE).await;
    }
}

#[tokio::test]
async fn everyday_work_with_sockets_and_terminals_is_possible_in_namespaces() {
    fine(&Machine::new(), Namespaces::WhereAllowed, &WITH_NAMESPACES).await;
}

/// The program's own path and the folder it is installed in, if it is installed.
fn installed(command: &str, question: &[&str]) -> Option<(PathBuf, PathBuf)> {
    let output = Command::new(command).args(question).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut lines = text.lines().map(PathBuf::from);
    Some((lines.next()?, lines.next()?))
}

#[tokio::test]
async fn interpreters_run_in_a_sandbox() {
    let python = (
        installed(
            "python3",
            &[
                "-c",
                "import sys; print(sys.executable); print(sys.base_prefix)",
            ],
        ),
        "import threading, tempfile, subprocess, json, ssl, os\n\
         t = threading.Thread(target=lambda: None); t.start(); t.join()\n\
         tempfile.TemporaryFile().write(b'x')\n\
         assert subprocess.check_output(['echo', 'x']) == b'x\\n'\n\
         print('fine')",
        "-c",
    );
    let node = (
        installed(
            "node",
            &[
                "-e",
                "console.log(process.execPath); console.log(process.execPath)",
            ],
        ),
        "const {Worker} = require('worker_threads'); const cp = require('child_process'); const fs = require('fs');\
         const os = require('os'); fs.writeFileSync(os.tmpdir() + '/x', 'x'); cp.execFileSync('true');\
         new Worker('1', {eval: true}).on('exit', () => fs.promises.readFile(os.tmpdir() + '/x').then(() => console.log('fine')))",
        "-e",
    );
    let machine = Machine::new();
    for (program, text, option) in [python, node] {
        let Some((path, folder)) = program else {
            eprintln!("not installed, and so not tested");
            continue;
        };
        for kind in KINDS {
            let mut sandbox = machine.sandbox(kind);
            sandbox.files.push(grant(&folder, FileAccess::Read));
            let mut spec = machine.spec("", Some(sandbox));
            spec.command = path.to_str().unwrap().to_owned();
            spec.args = vec![option.to_owned(), text.to_owned()];
            let outcome = run(&spec).await;
            assert_eq!(outcome.stdout, "fine\n", "{kind:?}: {outcome:?}");
        }
    }
}
