//! The workflow files of AWF's own tests, read from a folder that is not part of this repository: what is valid there
//! must be valid here, and what is refused there must be refused here, with the same code where AWF defines one.

mod there;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use callgate_testkit::{DataDir, callgate};
use serde_json::Value;

use there::{There, Why, there};

#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
#[group(skip)]
pub(crate) struct Options {
    /// With `awf`: the folder with AWF's fixtures.
    #[arg(long, value_name = "DIR")]
    fixtures: Option<PathBuf>,
}

/// What `callgate validate` says about a file.
struct Here {
    valid: bool,
    /// The codes of the errors.
    codes: Vec<String>,
    exit: Option<i32>,
}

/// How a file compares.
enum Compared {
    Agrees,
    /// Both differ on purpose.
    Differs(&'static str),
    Wrong(String),
}

/// Runs the check and prints a table.
pub(super) fn run(options: &Options) -> Result<()> {
    let folder = options.fixtures.as_deref();
    let folder = folder.context("`--fixtures DIR` must name the folder with AWF's fixtures")?;
    let folder = fs::canonicalize(folder).context("cannot read the folder with the fixtures")?;
    let mut files = Vec::new();
    collect(&folder, &mut files)?;
    files.sort();
    let data = DataDir::new();
    let (mut agreed, mut differ, mut wrong) = (0, Vec::new(), Vec::new());
    println!("{:52}{:10}{:10}codes here", "file", "there", "here");
    for path in &files {
        let name = path.strip_prefix(&folder)?.display().to_string();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        let Some(there) = there(path, &text) else {
            println!("{name:52}not a workflow");
            continue;
        };
        let here = here(&data, path)?;
        let words = |valid| if valid { "valid" } else { "refused" };
        let (expected, found) = (words(there == There::Valid), words(here.valid));
        println!("{name:52}{expected:10}{found:10}{}", here.codes.join(" "));
        match compared(&there, &here) {
            Compared::Agrees => agreed += 1,
            Compared::Differs(why) => differ.push(format!("{name}: {why}")),
            Compared::Wrong(why) => wrong.push(format!("{name}: {why}")),
        }
    }
    let all = agreed + differ.len() + wrong.len();
    println!(
        "{agreed} of {all} files agree, {} differ on purpose",
        differ.len()
    );
    differ.iter().for_each(|line| println!("  {line}"));
    ensure!(agreed > 0, "there are no workflows in the folder");
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|end| end == "yaml" || end == "yml")
            && name != "plugin.yaml"
            && name != "manifest.yaml"
        {
            files.push(path);
        }
    }
    Ok(())
}

fn here(data: &DataDir, file: &Path) -> Result<Here> {
    let output = Command::new(callgate())
        .args(["validate", "--json"])
        .arg(file)
        .current_dir(data.path())
        .env("CALLGATE_DATA_DIR", data.path().join("data"))
        .env("HOME", data.path())
        .output()?;
    let report: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        format!("{}: no report: {said}", file.display())
    })?;
    let findings = report["findings"].as_array().into_iter().flatten();
    let errors = findings.filter(|finding| finding["severity"] == "error");
    let mut codes: Vec<String> = errors
        .filter_map(|finding| finding["code"].as_str())
        .map(str::to_owned)
        .collect();
    codes.sort();
    codes.dedup();
    Ok(Here {
        valid: report["valid"] == true,
        codes,
        exit: output.status.code(),
    })
}

fn compared(there: &There, here: &Here) -> Compared {
    if (here.exit == Some(0)) != here.valid {
        let why = format!("exit code {:?} does not fit the report", here.exit);
        return Compared::Wrong(why);
    }
    let codes = here.codes.join(" ");
    match there {
        There::Valid if here.valid => Compared::Agrees,
        There::Valid => Compared::Wrong(format!("valid there, refused here: {codes}")),
        There::Refused {
            why: Why::LeftOut(why),
            ..
        } if here.valid => Compared::Differs(why),
        There::Refused { why, .. } if here.valid => {
            Compared::Wrong(format!("refused there, valid here: {why:?}"))
        }
        There::Refused {
            code: Some(code),
            why,
        } if !here.codes.iter().any(|known| known == code) => {
            Compared::Wrong(format!("{code} there ({why:?}), here {codes}"))
        }
        There::Refused { .. } => Compared::Agrees,
    }
}
