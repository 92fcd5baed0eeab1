//! The power of the simulated machine is cut.

use std::path::{Path, PathBuf};

use super::{World, folder};
use crate::{power::left_over::Loss, seeds::model::End};

impl World {
    /// Cuts the power of the machine, which takes some of what is not synced. What comes then is on a disk that loses
    /// nothing.
    pub(super) fn cut_power(&mut self) {
        let Some(noted) = self.noted.take() else {
            return;
        };
        for process in std::mem::take(&mut self.processes) {
            process.life.end();
            self.model.alive.remove(&process.number);
        }
        let after = folder();
        let loss = match self.random.below(4) {
            0 => Loss::All,
            1 => Loss::Nothing,
            _ => Loss::Random(self.random.below(1 << 30)),
        };
        noted.cut(noted.steps(), loss, after.path());
        copy_databases(self.dir.path(), after.path());
        if self.weather.has_failed_sync() {
            // Hosts have answers although the ends did not reach the device; the next start closes their calls.
            for call in self.model.calls.values_mut() {
                call.end = End::Open;
            }
        }
        self.dir = after;
        self.found.forget();
        if self.tells {
            println!("power cut: {loss:?}");
        }
        self.is_cut = true;
        self.verify();
        self.check(false);
        self.start();
        let steps = self.random.below(10);
        for _ in 0..steps {
            self.call("read");
            self.observe();
            self.bury();
            if self.processes.is_empty() {
                self.start();
            }
        }
    }
}

/// The databases sync each change themselves.
fn copy_databases(from: &Path, to: &Path) {
    let is_database = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("approvals.sqlite")
    };
    let files = std::fs::read_dir(from).unwrap();
    let files = files.map(|file| file.unwrap().path());
    for path in files.filter(is_database) {
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}
