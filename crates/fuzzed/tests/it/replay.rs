//! Every kept input of every target, in an ordinary test run.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use callgate_fuzzed::TARGETS;

/// So much of a corpus may be kept for one target; `cargo fuzz cmin` makes one smaller.
const MOST_FILES: usize = 150;
const MOST_BYTES: usize = 300 * 1024;

#[test]
fn fuzz_targets_programs_and_corpora_match() {
    let targets: BTreeSet<String> = TARGETS
        .iter()
        .map(|target| target.name.to_owned())
        .collect();
    assert_eq!(targets.len(), TARGETS.len(), "two targets of one name");
    let programs = names(&fuzz().join("fuzz_targets")).into_iter();
    let programs: BTreeSet<String> = programs
        .map(|name| name.trim_end_matches(".rs").to_owned())
        .collect();
    assert_eq!(programs, targets, "fuzz/fuzz_targets");
    assert_eq!(names(&fuzz().join("corpus")), targets, "fuzz/corpus");
    let regressions = names(&fuzz().join("regressions"));
    let strays: Vec<_> = regressions.difference(&targets).collect();
    assert!(strays.is_empty(), "fuzz/regressions: {strays:?}");
}

#[test]
fn every_corpus_input_passes() {
    let mut broken = Vec::new();
    let mut replayed = 0;
    for target in TARGETS {
        let corpus = inputs(&fuzz().join("corpus").join(target.name));
        assert!(!corpus.is_empty(), "{} has no corpus", target.name);
        let regressions = inputs(&fuzz().join("regressions").join(target.name));
        for (path, input) in corpus.iter().chain(&regressions) {
            replayed += 1;
            if catch_unwind(|| (target.run)(input)).is_err() {
                broken.push(path.clone());
            }
        }
    }
    println!("{replayed} inputs replayed");
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn corpora_stay_small() {
    for target in TARGETS {
        let corpus = inputs(&fuzz().join("corpus").join(target.name));
        let bytes: usize = corpus.iter().map(|(_, input)| input.len()).sum();
        let (name, files) = (target.name, corpus.len());
        assert!(files <= MOST_FILES, "{name}: {files} files");
        assert!(bytes <= MOST_BYTES, "{name}: {bytes} bytes");
    }
}

fn fuzz() -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let root = crates.and_then(Path::parent);
    root.expect("this crate lies in the workspace").join("fuzz")
}

/// The names in a folder; none where there is no folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

fn inputs(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = names(folder).into_iter().map(|name| folder.join(name));
    paths
        .map(|path| (path.clone(), fs::read(path).expect("an input can be read")))
        .collect()
}
