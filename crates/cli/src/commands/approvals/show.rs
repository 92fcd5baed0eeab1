//! An approval for a person's eyes: nothing in it is hidden, and a change of a file is shown as one.

use std::{fs, path::Path};

use callgate_gate::visible::{DiffLine, FileEdit, Layout, file_edits, visible, visible_json};
use callgate_record::{Approval, ApprovalStatus, Asking};

/// A file that is larger is not compared.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Lines around a change that are shown.
const CONTEXT: usize = 3;
/// More lines of a change than this are left to the arguments.
const MAX_LINES: usize = 400;

/// Everything that a person needs to decide.
pub(super) fn text(approval: &Approval) -> String {
    let Approval {
        id,
        status,
        asking,
        asked_at,
        expires_at,
        resolution,
        ..
    } = approval;
    let line = |text: &str| visible(text, Layout::OneLine);
    let mut lines = vec![
        format!("approval   {id} ({})", status.as_str()),
        format!(
            "call       {}",
            line(&format!("{}:{}", asking.server, asking.tool))
        ),
        format!(
            "agent      {} (token {}, tenant {})",
            line(&asking.agent),
            line(&asking.principal),
            line(&asking.tenant)
        ),
        format!("why        {}", line(&asking.reason)),
        format!("rule       {}", line(&asking.rule)),
    ];
    let odd = asking.flags.iter();
    lines.extend(odd.map(|flag| format!("odd        {}", line(flag))));
    lines.push(format!("asked      {asked_at:.0}"));
    match (status, resolution) {
        (_, Some(resolution)) => lines.push(format!(
            "decided    {} by {} ({})",
            resolution.answer.status().as_str(),
            line(&resolution.by),
            resolution.way.as_str()
        )),
        (ApprovalStatus::Pending, None) => lines.push(format!("open until {expires_at:.0}")),
        (_, None) => lines.push(format!("over since {expires_at:.0}")),
    }
    lines.push("arguments".to_owned());
    lines.push(indented(&visible_json(&asking.arguments)));
    lines.extend(cut(asking));
    for edit in file_edits(&asking.arguments) {
        lines.push(format!("changes {}", line(&edit.path)));
        lines.push(diff(&edit));
    }
    lines.join("\n")
}

/// What is said when not all of the arguments can be shown.
pub(super) fn cut(asking: &Asking) -> Option<String> {
    (!asking.arguments_whole).then(|| {
        format!(
            "WARNING: only the first {} of {} bytes are shown",
            asking.arguments.len(),
            asking.arguments_bytes
        )
    })
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}

/// A change line by line, with a few lines around it.
fn diff(edit: &FileEdit) -> String {
    let current = edit.old.is_none().then(|| current(&edit.path)).flatten();
    let lines = edit.lines(current.as_deref());
    let is_change = |line: &DiffLine| !matches!(line, DiffLine::Kept(_));
    let changes: Vec<usize> = (0..lines.len())
        .filter(|at| is_change(&lines[*at]))
        .collect();
    let is_near = |at: usize| changes.iter().any(|change| change.abs_diff(at) <= CONTEXT);
    let near = (0..lines.len()).filter(|at| is_near(*at));
    let mut shown: Vec<String> = near
        .take(MAX_LINES)
        .map(|at| {
            let (sign, text) = lines[at].parts();
            format!("  {sign} {}", visible(text, Layout::OneLine))
        })
        .collect();
    if shown.len() == MAX_LINES {
        shown.push("  … (the arguments have the rest)".to_owned());
    }
    shown.join("\n")
}

/// What a file holds now, where this machine has it under that very name.
fn current(path: &str) -> Option<String> {
    let path = Path::new(path);
    let data = fs::metadata(path).ok()?;
    let fits = path.is_absolute() && data.is_file() && data.len() <= MAX_FILE_BYTES;
    fits.then(|| fs::read_to_string(path).ok()).flatten()
}
