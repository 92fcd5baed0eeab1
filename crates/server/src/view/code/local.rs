//! Local packs: scripts in a folder, whose top-level functions are tools.

use std::{fs, path::Path};

use callgate_code::LocalPack;

use super::packs::pack_name;

/// How many packs a folder may have.
const MAX_PACKS: usize = 50;
/// A longer file is not used.
const MAX_BYTES: u64 = 64 * 1024;

/// The packs of a folder, by name. What cannot be read is left out.
pub(super) fn read(folder: Option<&Path>) -> Vec<LocalPack> {
    let Some(entries) = folder.and_then(|folder| fs::read_dir(folder).ok()) else {
        return Vec::new();
    };
    let mut packs = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        let is_script = path.extension().is_some_and(|extension| extension == "py");
        let is_small = entry.metadata().is_ok_and(|file| file.len() <= MAX_BYTES);
        let name = path.file_stem().and_then(|name| name.to_str());
        if let (true, true, Some(name), Ok(source)) =
            (is_script, is_small, name, fs::read_to_string(&path))
            && pack_name(name) == name
        {
            packs.push(LocalPack {
                name: name.to_owned(),
                source,
            });
        }
    }
    packs.sort_by(|one, other| one.name.cmp(&other.name));
    packs.truncate(MAX_PACKS);
    packs
}

/// The functions of a pack: name, parameters as they are written, and what the next line says about it.
pub(super) fn functions(pack: &LocalPack) -> Vec<(String, String, String)> {
    let lines: Vec<&str> = pack.source.lines().collect();
    let mut functions = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let line = line.strip_prefix("async ").unwrap_or(line);
        let Some((name, rest)) = line
            .strip_prefix("def ")
            .and_then(|def| def.split_once('('))
        else {
            continue;
        };
        let parameters = rest
            .rsplit_once(')')
            .map_or(rest, |(parameters, _)| parameters);
        let next = lines.get(at + 1).map_or("", |next| next.trim());
        let about = if next.starts_with(['"', '\'']) {
            next.trim_matches(['"', '\''])
        } else {
            ""
        };
        functions.push((
            name.trim().to_owned(),
            format!("({parameters})"),
            about.to_owned(),
        ));
    }
    functions
}
