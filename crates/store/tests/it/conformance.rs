//! The embedded backend keeps what every backend promises, also when its process dies or its disk fails.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
};

use callgate_record::{
    Backend, BackendError, SharedStores, Stores,
    conformance::{
        clock, conforms,
        durable::{self, Faulty},
    },
};
use callgate_store::{Disk, Embedded};
use tempfile::TempDir;

use crate::support::{Fault, FaultyDisk, folders, options, segments};

const DIR: &str = "CALLGATE_STORE_TEST_DIR";

/// A backend in a folder of its own, with small segments so that retention has some to drop.
#[derive(Debug)]
struct InFolder {
    dir: Arc<TempDir>,
    backend: Embedded,
}

impl InFolder {
    fn fresh() -> Self {
        Self::at(Arc::new(tempfile::tempdir().unwrap()))
    }

    fn at(dir: Arc<TempDir>) -> Self {
        let backend = Embedded::new(small(dir.path()));
        Self { dir, backend }
    }
}

fn small(dir: &Path) -> callgate_store::LogOptions {
    let mut options = options(dir);
    options.segment_bytes = 4000;
    options.head_every = 5;
    options
}

impl Backend for InFolder {
    fn open(&self) -> Result<Stores, BackendError> {
        self.backend.open()
    }

    fn shared(&self) -> Result<SharedStores, BackendError> {
        self.backend.shared()
    }
}

#[test]
fn the_embedded_backend_passes_the_conformance_suite() {
    conforms(InFolder::fresh);
}

#[test]
fn wrong_clocks_drop_nothing() {
    clock::wrong_clocks_drop_nothing(|clock| {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let mut options = small(dir.path());
        options.clock = clock;
        InFolder {
            dir,
            backend: Embedded::new(options),
        }
    });
}

#[test]
fn all_state_survives_a_restart() {
    durable::all_state_survives_a_restart(InFolder::fresh, |first| InFolder::at(first.dir.clone()));
}

#[test]
fn a_flipped_byte_in_a_segment_is_found() {
    durable::tampering_is_found(&InFolder::fresh(), |backend| {
        let segment: PathBuf = segments(&folders(backend.dir.path())[0]).remove(0);
        let mut bytes = fs::read(&segment).unwrap();
        bytes[300] ^= 1;
        fs::write(segment, bytes).unwrap();
    });
}

/// What a spawned copy of this binary does. Run without the variable, it checks that a backend can be
/// opened and left.
#[test]
fn child() {
    match std::env::var_os(DIR) {
        Some(dir) => durable::write_until_killed(&Embedded::new(options(Path::new(&dir)))),
        None => drop(InFolder::fresh().open().unwrap()),
    }
}

pub(crate) fn spawn_writer(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "conformance::child", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn calls_of_killed_processes_are_on_record() {
    let backend = InFolder::fresh();
    durable::calls_of_killed_processes_are_on_record(&backend, || spawn_writer(backend.dir.path()));
}

/// A backend on a disk whose operations fail.
#[derive(Debug)]
struct OnFaultyDisk {
    backend: Embedded,
    disk: Arc<FaultyDisk>,
}

impl Backend for OnFaultyDisk {
    fn open(&self) -> Result<Stores, BackendError> {
        self.backend.open()
    }

    fn shared(&self) -> Result<SharedStores, BackendError> {
        self.backend.shared()
    }
}

impl Faulty for OnFaultyDisk {
    fn arm(&self, is_armed: bool) {
        self.disk.arm(is_armed);
    }
}

/// Runs calls over a disk that fails every `every`-th operation.
fn run_on_faulty_disk(every: u64, fault: Fault) {
    let dir = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(every, fault);
    let mut options = options(dir.path());
    options.segment_bytes = 8 * 1024;
    options.head_every = 7;
    let backend = Embedded::on(options, Arc::clone(&disk) as Arc<dyn Disk>);
    let faulty = OnFaultyDisk { backend, disk };
    let (taken, refused) = durable::failing_writes_lose_and_invent_nothing(&faulty);
    let context = format!("every {every}, {fault:?}");
    assert_eq!(taken + refused, 40, "{context}");
    assert_eq!(every == 1, taken == 0, "{context}");
}

#[test]
fn no_failing_operation_loses_or_invents_an_entry() {
    for every in 1..=200 {
        run_on_faulty_disk(every, Fault::Refuse);
        run_on_faulty_disk(every, Fault::Short);
    }
    for every in 1..=40 {
        run_on_faulty_disk(every, Fault::Torn);
    }
}
