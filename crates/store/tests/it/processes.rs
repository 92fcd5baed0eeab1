//! Several processes on one folder.

use std::io::{BufRead as _, BufReader};

use callgate_store::{Index, retain};

use crate::{
    conformance::spawn_writer,
    support::{ids, open},
};

#[test]
fn indexing_and_retention_work_beside_other_writers() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = spawn_writer(dir.path());
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
