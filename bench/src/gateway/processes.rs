//! What processes cost: CPU time and anonymous memory, read from /proc.

use std::{collections::HashMap, fs};

/// Clock ticks per second of /proc/PID/stat; fixed on Linux as user space sees it.
const TICKS: f64 = 100.0;

/// A process and everything below it but what is not the gateway's: the servers themselves.
#[derive(Debug, Clone)]
pub(crate) struct Family {
    root: u32,
}

/// One process as /proc shows it.
#[derive(Debug)]
struct Row {
    parent: u32,
    name: String,
    cpu_seconds: f64,
}

impl Family {
    pub(crate) fn of(root: u32) -> Self {
        Self { root }
    }

    /// CPU seconds used so far by the process and its wardens.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let rows = rows();
        self.members(&rows)
            .filter_map(|pid| rows.get(&pid))
            .map(|row| row.cpu_seconds)
            .sum()
    }

    /// Anonymous resident memory of the process and its wardens, in bytes.
    pub(crate) fn anonymous_bytes(&self) -> u64 {
        let rows = rows();
        self.members(&rows).map(anonymous_bytes).sum()
    }

    fn members<'r>(&'r self, rows: &'r HashMap<u32, Row>) -> impl Iterator<Item = u32> + 'r {
        let warden = |row: &Row| row.parent == self.root && row.name == "cg-warden";
        let wardens = rows
            .iter()
            .filter(move |(_, row)| warden(row))
            .map(|(pid, _)| *pid);
        std::iter::once(self.root).chain(wardens)
    }
}

fn rows() -> HashMap<u32, Row> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((pid, parse(&stat)?))
        })
        .collect()
}

fn parse(stat: &str) -> Option<Row> {
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let fields: Vec<&str> = after.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
    let parent = fields.get(1)?.parse().ok()?;
    Some(Row {
        parent,
        name,
        cpu_seconds: (ticks(11)? + ticks(12)?) / TICKS,
    })
}

fn anonymous_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}
