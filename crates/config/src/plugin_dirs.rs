//! Where plugins are found: in `plugins.yaml` of a working folder, and in plugin folders.
//!
//! A plugin that was found through the working folder names the files that it depends on: another person may have
//! put them there, so the code that starts the plugin must check that they are trusted.

use std::{
    collections::BTreeMap,
    env, fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use callgate_process::regular_file;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Folders of a project in which plugins may be.
const PROJECT_FOLDERS: [&str; 2] = [".callgate", ".awf"];
/// The list of plugins in such a folder.
const LIST: &str = "plugins.yaml";
/// The folder of plugins in such a folder, and in the data folder.
const FOLDER: &str = "plugins";
/// The manifest in a plugin's folder.
const MANIFEST: &str = "plugin.yaml";
/// The prefix of a plugin's program.
const PROGRAM: &str = "awf-plugin-";
/// More folders, divided by colons.
const VARIABLE: &str = "CALLGATE_PLUGINS_PATH";

/// The folders that are searched for plugins.
#[derive(Debug, Clone)]
pub struct PluginDirs {
    workdir: PathBuf,
    /// Folders of the user's own.
    folders: Vec<PathBuf>,
}

/// A plugin that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundPlugin {
    pub program: PathBuf,
    /// The configuration that it gets at its start.
    pub config: Map<String, Value>,
    /// The files of the working folder that it depends on, all of which must be trusted.
    pub needs_trust: Vec<PathBuf>,
}

/// Why a plugin was not found.
#[derive(Debug, thiserror::Error)]
pub enum PluginNotFound {
    /// It is in no list and no plugin folder.
    #[error("not found in `.callgate/plugins.yaml`, `.awf/plugins.yaml` or the plugin folders")]
    Nowhere,
    /// A list of plugins, or the manifest of one, cannot be read.
    #[error("`{}`: {why}", .file.display())]
    Unreadable { file: PathBuf, why: String },
    /// It is listed, but its program is missing or not executable.
    #[error("`{}` is not an executable file", .0.display())]
    NoProgram(PathBuf),
}

#[derive(Debug, Default, Deserialize)]
struct List {
    #[serde(default)]
    plugins: BTreeMap<String, Listed>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    path: PathBuf,
    #[serde(default)]
    config: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
struct Manifest {
    name: Option<String>,
    #[serde(default)]
    config: Value,
}

impl PluginDirs {
    /// The places for a working folder, with the variable `CALLGATE_PLUGINS_PATH` and the data folder.
    pub fn new(workdir: &Path, data_dir: &Path) -> Self {
        let told = env::var_os(VARIABLE).unwrap_or_default();
        let mut folders: Vec<PathBuf> = env::split_paths(&told)
            .filter(|folder| !folder.as_os_str().is_empty())
            .collect();
        folders.push(data_dir.join(FOLDER));
        Self {
            workdir: workdir.to_owned(),
            folders,
        }
    }

    /// The plugin of that name: a project's list comes first, then the user's folders, then a project's.
    pub fn find(&self, name: &str) -> Result<FoundPlugin, PluginNotFound> {
        for folder in PROJECT_FOLDERS {
            let file = self.workdir.join(folder).join(LIST);
            if let Some(found) = in_list(&file, name)? {
                return Ok(found);
            }
        }
        for folder in &self.folders {
            if let Some((found, _)) = in_folder(folder, name)? {
                return Ok(found);
            }
        }
        for folder in PROJECT_FOLDERS {
            let folder = self.workdir.join(folder).join(FOLDER);
            if let Some((mut found, manifest)) = in_folder(&folder, name)? {
                found.needs_trust = vec![found.program.clone()];
                found.needs_trust.extend(manifest);
                return Ok(found);
            }
        }
        Err(PluginNotFound::Nowhere)
    }

    /// Everything that a plugin listed in this file, or lying in this folder, depends on. None where the
    /// path is neither.
    pub fn depends_on(path: &Path) -> Result<Option<Vec<PathBuf>>, PluginNotFound> {
        if path.is_dir() {
            return Ok(in_own_folder(path)?.map(|(found, manifest)| {
                let program = [found.program].into_iter();
                program.chain(manifest).collect()
            }));
        }
        if path.file_name().is_none_or(|name| name != LIST) {
            return Ok(None);
        }
        let mut files = Vec::new();
        for name in list(path)?.plugins.into_keys() {
            if let Some(found) = in_list(path, &name)? {
                files.extend(found.needs_trust);
            }
        }
        files.sort();
        files.dedup();
        Ok(Some(files))
    }
}

impl FoundPlugin {
    /// A plugin by the path of its folder or program.
    pub fn at(path: &Path, config: Map<String, Value>) -> Result<Self, PluginNotFound> {
        let program = if path.is_dir() {
            path.join(program_of(path))
        } else {
            path.to_owned()
        };
        if !is_program(&program) {
            return Err(PluginNotFound::NoProgram(program));
        }
        Ok(Self {
            program,
            config,
            needs_trust: Vec::new(),
        })
    }
}

fn in_list(file: &Path, name: &str) -> Result<Option<FoundPlugin>, PluginNotFound> {
    let mut list = list(file)?;
    let Some(Listed { path, config }) = list.plugins.remove(name) else {
        return Ok(None);
    };
    // Relative to the list, as paths in every callgate file are.
    let base = file.parent().unwrap_or(Path::new(""));
    let mut found = FoundPlugin::at(&base.join(path), config)?;
    found.needs_trust = vec![file.to_owned(), found.program.clone()];
    Ok(Some(found))
}

fn list(file: &Path) -> Result<List, PluginNotFound> {
    let Some(text) = read(file)? else {
        return Ok(List::default());
    };
    serde_saphyr::from_str(&text).map_err(|error| PluginNotFound::Unreadable {
        file: file.to_owned(),
        why: error.to_string(),
    })
}

type WithManifest = (FoundPlugin, Option<PathBuf>);

fn in_folder(folder: &Path, name: &str) -> Result<Option<WithManifest>, PluginNotFound> {
    // A name with a slash or a leading dot could lead out of the plugin folder.
    if name.is_empty() || name.contains(['/', '\0']) || name.starts_with('.') {
        return Ok(None);
    }
    for own in [folder.join(name), folder.join(format!("{PROGRAM}{name}"))] {
        if own.is_dir() {
            return in_own_folder(&own);
        }
    }
    let mut folders: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect();
    folders.sort();
    for folder in folders {
        let manifest = folder.join(MANIFEST);
        let is_it = match read(&manifest) {
            Ok(Some(text)) => named(&text).as_deref() == Some(name),
            Ok(None) | Err(_) => false,
        };
        if is_it {
            return in_own_folder(&folder);
        }
    }
    Ok(None)
}

fn in_own_folder(folder: &Path) -> Result<Option<WithManifest>, PluginNotFound> {
    let manifest = folder.join(MANIFEST);
    let Some(text) = read(&manifest)? else {
        return Ok(None);
    };
    let read: Result<Manifest, _> = serde_saphyr::from_str(&text);
    let read = read.map_err(|error| PluginNotFound::Unreadable {
        file: manifest.clone(),
        why: error.to_string(),
    })?;
    let found = FoundPlugin::at(folder, defaults(read.config))?;
    Ok(Some((found, Some(manifest))))
}

/// The configuration defaults of a manifest. A member is a value, or describes one by `type` and `default`.
fn defaults(config: Value) -> Map<String, Value> {
    let Value::Object(config) = config else {
        return Map::new();
    };
    let value = |member: Value| match member {
        Value::Object(mut described) if described.contains_key("type") => {
            described.remove("default")
        }
        plain => Some(plain),
    };
    let members = config.into_iter();
    members
        .filter_map(|(key, member)| Some((key, value(member)?)))
        .collect()
}

fn named(manifest: &str) -> Option<String> {
    serde_saphyr::from_str::<Manifest>(manifest).ok()?.name
}

fn program_of(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    // Some folders are named like the program itself.
    if name.starts_with(PROGRAM) {
        return name.into_owned();
    }
    format!("{PROGRAM}{name}")
}

fn is_program(file: &Path) -> bool {
    let data = fs::metadata(file);
    data.is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

fn read(file: &Path) -> Result<Option<String>, PluginNotFound> {
    let text = regular_file::read(file)
        .and_then(|text| String::from_utf8(text).map_err(|_| io::Error::other("it is not UTF-8")));
    match text {
        Ok(text) => Ok(Some(text)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(PluginNotFound::Unreadable {
            file: file.to_owned(),
            why: error.to_string(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &Path) {
        fs::create_dir_all(path.parent().expect("a folder")).expect("it is ours");
        fs::write(path, "#!/bin/sh\n").expect("it is ours");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("it is ours");
    }

    fn dirs(place: &Path) -> PluginDirs {
        PluginDirs {
            workdir: place.join("work"),
            folders: vec![place.join("data/plugins")],
        }
    }

    #[test]
    fn a_projects_plugin_list_needs_trust() {
        let place = tempfile::tempdir().expect("a folder");
        let work = place.path().join("work");
        let awf = work.join(".awf");
        program(&awf.join("tools/k8s"));
        program(&awf.join("tools/dir/awf-plugin-dir"));
        let list = awf.join("plugins.yaml");
        let text = "plugins:\n  kubernetes: {path: tools/k8s, config: {a: 1}}\n  dir: {path: tools/dir}\n  gone: {path: nowhere}\n";
        fs::write(&list, text).expect("it is ours");
        let found = dirs(place.path()).find("kubernetes").expect("it is listed");
        assert_eq!(found.program, awf.join("tools/k8s"));
        assert_eq!(found.config["a"], 1);
        assert_eq!(found.needs_trust, [list.clone(), awf.join("tools/k8s")]);
        let found = dirs(place.path()).find("dir").expect("it is listed");
        assert_eq!(found.program, awf.join("tools/dir/awf-plugin-dir"));
        let gone = dirs(place.path()).find("gone");
        assert!(
            matches!(gone, Err(PluginNotFound::NoProgram(_))),
            "{gone:?}"
        );
        assert!(matches!(
            PluginDirs::depends_on(&list),
            Err(PluginNotFound::NoProgram(_))
        ));
    }

    #[test]
    fn plugin_folders_are_found_by_folder_or_manifest_name() {
        let place = tempfile::tempdir().expect("a folder");
        let users = place.path().join("data/plugins/one");
        program(&users.join("awf-plugin-one"));
        let manifest = "name: first\nversion: 1.0.0\nconfig: {token: {type: string, required: true}, n: {type: integer, default: 3}, plain: x}\n";
        fs::write(users.join(MANIFEST), manifest).expect("it is ours");
        let whole = place.path().join("data/plugins/awf-plugin-whole");
        program(&whole.join("awf-plugin-whole"));
        fs::write(whole.join(MANIFEST), "name: awf-plugin-whole\n").expect("it is ours");
        for name in ["whole", "awf-plugin-whole"] {
            let found = dirs(place.path()).find(name).expect(name);
            assert_eq!(found.program, whole.join("awf-plugin-whole"));
        }
        let projects = place.path().join("work/.callgate/plugins/two");
        program(&projects.join("awf-plugin-two"));
        fs::write(projects.join(MANIFEST), "name: two\n").expect("it is ours");
        for name in ["one", "first"] {
            let found = dirs(place.path()).find(name).expect(name);
            assert_eq!(found.program, users.join("awf-plugin-one"));
            assert!(found.needs_trust.is_empty());
            assert_eq!(
                Value::Object(found.config),
                serde_json::json!({"n": 3, "plain": "x"})
            );
        }
        let found = dirs(place.path()).find("two").expect("it is there");
        let files = vec![projects.join("awf-plugin-two"), projects.join(MANIFEST)];
        assert_eq!(found.needs_trust, files);
        let depends = PluginDirs::depends_on(&projects).expect("it can be read");
        assert_eq!(depends, Some(files));
        for missing in ["three", "", "..", "../one", "one/../one"] {
            let found = dirs(place.path()).find(missing);
            assert!(
                matches!(found, Err(PluginNotFound::Nowhere)),
                "{missing}: {found:?}"
            );
        }
    }
}
