//! The rules of this repository that the compiler does not check. All violations are reported at once.

mod dependencies;
mod edges;
mod invariants;
mod log_lines;
mod sources;
mod texts;
mod words;

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::command::{cargo, command, output, root};

/// Checks every rule; fails after having printed each violation.
pub(crate) fn run() -> Result<()> {
    let tree = Tree::read()?;
    let mut violations = edges::check(&tree);
    violations.extend(sources::check(&tree));
    violations.extend(log_lines::check(&tree));
    violations.extend(dependencies::check(&tree));
    violations.extend(texts::check(&tree));
    violations.extend(words::check(&tree));
    violations.extend(invariants::check(&tree));
    for violation in &violations {
        eprintln!("tidy: {violation}");
    }
    match violations.len() {
        0 => {
            eprintln!("tidy: {} files, no violations", tree.files.len());
            Ok(())
        }
        count => bail!("tidy found {count} violations"),
    }
}

/// The text files that git tracks or would track, and the packages from cargo's metadata.
struct Tree {
    files: Vec<File>,
    packages: Vec<Package>,
}

struct File {
    /// The path from the workspace's folder, with `/` between its parts.
    path: String,
    text: String,
}

struct Package {
    name: String,
    /// The path of its folder from the workspace's folder.
    folder: String,
    dependencies: Vec<Dependency>,
}

struct Dependency {
    name: String,
    /// True for `[dev-dependencies]`.
    dev: bool,
    /// True for a crate of this workspace.
    ours: bool,
}

impl Tree {
    fn read() -> Result<Self> {
        let listing = output(command("git").args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ]))?;
        let mut files: Vec<File> = listing
            .split('\0')
            .filter(|path| !path.is_empty())
            // Skips files that are not text, and files that are deleted but still in the index.
            .filter_map(|path| {
                let text = fs::read_to_string(root().join(path)).ok()?;
                Some(File {
                    path: path.to_owned(),
                    text,
                })
            })
            .collect();
        files.sort_by(|left, right| left.path.cmp(&right.path));
        let metadata = output(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
        let metadata: Value =
            serde_json::from_str(&metadata).context("cargo metadata prints JSON")?;
        let packages = metadata["packages"]
            .as_array()
            .into_iter()
            .flatten()
            .map(Package::read);
        Ok(Self {
            files,
            packages: packages.collect(),
        })
    }

    fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    fn with_extension(&self, extension: &str) -> impl Iterator<Item = &File> {
        self.files
            .iter()
            .filter(move |file| file.path.ends_with(extension))
    }
}

impl Package {
    fn read(value: &Value) -> Self {
        let dependency = |value: &Value| Dependency {
            name: value["name"].as_str().unwrap_or_default().to_owned(),
            dev: value["kind"] == "dev",
            ours: value["path"].is_string(),
        };
        let dependencies = value["dependencies"].as_array().into_iter().flatten();
        Self {
            name: value["name"].as_str().unwrap_or_default().to_owned(),
            folder: folder(value),
            dependencies: dependencies.map(dependency).collect(),
        }
    }
}

fn folder(package: &Value) -> String {
    let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    let folder = manifest.parent().unwrap_or(manifest);
    let folder = folder.strip_prefix(root()).unwrap_or(folder);
    folder.display().to_string()
}

#[cfg(test)]
impl Tree {
    fn of(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File {
            path: (*path).to_owned(),
            text: (*text).to_owned(),
        };
        Self {
            files: files.iter().map(file).collect(),
            packages: Vec::new(),
        }
    }

    fn with_package(mut self, name: &str, dependencies: &[(&str, bool)]) -> Self {
        let dependency = |(name, dev): &(&str, bool)| Dependency {
            name: (*name).to_owned(),
            dev: *dev,
            ours: name.starts_with("callgate-"),
        };
        self.packages.push(Package {
            name: name.to_owned(),
            folder: format!("crates/{name}"),
            dependencies: dependencies.iter().map(dependency).collect(),
        });
        self
    }
}
