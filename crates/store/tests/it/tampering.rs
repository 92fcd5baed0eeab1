//! Whatever is changed in a log, `verify` finds it.

use std::{
    fs,
    path::{Path, PathBuf},
};

use callgate_record::Store as _;
use callgate_store::{Log, Problem, heads, verify};

use crate::support::{
    assert_sound, copy_folder, finished, folders, forwarding, new_id, open, options, segments,
};

/// Two writers, the first sealed by the second; three segments or more each.
fn sample() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let mut options = options(dir.path());
        options.segment_bytes = 1200;
        options.head_every = 3;
        let log = Log::open(options).unwrap();
        let id = new_id();
        log.append(&forwarding(id)).unwrap();
        log.append_or_queue(finished(id)).unwrap();
        log.close().unwrap();
    }
    assert!(
        folders(dir.path())
            .iter()
            .all(|folder| segments(folder).len() >= 3)
    );
    assert_sound(dir.path());
    dir
}

/// The folder of the sealed writer, and that of the other.
fn both(dir: &Path) -> (PathBuf, PathBuf) {
    let (sealed, other): (Vec<_>, Vec<_>) = folders(dir)
        .into_iter()
        .partition(|folder| folder.join("sealed").exists());
    (sealed[0].clone(), other[0].clone())
}

fn is_found(dir: &Path) -> bool {
    !verify(dir, None).unwrap().is_sound()
}

#[test]
fn every_flipped_byte_is_found() {
    let dir = sample();
    let mut files: Vec<PathBuf> = folders(dir.path())
        .iter()
        .flat_map(|folder| segments(folder))
        .collect();
    files.extend(folders(dir.path()).iter().map(|folder| folder.join("head")));
    files.push(both(dir.path()).0.join("sealed"));
    files.push(dir.path().join("activity/key"));
    let mut flips = 0;
    for file in files {
        let good = fs::read(&file).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            fs::write(&file, &bad).unwrap();
            assert!(is_found(dir.path()), "byte {at} of {}", file.display());
            flips += 1;
        }
        fs::write(&file, &good).unwrap();
    }
    assert!(flips > 4000, "{flips}");
    assert_sound(dir.path());
}

/// Changes the lines of one segment.
fn edit(path: &Path, change: impl FnOnce(&mut Vec<String>)) {
    let mut lines: Vec<String> = fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect();
    change(&mut lines);
    fs::write(
        path,
        lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
    .unwrap();
}

#[test]
fn every_dropped_moved_or_inserted_line_is_found() {
    type Change = fn(&[PathBuf], &[PathBuf]);
    let cases: [(&str, Change); 14] = [
        ("first line dropped", |a, _| {
            edit(&a[0], |lines| _ = lines.remove(0))
        }),
        ("middle line dropped", |a, _| {
            edit(&a[1], |lines| _ = lines.remove(0))
        }),
        ("tail cut by a line", |_, b| {
            edit(&b[b.len() - 1], |lines| _ = lines.pop())
        }),
        ("tail of the sealed one cut", |a, _| {
            edit(&a[a.len() - 1], |lines| _ = lines.pop())
        }),
        ("lines swapped", |a, _| {
            edit(&a[0], |lines| lines.swap(0, 1))
        }),
        ("line doubled", |a, _| {
            edit(&a[0], |lines| lines.insert(1, lines[0].clone()))
        }),
        ("line of another writer put in", |a, b| {
            let foreign = fs::read_to_string(&b[1])
                .unwrap()
                .lines()
                .next()
                .unwrap()
                .to_owned();
            edit(&a[1], |lines| lines.insert(1, foreign));
        }),
        ("line of another writer in its place", |a, b| {
            let foreign = fs::read_to_string(&b[1])
                .unwrap()
                .lines()
                .next()
                .unwrap()
                .to_owned();
            edit(&a[1], |lines| lines[0] = foreign);
        }),
        ("first segment gone", |a, _| fs::remove_file(&a[0]).unwrap()),
        ("middle segment gone", |a, _| {
            fs::remove_file(&a[1]).unwrap()
        }),
        ("last segment gone", |_, b| {
            fs::remove_file(&b[b.len() - 1]).unwrap()
        }),
        ("segments swapped", |a, _| {
            let (first, second) = (fs::read(&a[0]).unwrap(), fs::read(&a[1]).unwrap());
            fs::write(&a[0], second).unwrap();
            fs::write(&a[1], first).unwrap();
        }),
        ("writer gone", |a, _| {
            fs::remove_dir_all(a[0].parent().unwrap()).unwrap()
        }),
        ("head file gone", |_, b| {
            fs::remove_file(b[0].parent().unwrap().join("head")).unwrap()
        }),
    ];
    let dir = sample();
    for (name, change) in cases {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(dir.path(), copy.path());
        let (sealed, other) = both(copy.path());
        change(&segments(&sealed), &segments(&other));
        assert!(is_found(copy.path()), "{name}");
    }
}

#[test]
fn an_exported_head_reveals_a_cut_tail() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    let head_file = folders(dir.path())[0].join("head");
    let old_head = fs::read(&head_file).unwrap();
    log.append(&forwarding(new_id())).unwrap();
    log.close().unwrap();
    let exported: Vec<_> = heads(dir.path())
        .unwrap()
        .into_iter()
        .map(|keyed| keyed.head)
        .collect();
    assert!(verify(dir.path(), Some(&exported)).unwrap().is_sound());
    edit(&segments(&folders(dir.path())[0])[0], |lines| {
        lines.truncate(1)
    });
    fs::write(head_file, old_head).unwrap();
    assert_sound(dir.path());
    let found = verify(dir.path(), Some(&exported)).unwrap();
    assert!(
        matches!(
            found.problems[..],
            [Problem::TailCut {
                last: 1,
                named: 4,
                ..
            }]
        ),
        "{found:?}"
    );
}

#[test]
fn verification_accepts_a_line_being_written() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path());
    log.append(&forwarding(new_id())).unwrap();
    let path = &segments(&folders(dir.path())[0])[0];
    let mut bytes = fs::read(path).unwrap();
    bytes.extend_from_slice(br#"{"hash":"00"#);
    fs::write(path, bytes).unwrap();
    assert_eq!(assert_sound(dir.path()), 2);
}

#[test]
fn a_log_can_be_verified_while_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.segment_bytes = 4096;
    options.head_every = 5;
    let log = Log::open(options).unwrap();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for _ in 0..400 {
                log.append(&forwarding(new_id())).unwrap();
            }
        });
        let mut rounds = 0;
        while !writing.is_finished() || rounds == 0 {
            drop(open(dir.path()));
            assert_sound(dir.path());
            rounds += 1;
        }
    });
}

#[test]
fn an_absent_log_is_sound() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(assert_sound(dir.path()), 0);
    assert!(heads(dir.path()).unwrap().is_empty());
}
