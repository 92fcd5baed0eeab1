//! The edges between our crates are the ones that ARCHITECTURE.md lists in its `edges` block, no more and no fewer.

use std::collections::BTreeSet;

use super::Tree;

const MAP: &str = "ARCHITECTURE.md";
const TESTKIT: &str = "testkit";

type Edge = (String, String);

pub(super) fn check(tree: &Tree) -> Vec<String> {
    let real = real_edges(tree);
    let mut violations: Vec<String> = real
        .iter()
        .filter(|(_, to)| to == TESTKIT)
        .map(|(from, _)| format!("crates/{from}: the test kit is a normal dependency"))
        .collect();
    let Some(listed) = tree.file(MAP).and_then(|map| listed_edges(&map.text)) else {
        violations.push(format!(
            "{MAP}: no fenced block `edges` that lists the edges between crates"
        ));
        return violations;
    };
    violations
        .extend(real.difference(&listed).map(|(from, to)| {
            format!("{MAP}: the edge `{from} -> {to}` exists and is not listed")
        }));
    violations.extend(listed.difference(&real).map(|(from, to)| {
        format!("{MAP}: the edge `{from} -> {to}` is listed and does not exist")
    }));
    violations
}

fn real_edges(tree: &Tree) -> BTreeSet<Edge> {
    let mut edges = BTreeSet::new();
    for package in &tree.packages {
        let Some(from) = package.name.strip_prefix("callgate-") else {
            continue;
        };
        for dependency in package
            .dependencies
            .iter()
            .filter(|dependency| !dependency.dev)
        {
            if let Some(to) = dependency.name.strip_prefix("callgate-") {
                edges.insert((from.to_owned(), to.to_owned()));
            }
        }
    }
    edges
}

fn listed_edges(map: &str) -> Option<BTreeSet<Edge>> {
    let (_, after) = map.split_once("```edges\n")?;
    let (block, _) = after.split_once("```")?;
    let short = |name: &str| name.trim().trim_start_matches("callgate-").to_owned();
    let mut edges = BTreeSet::new();
    for (from, targets) in block.lines().filter_map(|line| line.split_once("->")) {
        for to in targets.split(',').filter(|to| !to.trim().is_empty()) {
            edges.insert((short(from), short(to)));
        }
    }
    Some(edges)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str =
        "text\n```edges\ncallgate-gate -> wire\nrecord -> gate, wire\nwire ->\n```\n";

    #[test]
    fn the_listed_edges_and_no_others_pass() {
        let tree = Tree::of(&[(MAP, LISTED)])
            .with_package(
                "callgate-gate",
                &[("callgate-wire", false), ("bytes", false)],
            )
            .with_package(
                "callgate-record",
                &[
                    ("callgate-gate", false),
                    ("callgate-wire", false),
                    ("callgate-testkit", true),
                ],
            )
            .with_package("xtask", &[("callgate-testkit", false)]);
        assert_eq!(check(&tree), Vec::<String>::new());
    }

    #[test]
    fn unlisted_stale_and_test_edges_are_found() {
        let tree = Tree::of(&[(MAP, LISTED)]).with_package(
            "callgate-gate",
            &[("callgate-record", false), ("callgate-testkit", false)],
        );
        let found = check(&tree).join("\n");
        for expected in [
            "`gate -> record` exists and is not listed",
            "`gate -> wire` is listed and does not exist",
            "crates/gate: the test kit is a normal dependency",
        ] {
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn a_missing_edges_block_is_a_violation() {
        assert_eq!(check(&Tree::of(&[(MAP, "no block")])).len(), 1);
    }
}
