//! Local packs: Python files whose top-level functions scripts can call.

use std::{fs, path::Path};

use callgate_code::LocalPack;

use super::{PackSource, packs::pack_name};

/// The limit of packs; further ones are ignored.
const MAX_PACKS: usize = 50;
/// The limit of a pack file; larger files are ignored.
const MAX_BYTES: u64 = 64 * 1024;

/// The packs, sorted by name. Unreadable files are skipped.
pub(super) fn read(source: &PackSource) -> Vec<LocalPack> {
    let mut packs: Vec<LocalPack> = match source {
        PackSource::None => Vec::new(),
        PackSource::Folder(folder) => {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            let files = entries.filter(|entry| {
                // Checked before reading: a huge file is not loaded, and a pipe does not block.
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
    // Sorted before the limit applies, so that the same packs are used every time.
    packs.sort_by(|one, other| one.name.cmp(&other.name));
    packs.truncate(MAX_PACKS);
    packs
}

fn pack(path: &Path, content: &[u8]) -> Option<LocalPack> {
    let is_script = path.extension().is_some_and(|extension| extension == "py");
    let is_small = u64::try_from(content.len()).is_ok_and(|length| length <= MAX_BYTES);
    let name = path.file_stem()?.to_str()?;
    // A name that a script cannot write as it stands could never be called.
    let is_usable = is_script && is_small && pack_name(name) == name;
    let source = String::from_utf8(content.to_vec()).ok()?;
    is_usable.then(|| LocalPack {
        name: name.to_owned(),
        source,
    })
}

/// The functions of a pack: name, parameters as written, and the docstring on the next line. A line scan and not a parser: it
/// only serves as help for the model.
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
