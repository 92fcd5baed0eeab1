//! Each set of cargo features: the binary is built with it, and the tests that go with it pass.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use crate::command::{self, cargo, output, root};

const FEATURES: [&str; 5] = ["agents", "code", "otlp", "plugins", "workflow"];

/// Packages whose code depends on features.
const PACKAGES: [&str; 5] = [
    "callgate-cli",
    "callgate-code",
    "callgate-gateway",
    "callgate-server",
    "callgate-tests",
];

/// The plain gateway has at most this share of the packages of the whole one, in percent. Boxes are part of it: nine packages.
const PLAIN_SHARE: usize = 77;

/// Checks the plain gateway, each feature alone, and all of them.
pub(super) fn run() -> Result<()> {
    let (plain, whole) = (packages(&[])?, packages(&FEATURES)?);
    println!("packages: {plain} without features, {whole} with all");
    ensure!(
        plain * 100 <= whole * PLAIN_SHARE,
        "the plain gateway needs {plain} of {whole} packages, at most {PLAIN_SHARE} % are allowed"
    );
    let alone = FEATURES.iter().map(std::slice::from_ref);
    for set in [&[][..]].into_iter().chain(alone).chain([&FEATURES[..]]) {
        println!("features: {}", set.join(", "));
        test(set)?;
    }
    Ok(())
}

/// How many packages the binary is made of.
fn packages(set: &[&str]) -> Result<usize> {
    let tree = ["tree", "--locked", "-p", "callgate-cli", "-e", "normal"];
    let form = ["--prefix", "none", "--format", "{p}"];
    let printed = output(
        cargo()
            .args(tree)
            .args(form)
            .args(features("callgate-cli", set)),
    )?;
    let packages: BTreeSet<&str> = printed
        .lines()
        .filter_map(|line| line.strip_suffix(" (*)").or(Some(line)))
        .collect();
    Ok(packages.len())
}

/// Builds the binary and runs the tests in a target folder of their own: the test kit takes the binary it finds there.
fn test(set: &[&str]) -> Result<()> {
    let target = root().join("target/soak/features");
    let own = |arguments: &[&str]| {
        let mut cargo = cargo();
        cargo.args(arguments).env("CARGO_TARGET_DIR", &target);
        cargo
    };
    let build = ["build", "--locked", "-p", "callgate-cli", "--bins"];
    command::run(own(&build).args(features("callgate-cli", set)))?;
    let mut tests = own(&["nextest", "run", "--locked", "--no-default-features"]);
    for package in PACKAGES {
        tests.args(["-p", package]);
    }
    for feature in set {
        for package in ["callgate-cli", "callgate-gateway", "callgate-tests"] {
            tests.args(["--features", &format!("{package}/{feature}")]);
        }
    }
    if set.contains(&"code") {
        tests.args(["--features", "callgate-code/interpreter"]);
    }
    command::run(&mut tests)
}

/// The arguments that build `package` with exactly this set.
fn features(package: &str, set: &[&str]) -> Vec<String> {
    let chosen = set.iter().map(|feature| format!("{package}/{feature}"));
    let chosen: Vec<String> = chosen.collect();
    vec![
        "--no-default-features".to_owned(),
        "--features".to_owned(),
        chosen.join(","),
    ]
}
