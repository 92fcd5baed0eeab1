//! Local packs: scripts in a folder, whose top-level functions are tools.

use std::{fs, path::Path};

use callgate_code::LocalPack;

use super::{PackSource, packs::pack_name};

/// How many packs a folder may have.
const MAX_PACKS: usize = 50;
/// A longer file is not used.
const MAX_BYTES: u64 = 64 * 1024;

/// The packs, by name. What cannot be read is left out.
pub(super) fn read(source: &PackSource) -> Vec<LocalPack> {
    let mut packs: Vec<LocalPack> = match source {
        PackSource::None => Vec::new(),
        PackSource::Folder(folder) => {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let files = entries.filter(|entry| {
                let data = fs::metadata(entry.path());
                data.is_ok_and(|data| data.is_file() && data.len() <= MAX_BYTES)
            });
            let read = |entry: fs::DirEntry| pack(&entry.path(), &fs::read(entry.path()).ok()?);
            files.filter_map(read).collect()
        }
        PackSource::Read(files) => files
            .iter()
            .filter_map(|(path, content)| pack(path, content))
            .collect(),
    };
    packs.sort_by(|one, other| one.name.cmp(&other.name));
    packs.truncate(MAX_PACKS);
    packs
}

fn pack(path: &Path, content: &[u8]) -> Option<LocalPack> {
    let is_script = path.extension().is_some_and(|extension| extension == "py");
    let is_small = u64::try_from(content.len()).is_ok_and(|length| length <= MAX_BYTES);
    let name = path.file_stem()?.to_str()?;
    let is_usable = is_script && is_small && pack_name(name) == name;
    let source = String::from_utf8(content.to_vec()).ok()?;
    is_usable.then(|| LocalPack {
        name: name.to_owned(),
        source,
    })
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
