//! The lock in git: branches that accept different tools merge, and only entries changed on both conflict.

use std::process::{Command, Output};

use super::{accept_all, lists};
use crate::setup::Bed;
use crate::shell::{named, run};

const TOOLS: [&str; 3] = ["append", "merge", "zip"];

fn git(bed: &Bed, arguments: &[&str]) -> Output {
    let mut git = Command::new("git");
    // Neither what the machine's user has set, nor a repository around the folder.
    git.env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CEILING_DIRECTORIES", bed.path("").join(".."))
        .current_dir(bed.path(""));
    let author = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
    git.args(author).args(arguments).output().expect("git runs")
}

fn git_ok(bed: &Bed, arguments: &[&str]) {
    let done = git(bed, arguments);
    assert!(done.status.success(), "{arguments:?}: {done:?}");
}

/// A server whose tools have the descriptions given beside their names.
fn say(bed: &Bed, said: [&str; 3]) {
    let tool = |(name, text): (&str, &str)| {
        format!(r#"{{"name":"{name}","description":"{text}","inputSchema":{{"type":"object"}}}}"#)
    };
    let tools: Vec<String> = TOOLS.into_iter().zip(said).map(tool).collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    lists(bed, &tools);
}

/// Accepts the definition of one tool on its own branch.
fn accept_on(bed: &Bed, branch: &str, tool: &str, said: [&str; 3]) {
    git_ok(bed, &["checkout", "--quiet", "-b", branch, "base"]);
    say(bed, said);
    let ran = run(&mut named(bed, ["lock", "verify"]));
    assert_eq!(ran.code, Some(1), "it is not what was accepted");
    let ran = run(&mut named(bed, ["lock", "accept", tool]));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    git_ok(bed, &["commit", "--quiet", "-m", branch, "callgate.lock"]);
}

fn repository() -> Bed {
    let bed = super::bed("locked");
    say(&bed, ["one", "two", "three"]);
    accept_all(&bed);
    git_ok(&bed, &["init", "--quiet", "--initial-branch", "base"]);
    git_ok(&bed, &["add", "callgate.lock"]);
    git_ok(&bed, &["commit", "--quiet", "-m", "base"]);
    bed
}

fn verifies(bed: &Bed) {
    let ran = run(&mut named(bed, ["lock", "verify"]));
    assert_eq!(ran.code, Some(0), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn branches_that_accept_different_tools_merge() {
    let bed = repository();
    accept_on(&bed, "ours", "s:append", ["another one", "two", "three"]);
    accept_on(&bed, "theirs", "s:merge", ["one", "another two", "three"]);
    git_ok(&bed, &["merge", "--quiet", "--no-edit", "ours"]);
    say(&bed, ["another one", "another two", "three"]);
    verifies(&bed);
}

#[test]
fn only_entries_changed_on_both_branches_conflict() {
    let bed = repository();
    let base = bed.read("callgate.lock");
    accept_on(&bed, "ours", "s:merge", ["one", "ours", "three"]);
    accept_on(&bed, "theirs", "s:merge", ["one", "theirs", "three"]);
    let merged = git(&bed, &["merge", "--quiet", "--no-edit", "ours"]);
    assert!(!merged.status.success(), "both have changed the same tool");
    let text = bed.read("callgate.lock");
    let mut in_conflict = false;
    let mut agreed = Vec::new();
    for line in text.lines() {
        match line.get(..7) {
            Some("<<<<<<<") => in_conflict = true,
            Some(">>>>>>>") => in_conflict = false,
            Some(_) | None if !in_conflict => agreed.push(line),
            Some(_) | None => {}
        }
    }
    let ours = ["append", "zip"].map(|name| format!("\"{name}\""));
    for line in base.lines() {
        let of_others = ours.iter().any(|name| line.contains(name));
        assert!(!of_others || agreed.contains(&line), "{line} in:\n{text}");
    }
    let untouched = |said: &str| agreed.iter().any(|line| line.contains(said));
    assert!(untouched("one") && untouched("three"), "{text}");
    git_ok(&bed, &["checkout", "--quiet", "--theirs", "callgate.lock"]);
    say(&bed, ["one", "ours", "three"]);
    verifies(&bed);
}
