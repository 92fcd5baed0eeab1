//! What `callgate servers learn` prints.

use std::{
    env,
    path::{Path, PathBuf},
};

use callgate_boxes::learn::Learned;
use callgate_config::box_edit::WrittenBox;
use serde_json::json;

use super::learn::Made;
use crate::{
    exit::Failed,
    print::{one_line, outln},
};

/// The longest path or sentence that is shown in one line.
const LINE: usize = 300;

/// Everything there is to tell.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) server: String,
    pub(super) learned: Learned,
    pub(super) proposal: WrittenBox,
    pub(super) made: Vec<Made>,
    pub(super) file: Option<PathBuf>,
    pub(super) written: bool,
}

/// A path as it stands in the file: relative to its folder `base` or to the home. `None` for one that cannot be written there.
pub(super) fn written(path: &Path, base: Option<&Path>) -> Option<String> {
    let text = |path: &Path| path.to_str().map(str::to_owned);
    let whole = text(path)?;
    if whole.contains("${") || whole.contains(char::is_control) {
        return None;
    }
    if let Some(rest) = base.and_then(|base| path.strip_prefix(base).ok()) {
        return match rest.as_os_str().is_empty() {
            true => Some(".".to_owned()),
            false => Some(format!("./{}", text(rest)?)),
        };
    }
    let home = env::home_dir().filter(|home| home.parent().is_some());
    match home.and_then(|home| path.strip_prefix(&home).ok().map(Path::to_owned)) {
        Some(rest) => Some(format!("~/{}", text(&rest)?)),
        None => Some(whole),
    }
}

/// For people.
pub(super) fn print(outcome: &Outcome) {
    let Learned {
        read,
        write,
        net,
        withheld,
        remarks,
    } = &outcome.learned;
    outln!("server `{}` used:", outcome.server);
    let paths = |paths: &[PathBuf]| {
        let paths = paths.iter().map(|path| path.display().to_string());
        paths.collect::<Vec<String>>()
    };
    for (word, entries) in [
        ("read", paths(read)),
        ("changed", paths(write)),
        ("connected to", net.clone()),
    ] {
        for entry in entries {
            outln!("  {word} {}", one_line(&entry, LINE));
        }
    }
    if read.is_empty() && write.is_empty() && net.is_empty() {
        outln!("  nothing besides what every box has");
    }
    for (index, one) in withheld.iter().enumerate() {
        if index == 0 {
            outln!("not granted:");
        }
        let line = format!("{}: {}", one.what, one.why);
        outln!("  {}", one_line(&line, LINE));
    }
    for remark in remarks {
        outln!("note: {}", one_line(remark, LINE));
    }
    outln!("box:");
    outln!("{}", outcome.proposal.lines(4).trim_end());
}

/// For programs.
pub(super) fn print_json(outcome: &Outcome) -> Result<(), Failed> {
    let learned = &outcome.learned;
    let withheld = learned.withheld.iter();
    let withheld = withheld.map(|one| json!({"what": one.what, "why": one.why}));
    let WrittenBox {
        mode,
        read,
        write,
        net,
    } = &outcome.proposal;
    let value = json!({
        "server": outcome.server,
        "calls": outcome.made,
        "read": learned.read,
        "write": learned.write,
        "net": learned.net,
        "withheld": withheld.collect::<Vec<_>>(),
        "remarks": learned.remarks,
        "box": {"mode": mode, "read": read, "write": write, "net": net},
        "file": outcome.file,
        "written": outcome.written,
    });
    let text = serde_json::to_string(&value).map_err(|error| Failed::system(error.to_string()))?;
    outln!("{text}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_from_the_file_or_from_the_home() {
        let home = env::home_dir().unwrap();
        let base = Path::new("/srv/project");
        let cases = [
            (PathBuf::from("/srv/project"), Some(".".to_owned())),
            (PathBuf::from("/srv/project/a b"), Some("./a b".to_owned())),
            (
                PathBuf::from("/srv/projects"),
                Some("/srv/projects".to_owned()),
            ),
            (home.join("docs/x"), Some("~/docs/x".to_owned())),
            (PathBuf::from("/a/${HOME}"), None),
            (PathBuf::from("/a/\n"), None),
        ];
        for (path, expected) in cases {
            assert_eq!(written(&path, Some(base)), expected, "{path:?}");
        }
    }
}
