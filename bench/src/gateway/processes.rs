//! What processes cost: CPU time and anonymous memory, read from /proc.
//!
//! CPU time is that of /proc/PID/task/TID/schedstat, in nanoseconds: the ticks of /proc/PID/stat are
//! 10 ms long, which is coarse for a short round.

use std::{collections::HashMap, fs};

use rustix::process::{Pid, Signal, kill_process};

/// A gateway: its process and its wardens, without the servers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Family {
    root: u32,
}

/// The CPU time of each thread of a family at one moment, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct CpuTimes(HashMap<u32, u64>);

/// Anonymous resident memory, in megabytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) gateway_mb: f64,
    pub(crate) wardens_mb: f64,
}

impl Memory {
    pub(crate) fn total_mb(self) -> f64 {
        self.gateway_mb + self.wardens_mb
    }
}

impl CpuTimes {
    /// Seconds used since `before`. What a thread used that has ended in between is lost; a tokio
    /// worker never ends, and a thread for blocking work only after it had nothing to do for 10 s.
    pub(crate) fn seconds_since(&self, before: &Self) -> f64 {
        let used = self.0.iter().map(|(thread, now)| {
            let then = before.0.get(thread).copied().unwrap_or_default();
            now.saturating_sub(then)
        });
        used.sum::<u64>() as f64 / 1e9
    }
}

impl Family {
    pub(crate) fn of(root: u32) -> Self {
        Self { root }
    }

    pub(crate) fn cpu_times(self) -> CpuTimes {
        let members = std::iter::once(self.root).chain(self.wardens());
        CpuTimes(members.flat_map(threads).collect())
    }

    pub(crate) fn memory(self) -> Memory {
        Memory {
            gateway_mb: anonymous_mb(self.root),
            wardens_mb: self.wardens().into_iter().map(anonymous_mb).sum(),
        }
    }

    /// Sends a signal to the gateway's own process.
    pub(crate) fn signal(self, signal: Signal) -> anyhow::Result<()> {
        let pid = i32::try_from(self.root).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| anyhow::anyhow!("`{}` is not a process id", self.root))?;
        Ok(kill_process(pid, signal)?)
    }

    /// The workers for scripts.
    pub(crate) fn workers(self) -> Vec<u32> {
        let is_worker = |pid: &u32| {
            let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = command.split(|byte| *byte == 0);
            words.nth(1) == Some(b"worker")
        };
        self.children().into_iter().filter(is_worker).collect()
    }

    fn wardens(self) -> Vec<u32> {
        let children = self.children().into_iter();
        children.filter(|pid| name(*pid) == "cg-warden").collect()
    }

    fn children(self) -> Vec<u32> {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.root));
        let tasks = tasks.into_iter().flatten().flatten();
        let children =
            tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
        let pids = children.flat_map(|children| {
            let pids = children.split_whitespace().map(str::parse);
            pids.filter_map(Result::ok).collect::<Vec<u32>>()
        });
        pids.collect()
    }
}

fn name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

fn threads(pid: u32) -> Vec<(u32, u64)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.into_iter().flatten().flatten();
    tasks
        .filter_map(|task| {
            let thread = task.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(task.path().join("schedstat")).ok()?;
            Some((thread, on_cpu(&stat)?))
        })
        .collect()
}

/// The first of three figures: time on a CPU, time waiting for one, and how often.
fn on_cpu(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().next()?.parse().ok()
}

fn anonymous_mb(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    kib_of("RssAnon:", &status).unwrap_or_default() as f64 * 1024.0 / 1e6
}

fn kib_of(field: &str, status: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(field))?;
    rest.trim().trim_end_matches(" kB").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_files_are_parsed() {
        assert_eq!(on_cpu("1060739756 860431543 498\n"), Some(1_060_739_756));
        assert_eq!(on_cpu(""), None);
        let status = "VmRSS:\t   9000 kB\nRssAnon:\t    1234 kB\nRssFile:\t 1 kB\n";
        assert_eq!(kib_of("RssAnon:", status), Some(1234));
    }

    #[test]
    fn cpu_time_counts_new_threads_and_ignores_ended_ones() {
        let before = CpuTimes([(1, 1_000_000_000), (2, 5)].into());
        let after = CpuTimes([(1, 1_500_000_000), (3, 250_000_000)].into());
        assert!((after.seconds_since(&before) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn memory_and_cpu_of_the_own_process_are_measured() {
        let own = Family::of(std::process::id());
        assert!(own.memory().gateway_mb > 0.0);
        assert!(!own.cpu_times().0.is_empty());
    }
}
