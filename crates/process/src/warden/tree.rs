//! The processes below a process, from `/proc`, and signals to all of them. The root itself is never signalled.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// Sends `signal` to every living process below `root`; returns how many there were.
///
/// A process group that lies wholly below `root` is signalled as one, which the kernel does atomically: a member that
/// forks at that moment cannot slip its child past the signal. A process that has ended meanwhile is ignored; one
/// that may not be signalled (another user's) is counted and left.
pub(crate) fn signal_below(root: Pid, signal: Signal) -> io::Result<usize> {
    let targets = Targets::choose(&scan()?, root.as_raw_nonzero().get());
    for group in targets
        .groups
        .iter()
        .filter_map(|group| Pid::from_raw(*group))
    {
        let _ = kill_process_group(group, signal);
    }
    for pid in targets.singles.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        let _ = kill_process(pid, signal);
    }
    Ok(targets.living)
}

/// The parent of this process, by its id in the process namespace of the mounted `/proc`.
#[cfg(target_os = "linux")]
pub(crate) fn parent_of_self() -> Option<i32> {
    let stat = fs::read("/proc/self/stat").ok()?;
    Some(parse_stat(&String::from_utf8_lossy(&stat))?.parent)
}

/// One process as `/proc/PID/stat` describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Row {
    pid: i32,
    parent: i32,
    group: i32,
    /// Ended, but not yet collected by its parent.
    zombie: bool,
}

/// The processes to signal.
#[derive(Debug, Default, PartialEq, Eq)]
struct Targets {
    /// Groups without a single member outside the tree.
    groups: Vec<i32>,
    /// Processes that share a group with one outside the tree.
    singles: Vec<i32>,
    living: usize,
}

impl Targets {
    fn choose(rows: &[Row], root: i32) -> Self {
        let below = below(rows, root);
        // A descendant may have joined the gateway's own group; signalling that group would hit the gateway.
        let shared: HashSet<i32> = rows
            .iter()
            .filter(|row| !below.contains(&row.pid))
            .map(|row| row.group)
            .collect();
        let mut targets = Self::default();
        for row in rows
            .iter()
            .filter(|row| below.contains(&row.pid) && !row.zombie)
        {
            targets.living += 1;
            if shared.contains(&row.group) {
                targets.singles.push(row.pid);
            } else if !targets.groups.contains(&row.group) {
                targets.groups.push(row.group);
            }
        }
        targets
    }
}

/// The ids of all processes below `root`, zombies included because a living process may hang below one.
fn below(rows: &[Row], root: i32) -> HashSet<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for row in rows {
        children.entry(row.parent).or_default().push(row.pid);
    }
    let mut found = HashSet::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        for child in children.get(&pid).into_iter().flatten() {
            // A scan is not a snapshot, so a reused id could form a cycle.
            if *child != root && found.insert(*child) {
                open.push(*child);
            }
        }
    }
    found
}

fn scan() -> io::Result<Vec<Row>> {
    let rows: Vec<Row> = fs::read_dir("/proc")?
        .filter_map(Result::ok)
        .filter(|entry| {
            entry
                .file_name()
                .as_encoded_bytes()
                .first()
                .is_some_and(u8::is_ascii_digit)
        })
        // A process that has ended since the folder was listed is skipped.
        .filter_map(|entry| fs::read(entry.path().join("stat")).ok())
        .filter_map(|stat| parse_stat(&String::from_utf8_lossy(&stat)))
        .collect();
    if rows.is_empty() {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    Ok(rows)
}

/// Reads `PID (NAME) STATE PPID PGRP …`, where NAME may itself hold spaces and brackets.
fn parse_stat(stat: &str) -> Option<Row> {
    let (head, tail) = stat.rsplit_once(')')?;
    let (pid, _name) = head.split_once(" (")?;
    let mut fields = tail.split_ascii_whitespace();
    let state = fields.next()?;
    Some(Row {
        pid: pid.parse().ok()?,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        zombie: matches!(state, "Z" | "X" | "x"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(pid: i32, parent: i32, group: i32) -> Row {
        Row {
            pid,
            parent,
            group,
            zombie: false,
        }
    }

    #[test]
    fn process_names_with_brackets_and_spaces_are_parsed() {
        let cases = [
            ("7 (sh) S 3 7 1 0", Some(row(7, 3, 7))),
            ("7 (a) R 9 9 (b) S 3 8 1 0", Some(row(7, 3, 8))),
            (
                "7 (sh) Z 3 7 1 0",
                Some(Row {
                    zombie: true,
                    ..row(7, 3, 7)
                }),
            ),
            ("7 (sh) S", None),
            ("", None),
        ];
        for (stat, expected) in cases {
            assert_eq!(parse_stat(stat), expected, "{stat:?}");
        }
    }

    #[test]
    fn only_descendants_of_the_root_are_targets() {
        let rows = [
            row(1, 0, 1),
            row(10, 1, 10),
            row(11, 10, 11),
            row(12, 11, 12),
            row(20, 1, 20),
        ];
        let targets = Targets::choose(&rows, 10);
        assert_eq!(
            targets,
            Targets {
                groups: vec![11, 12],
                singles: vec![],
                living: 2
            }
        );
    }

    #[test]
    fn process_groups_shared_with_others_are_not_signalled_as_a_group() {
        let rows = [
            row(5, 1, 5),
            row(10, 5, 10),
            row(11, 10, 5),
            row(12, 10, 10),
            row(13, 10, 13),
        ];
        let targets = Targets::choose(&rows, 10);
        assert_eq!(
            targets,
            Targets {
                groups: vec![13],
                singles: vec![11, 12],
                living: 3
            }
        );
    }

    #[test]
    fn zombies_are_skipped_but_their_children_are_targets() {
        let rows = [
            row(10, 1, 10),
            Row {
                zombie: true,
                ..row(11, 10, 11)
            },
            row(12, 11, 11),
        ];
        let targets = Targets::choose(&rows, 10);
        assert_eq!(
            targets,
            Targets {
                groups: vec![11],
                singles: vec![],
                living: 1
            }
        );
    }

    #[test]
    fn cycles_of_reused_process_ids_terminate() {
        let rows = [row(10, 12, 10), row(11, 10, 11), row(12, 11, 12)];
        assert_eq!(below(&rows, 10), HashSet::from([11, 12]));
    }
}
