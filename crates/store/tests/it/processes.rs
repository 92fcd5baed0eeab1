//! Several processes on one folder, and `kill -9`.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
};

use callgate_record::Store as _;
use callgate_store::{Index, retain};

use crate::support::{assert_sound, finished, forwarding, ids, lines, new_id, open};

const DIR: &str = "CALLGATE_STORE_TEST_DIR";

/// What a spawned copy of this binary does: calls without end, each told once it is taken. Run
/// without the variable, it checks that a log can be opened and left.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIR) else {
        let dir = tempfile::tempdir().unwrap();
        drop(open(dir.path()));
        assert_sound(dir.path());
        return;
    };
    let log = open(Path::new(&dir));
    let mut out = std::io::stdout();
    loop {
        let id = new_id();
        log.append(&forwarding(id)).unwrap();
        if writeln!(out, "taken {id}")
            .and_then(|()| out.flush())
            .is_err()
        {
            return;
        }
        log.append_owed(finished(id));
    }
}

fn spawn(dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::child", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn what_a_killed_process_took_is_on_record() {
    let dir = tempfile::tempdir().unwrap();
    let mut children: Vec<Child> = (0..3).map(|_| spawn(dir.path())).collect();
    let mut told = BTreeSet::new();
    for (index, child) in children.iter_mut().enumerate() {
        let lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let taken = lines.filter_map(|line| line.strip_prefix("taken ").map(str::to_owned));
        told.extend(taken.take(100 + 37 * index));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(told.len(), 300 + 37 * 3);
    let next = open(dir.path());
    let forwarded: BTreeSet<_> = ids(dir.path(), "forwarding").into_iter().collect();
    assert!(
        told.is_subset(&forwarded),
        "{:?}",
        told.difference(&forwarded)
    );
    let ended: Vec<_> = [ids(dir.path(), "finished"), ids(dir.path(), "unknown")].concat();
    assert_eq!(ended.len(), forwarded.len());
    assert_eq!(
        ended.into_iter().collect::<BTreeSet<_>>(),
        forwarded,
        "every call has one end"
    );
    let opened = lines(dir.path())
        .into_iter()
        .filter(|line| line["kind"] == "opened")
        .count();
    assert_eq!(opened, 4);
    next.close().unwrap();
    assert_sound(dir.path());
}

#[test]
fn the_index_may_be_filled_and_the_log_trimmed_while_others_write() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = spawn(dir.path());
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok);
    let log = open(dir.path());
    let mut first = Index::open(dir.path()).unwrap();
    let mut second = Index::open(dir.path()).unwrap();
    for _ in 0..20 {
        lines.by_ref().take(20).for_each(drop);
        std::thread::scope(|scope| {
            scope.spawn(|| first.catch_up().unwrap());
            scope.spawn(|| second.catch_up().unwrap());
        });
        retain(
            &log,
            callgate_record::RetentionLimits {
                days: 1,
                max_mb: 64,
            },
        )
        .unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    first.catch_up().unwrap();
    let total = first
        .query(&callgate_record::ActivityFilter::default())
        .unwrap()
        .total;
    assert_eq!(total, ids(dir.path(), "forwarding").len() as u64);
}
