//! A power cut under `activity.durability: power` loses nothing that was answered, every start works after it, and
//! `activity verify` does not take it for tampering.
//!
//! The gateway is stopped at a random moment and what is on its disk is copied. `CALLGATE_POWER_CUTS` makes that many
//! cuts of an ext4 in a loop device, whose copy has only what reached the device; that needs root. Without the variable
//! the folder itself is copied, as `kill -9` leaves it.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use callgate_testkit::StdioHost;
use callgate_testkit::frame::Frame;
use rustix::process::{Pid, Signal, kill_process};

use crate::evidence::{call_line, is_success, key, records, run, stdout};
use crate::setup::Bed;

/// How many cuts are made of a folder unless `CALLGATE_POWER_CUTS` asks for cuts of a device.
const FOLDER_CUTS: u64 = 4;
/// How many cuts there are of one device, before a new one makes a first start again.
const CUTS_PER_DEVICE: u64 = 20;
/// The longest time under load between two cuts.
const LOAD_US: u64 = 60_000;
const DEVICE_BYTES: u64 = 96 * 1024 * 1024;
/// How long answers may take that were written before the gateway was stopped.
const DRAIN: Duration = Duration::from_millis(20);

const CONFIG: &str = "\
servers: {n: {command: '@counter@', args: [--ledger, '@dir@/ledger', --marker, '@dir@']}}
policy: allow-all
activity: {durability: power}
";

/// An ext4 in a file, mounted as the data folder of a bed.
#[derive(Debug)]
struct Device {
    image: PathBuf,
    mounted_at: PathBuf,
}

impl Device {
    fn fresh(image: PathBuf, bed: &Bed) -> Self {
        let file = fs::File::create(&image).expect("the image is ours");
        file.set_len(DEVICE_BYTES).expect("it is sparse");
        ok(Command::new("mkfs.ext4").arg("-q").arg(&image));
        Self::mount(image, bed)
    }

    fn mount(image: PathBuf, bed: &Bed) -> Self {
        let mounted_at = bed.path("data");
        fs::create_dir_all(&mounted_at).expect("it is ours");
        let device = Self { image, mounted_at };
        device.mount_as("loop");
        ok(Command::new("chmod").arg("700").arg(&device.mounted_at));
        device
    }

    fn mount_as(&self, options: &str) {
        ok(Command::new("mount")
            .args(["-o", options])
            .arg(&self.image)
            .arg(&self.mounted_at));
    }

    /// Mounts it anew so that nothing on it can be changed, for as long as `act` takes.
    fn read_only(&self, act: impl FnOnce()) {
        ok(Command::new("umount").arg(&self.mounted_at));
        self.mount_as("loop,ro");
        act();
        ok(Command::new("umount").arg(&self.mounted_at));
        self.mount_as("loop");
    }

    /// Copies the device as it is. The gateway is stopped; two equal copies show that the kernel wrote nothing meanwhile.
    fn copy_to(&self, to: &Path) {
        loop {
            let [one, other] = [to.to_owned(), to.with_extension("other")];
            for copy in [&one, &other] {
                ok(Command::new("cp")
                    .arg("--sparse=always")
                    .arg(&self.image)
                    .arg(copy));
            }
            let same = Command::new("cmp").arg("-s").arg(&one).arg(&other).status();
            fs::remove_file(&other).expect("it was made");
            if same.expect("cmp runs").success() {
                return;
            }
        }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // A gateway that still ends keeps it busy for a moment.
        for _ in 0..100 {
            let done = Command::new("umount").arg(&self.mounted_at).output();
            if done.is_ok_and(|done| done.status.success()) {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = fs::remove_file(&self.image);
    }
}

fn ok(command: &mut Command) {
    let done = command.output().expect("the command starts");
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{command:?}: {stderr}");
}

/// A gateway under load, and what it has answered.
struct Load {
    host: StdioHost,
    sent: u64,
    answered: HashSet<String>,
}

impl Load {
    fn send(&mut self) {
        let at = self.sent;
        self.sent += 1;
        let line = call_line(at, "effect", &format!(r#"{{"key":"k{at}"}}"#));
        self.host.send(&line).expect("the gateway reads");
    }

    fn drain(&mut self, wait: Duration) {
        while let Ok(line) = self.host.recv_within(wait) {
            let id = Frame::parse(&line).and_then(|frame| frame.id);
            if let Some(id) = id.filter(|_| is_success(&line)) {
                self.answered.insert(format!("k{id}"));
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.host.pid()).expect("a pid")).expect("a pid");
        kill_process(pid, signal).expect("it is ours");
    }
}

/// What a person was told is done, and must be there after the cut.
#[derive(Debug, Default)]
struct Confirmed {
    tokens: Vec<String>,
}

/// Reads what a cut left where nothing can be written.
fn read(after: &Bed, load: &Load, context: &str) {
    let known = keys(after);
    for answered in &load.answered {
        assert!(known.contains(answered), "{context}: {answered} is lost");
    }
    stdout(&run(after, &["activity", "list"]));
    stdout(&run(after, &["activity", "verify"]));
}

fn keys(bed: &Bed) -> HashSet<String> {
    let records = records(bed);
    records
        .iter()
        .map(|record| key(record).to_owned())
        .collect()
}

/// Starts on what a cut left, and looks for everything that was answered.
fn check(after: &Bed, load: &Load, confirmed: &Confirmed, context: &str) {
    // Before any start changes something.
    let verified = run(after, &["activity", "verify"]);
    let problems = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(verified.status.success(), "{context}: {problems}");
    let mut host = after.stdio_ready();
    host.close(Duration::from_secs(10)).expect("it ends on EOF");
    let known = keys(after);
    for answered in &load.answered {
        assert!(known.contains(answered), "{context}: {answered} is lost");
    }
    let tokens = stdout(&run(after, &["token", "list"]));
    for token in &confirmed.tokens {
        assert!(tokens.contains(token), "{context}: token {token} is lost");
    }
    let verified = run(after, &["activity", "verify"]);
    let problems = String::from_utf8_lossy(&verified.stdout).into_owned();
    assert!(
        verified.status.success(),
        "{context}, restarted: {problems}"
    );
}

fn below(dice: &mut u64, end: u64) -> u64 {
    *dice ^= *dice << 13;
    *dice ^= *dice >> 7;
    *dice ^= *dice << 17;
    *dice % end
}

/// Cuts one gateway's disk this many times, from its first start on.
fn cut(cuts: u64, on_device: bool, dice: &mut u64) {
    let bed = Bed::new(CONFIG);
    let fast = Path::new("/dev/shm");
    let image = |name: &str| match fast.is_dir() {
        true => fast.join(format!("callgate-{}-{name}", std::process::id())),
        false => bed.path(name),
    };
    let device = on_device.then(|| Device::fresh(image("disk"), &bed));
    let mut confirmed = Confirmed::default();
    let mut load = Load {
        host: bed.stdio(),
        sent: 0,
        answered: HashSet::new(),
    };
    for at in 0..cuts {
        if at == 1 {
            load.host
                .initialize(crate::setup::VERSION)
                .expect("the gateway shakes hands");
        }
        let mut left = below(dice, LOAD_US);
        while at > 0 && left > 0 {
            load.send();
            let pause = below(dice, 2_000).min(left);
            thread::sleep(Duration::from_micros(pause));
            left = left.saturating_sub(pause + 1);
        }
        // The first cut is of a start that is under way.
        thread::sleep(Duration::from_micros(left));
        if at % 7 == 3 {
            let name = format!("t{at}");
            stdout(&run(
                &bed,
                &["token", "create", "--name", &name, "--role", "agent"],
            ));
            confirmed.tokens.push(name);
        }
        load.signal(Signal::STOP);
        load.drain(DRAIN);
        let after = Bed::new(CONFIG);
        let context = format!("cut {at}");
        match &device {
            Some(device) => {
                let copy = image("copy");
                device.copy_to(&copy);
                load.signal(Signal::CONT);
                let copy = Device::mount(copy, &after);
                if at % 5 == 2 {
                    copy.read_only(|| read(&after, &load, &context));
                }
                check(&after, &load, &confirmed, &context);
            }
            None => {
                let data = bed.path("data");
                if data.exists() {
                    ok(Command::new("cp").arg("-a").arg(data).arg(after.path("")));
                }
                load.signal(Signal::CONT);
                check(&after, &load, &confirmed, &context);
            }
        }
    }
    load.host.kill().expect("it is ours");
    assert!(!load.answered.is_empty());
}

#[test]
fn a_power_cut_loses_no_answer_and_looks_like_no_tampering() {
    let asked = std::env::var("CALLGATE_POWER_CUTS").ok();
    let asked: Option<u64> = asked.map(|text| text.parse().expect("a number"));
    let mut dice = 0x2545_f491_4f6c_dd1d;
    let mut left = asked.unwrap_or(FOLDER_CUTS);
    while left > 0 {
        let cuts = left.min(CUTS_PER_DEVICE);
        cut(cuts, asked.is_some(), &mut dice);
        left -= cuts;
        eprintln!("{left} cuts left");
    }
}
