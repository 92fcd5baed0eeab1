//! No record, no call: how the gateway behaves when the log cannot grow.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use callgate_testkit::{StdioHost, wait_until};
use rustix::process::Signal;

use crate::evidence::{
    COUNTER, NO_RECORD, all_records, assert_done, assert_sound, call_line, ended, is_success,
    ledger, record_of, records, run, segments, signal, stdout,
};
use crate::setup::{Bed, VERSION};

/// More calls than any log here has room for.
const MANY: u64 = 600;

/// What became of a row of calls.
#[derive(Debug, Default)]
struct Tried {
    done: Vec<String>,
    refused: Vec<String>,
}

/// Makes calls of about two KiB on record each, until one is refused and some more after it.
fn call_until_refused(host: &mut StdioHost, name: &str) -> Tried {
    let mut tried = Tried::default();
    let padding = "p".repeat(1000);
    for id in 0..MANY {
        let key = format!("{name}{id}");
        let arguments = format!(r#"{{"key":"{key}","padding":"{padding}"}}"#);
        let answer = host
            .request(&call_line(id, "effect", &arguments))
            .expect("the gateway lives and answers");
        if is_success(&answer) {
            tried.done.push(key);
        } else {
            assert!(answer.contains(NO_RECORD), "{answer}");
            assert!(answer.contains(r#""isError":true"#), "{answer}");
            tried.refused.push(key);
        }
        if tried.refused.len() == 20 {
            return tried;
        }
    }
    panic!("{MANY} calls were not too much for the log");
}

/// The command with a limit on the size of every file that it writes.
fn limited(command: &Command, kib: u32) -> Command {
    let mut limited = Command::new("bash");
    limited
        .arg("-c")
        .arg(format!(r#"ulimit -f {kib}; exec "$0" "$@""#))
        .arg(command.get_program())
        .args(command.get_args());
    limited
}

/// A gateway whose handshake is done, started with that command.
fn ready(command: &mut Command) -> StdioHost {
    let mut host = StdioHost::spawn(command).expect("it starts");
    host.initialize(VERSION).expect("the gateway shakes hands");
    host
}

#[test]
fn a_log_at_its_size_limit_refuses_calls_without_ending_the_gateway() {
    let bed = Bed::new(COUNTER);
    let mut host = ready(&mut limited(&bed.command(["stdio"]), 64));
    let tried = call_until_refused(&mut host, "k");
    assert!(!tried.done.is_empty(), "the log had room at first");
    assert_eq!(ledger(&bed), tried.done, "a refused call had an effect");
    // The index outgrows the limit sooner or later, and then this is what the system sends.
    signal(host.pid(), Signal::XFSZ);
    host.request(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#)
        .expect("it still answers");
    host.close(Duration::from_secs(10)).expect("it ends on EOF");
    let records = records(&bed);
    for key in &tried.done {
        let record = record_of(&records, key).expect("what was done is on record");
        let status = record["status"].as_str();
        // The end of the very last call may have had no room; then its status is unknown.
        let is_last = tried.done.last() == Some(key);
        assert!(
            status == Some("success") || (is_last && status == Some("unknown")),
            "{record}"
        );
    }
    for key in &tried.refused {
        // A refusal is on record once there is room for it.
        let status = record_of(&records, key).map(|record| &record["status"]);
        assert!(
            status.is_none_or(|status| *status == "rejected"),
            "`{key}` was never sent: {status:?}"
        );
    }
    assert_sound(&bed);
    let next = bed.stdio_ready().call(1, "n__effect", r#"{"key":"next"}"#);
    assert_done(next);
    println!("{} calls done, then refused", tried.done.len());
}

#[test]
fn on_failure_allow_forwards_calls_when_the_log_is_full() {
    let bed = Bed::new(&format!("{COUNTER}activity: {{on_failure: allow}}\n"));
    let mut host = ready(&mut limited(&bed.command(["stdio"]), 64));
    let padding = "p".repeat(1000);
    for id in 0..100 {
        let arguments = format!(r#"{{"key":"k{id}","padding":"{padding}"}}"#);
        let answer = host.call(id, "n__effect", &arguments);
        assert_done(answer);
    }
    assert_eq!(ledger(&bed).len(), 100);
    host.close(Duration::from_secs(10)).expect("it ends on EOF");
    let kept = records(&bed).len();
    assert!((1..100).contains(&kept), "{kept} on record");
    assert_sound(&bed);
}

#[test]
fn durability_power_forwards_and_records_calls() {
    let bed = Bed::new(&format!("{COUNTER}activity: {{durability: power}}\n"));
    let mut host = bed.stdio_ready();
    for id in 0..20 {
        let line = call_line(id, "effect", &format!(r#"{{"key":"k{id}"}}"#));
        host.send(&line).expect("the gateway reads");
    }
    for _ in 0..20 {
        let line = host.recv_where(|frame| frame.result.is_some());
        assert_done(line);
    }
    signal(host.pid(), Signal::KILL);
    host.wait(Duration::from_secs(5)).expect("it is dead");
    let records = records(&bed);
    assert_eq!(records.len(), 20);
    assert!(records.iter().all(|record| record["status"] == "success"));
    assert_sound(&bed);
}

#[test]
fn calls_are_refused_when_the_log_folder_is_deleted() {
    let bed = Bed::new(COUNTER);
    let mut host = bed.stdio_ready();
    let first = host.call(1, "n__effect", r#"{"key":"before"}"#);
    assert_done(first);
    fs::remove_dir_all(bed.path("data/activity")).expect("it is ours");
    let answer = host
        .call(2, "n__effect", r#"{"key":"after"}"#)
        .expect("it answers");
    assert!(answer.contains(NO_RECORD), "{answer}");
    assert_eq!(ledger(&bed), ["before"]);
    host.close(Duration::from_secs(10)).expect("it ends on EOF");
    let mut next = bed.stdio_ready();
    let answer = next.call(1, "n__effect", r#"{"key":"later"}"#);
    assert_done(answer);
}

#[test]
fn a_deleted_segment_is_noticed_and_calls_continue_in_the_next() {
    let bed = Bed::new(COUNTER);
    let mut host = bed.stdio_ready();
    host.call(1, "n__effect", r#"{"key":"before"}"#)
        .expect("it answers");
    for segment in segments(&bed) {
        fs::remove_file(segment).expect("it is ours");
    }
    let answer = host.call(2, "n__effect", r#"{"key":"after"}"#);
    assert_done(answer);
    host.close(Duration::from_secs(10)).expect("it ends on EOF");
    assert!(record_of(&records(&bed), "after").is_some());
    let verified = run(&bed, &["activity", "verify"]);
    assert_eq!(verified.status.code(), Some(1), "a deletion is found");
}

#[test]
fn folders_made_read_only_while_running_do_not_stop_recording() {
    let bed = Bed::new(COUNTER);
    let mut host = bed.stdio_ready();
    let writer = segments(&bed).pop().expect("a segment is there");
    let folders = [
        writer.parent().expect("it lies in a folder").to_owned(),
        bed.path("data/activity"),
        bed.path("data"),
    ];
    let set = |mode| {
        for folder in &folders {
            fs::set_permissions(folder, fs::Permissions::from_mode(mode)).expect("it is ours");
        }
    };
    set(0o500);
    let answer = host.call(1, "n__effect", r#"{"key":"k"}"#);
    set(0o700);
    assert_done(answer);
    host.close(Duration::from_secs(10)).expect("it ends on EOF");
    assert!(record_of(&records(&bed), "k").is_some());
    assert_sound(&bed);
}

/// A mount namespace with a small file system where the data folder is; gone when dropped.
struct SmallDisk {
    keeper: Child,
}

impl SmallDisk {
    /// Nothing where file systems cannot be mounted, which is said.
    fn mount(at: &Path, options: &str) -> Option<Self> {
        fs::create_dir_all(at).expect("the temporary folder is writable");
        let script = format!("mount -t tmpfs -o {options} none \"$0\" && echo ready && exec cat");
        let keeper = Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .arg(at)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut keeper = match keeper {
            Ok(keeper) => keeper,
            Err(error) => {
                println!("skipped: `unshare` cannot be run: {error}");
                return None;
            }
        };
        let mut said = [0; 6];
        let ready = keeper
            .stdout
            .as_mut()
            .map(|out| std::io::Read::read(out, &mut said));
        if !matches!(ready, Some(Ok(6))) {
            println!("skipped: a file system cannot be mounted here");
            let _ = keeper.wait();
            return None;
        }
        Some(Self { keeper })
    }

    /// The command, inside.
    fn inside(&self, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside
            .arg(format!("--mount=/proc/{}/ns/mnt", self.keeper.id()))
            .arg(command.get_program())
            .args(command.get_args());
        inside
    }

    fn shell(&self, script: &str, at: &Path) {
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(at);
        // A disk that is filled to its end makes the filling fail, as it should.
        let _ = ended(&mut self.inside(&command));
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// Runs the gateway on a disk that is filled, and freed again, while it serves.
fn on_a_full_disk(
    config: &str,
    play: impl FnOnce(&mut StdioHost, &dyn Fn(bool)),
) -> Option<(Bed, Vec<serde_json::Value>)> {
    let bed = Bed::new(config);
    let data = bed.path("data");
    let disk = SmallDisk::mount(&data, "size=8m,mode=0700")?;
    let mut host = ready(&mut disk.inside(&bed.command(["stdio"])));
    let fill = |full: bool| {
        let script = if full {
            "cat /dev/zero > \"$0/filler\""
        } else {
            "rm \"$0/filler\""
        };
        disk.shell(script, &data);
    };
    play(&mut host, &fill);
    host.close(Duration::from_secs(10)).expect("it ends on EOF");
    let verified = ended(&mut disk.inside(&bed.command(["activity", "verify"])));
    stdout(&verified);
    let export = stdout(&ended(
        &mut disk.inside(&bed.command(["activity", "export"])),
    ));
    Some((bed, all_records(&export)))
}

#[test]
fn a_full_disk_refuses_calls_until_there_is_space_again() {
    let mut tried = Tried::default();
    let played = on_a_full_disk(COUNTER, |host, fill| {
        host.call(1, "n__effect", r#"{"key":"before"}"#)
            .expect("it answers");
        fill(true);
        tried = call_until_refused(host, "k");
        fill(false);
        let answer = host.call(MANY, "n__effect", r#"{"key":"again"}"#);
        assert_done(answer);
    });
    let Some((bed, records)) = played else { return };
    let mut effects = vec!["before".to_owned()];
    effects.append(&mut tried.done.clone());
    effects.push("again".to_owned());
    assert_eq!(ledger(&bed), effects, "a refused call had an effect");
    for effect in &effects {
        let record = record_of(&records, effect).expect("what was done is on record");
        // Room for the ends of calls is set aside, so none was lost.
        assert_eq!(record["status"], "success", "{record}");
    }
    for key in &tried.refused {
        // They waited for room.
        let record = record_of(&records, key).expect("a refusal is on record");
        assert_eq!(record["status"], "rejected", "{record}");
    }
    println!(
        "{} calls done on a full disk, then refused",
        tried.done.len()
    );
}

#[test]
fn a_disk_smaller_than_the_preallocation_still_lets_calls_through() {
    let bed = Bed::new(COUNTER);
    // This file system holds reservations to the limit, too.
    let Some(disk) = SmallDisk::mount(&bed.path("data"), "size=8m,mode=0700") else {
        return;
    };
    let mut host = ready(&mut disk.inside(&limited(&bed.command(["stdio"]), 64)));
    let tried = call_until_refused(&mut host, "k");
    assert!(!tried.done.is_empty(), "the log had room at first");
    assert_eq!(ledger(&bed), tried.done, "a refused call had an effect");
    host.close(Duration::from_secs(10)).expect("it ends on EOF");
    stdout(&ended(
        &mut disk.inside(&bed.command(["activity", "verify"])),
    ));
    println!("{} calls done, then refused", tried.done.len());
}

#[test]
fn on_failure_allow_writes_queued_records_once_space_returns() {
    let config = format!("{COUNTER}activity: {{on_failure: allow}}\n");
    let played = on_a_full_disk(&config, |host, fill| {
        fill(true);
        let padding = "p".repeat(1000);
        for id in 0..MANY {
            let arguments = format!(r#"{{"key":"k{id}","padding":"{padding}"}}"#);
            let answer = host.call(id, "n__effect", &arguments);
            assert_done(answer);
        }
        fill(false);
    });
    let Some((bed, records)) = played else { return };
    assert_eq!(
        ledger(&bed).len(),
        usize::try_from(MANY).expect("a small number")
    );
    for effect in ledger(&bed) {
        let record = record_of(&records, &effect).expect("its record was owed and paid");
        assert_eq!(record["status"], "success", "{record}");
    }
    let allowed = records
        .iter()
        .filter(|record| record["tool"] == "record.allowed_without");
    assert!(
        allowed.count() > 0,
        "that calls went without is on record, too"
    );
}

#[test]
fn a_read_only_data_folder_prevents_the_start() {
    let bed = Bed::new(&COUNTER.replace("--ledger", "--log, '@dir@/upstream.log', --ledger"));
    let Some(disk) = SmallDisk::mount(&bed.path("data"), "ro") else {
        return;
    };
    let mut host = StdioHost::spawn(&mut disk.inside(&bed.command(["stdio"]))).expect("it starts");
    assert!(
        host.initialize(VERSION).is_err(),
        "there is nothing to talk to"
    );
    let status = host.wait(Duration::from_secs(10)).expect("it ends");
    assert_eq!(status.code(), Some(4), "{:?}", host.stderr());
    let told = wait_until(Duration::from_secs(5), || {
        host.stderr()
            .iter()
            .any(|line| line.starts_with("error: ") && line.contains("data"))
    });
    assert!(told, "{:?}", host.stderr());
    assert!(!bed.path("upstream.log").exists(), "a server was started");
}
