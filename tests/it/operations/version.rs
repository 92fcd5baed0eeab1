//! A data folder of a newer callgate is refused with a clear error and left unchanged.

use std::fs;
use std::path::Path;

use crate::setup::Bed;
use crate::shell::{named, normalised, run};

/// Every file below a folder with its size and content.
fn everything(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            found.extend(everything(&path));
        } else {
            let content = fs::read(&path).expect("it can be read");
            found.push((path.display().to_string(), content));
        }
    }
    found.sort();
    found
}

fn bed() -> Bed {
    let bed = Bed::new("servers: {}\n");
    let mut host = bed.stdio_ready();
    let ended = host.close(std::time::Duration::from_secs(10));
    assert!(ended.expect("it ends on EOF").success());
    bed
}

#[test]
fn a_log_of_a_newer_callgate_is_refused_and_left_unchanged() {
    let bed = bed();
    let version = bed.path("data/activity/version");
    assert_eq!(fs::read_to_string(&version).expect("it is there"), "1\n");
    fs::write(&version, "2\n").expect("it is ours");
    let before = everything(&bed.path("data/activity"));
    let wanted = "error: the activity log was written by a newer callgate: `$DIR/data/activity/version` gives format 2, and this version reads formats up to 1; upgrade callgate\n";
    let commands: [&[&str]; 5] = [
        &["serve", "--listen", "127.0.0.1:0"],
        &["tools", "list"],
        &["activity", "list"],
        &["activity", "verify"],
        &["activity", "head"],
    ];
    for command in commands {
        let ran = run(&mut named(&bed, command));
        let said = normalised(&bed, &ran.stderr);
        assert_eq!((ran.code, said.as_str()), (Some(4), wanted), "{command:?}");
    }
    assert_eq!(everything(&bed.path("data/activity")), before);
}

#[test]
fn an_index_of_a_newer_callgate_is_refused_and_left_unchanged() {
    let bed = bed();
    let listed = run(&mut named(&bed, ["activity", "list"]));
    assert_eq!(listed.code, Some(0), "{}", listed.stderr);
    let index = bed.path("data/index.sqlite");
    let mut content = fs::read(&index).expect("it is there");
    content[60..64].copy_from_slice(&9u32.to_be_bytes());
    fs::write(&index, &content).expect("it is ours");
    let ran = run(&mut named(&bed, ["serve", "--listen", "127.0.0.1:0"]));
    let said = normalised(&bed, &ran.stderr);
    let wanted = "error: the index `$DIR/data/index.sqlite` was written by a newer callgate: format 9, and this version reads formats up to 5; upgrade callgate, or delete the file: it is rebuilt from the activity log\n";
    assert_eq!((ran.code, said.as_str()), (Some(4), wanted));
    assert_eq!(fs::read(&index).expect("it is there"), content);
}
