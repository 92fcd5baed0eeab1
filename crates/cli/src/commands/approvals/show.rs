//! An approval as text: invisible characters are escaped, and a change of a file is shown as a diff.

use std::{fs, path::Path};

use callgate_gate::visible::{DiffLine, FileEdit, Layout, file_edits, visible, visible_json};
use callgate_record::{Approval, ApprovalStatus, CallVisibility, HeldCallExcerpt};

/// Larger files are not compared.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Lines around a change that are shown.
const CONTEXT: usize = 3;
/// The most lines of a change; the arguments show the rest.
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
    lines.extend(odd.map(|flag| format!("suspicious {}", line(flag))));
    lines.push(format!("asked      {asked_at:.0}"));
    match (status, resolution) {
        (_, Some(resolution)) => lines.push(format!(
            "decided    {} by {} ({})",
            resolution.answer.status().as_str(),
            line(&resolution.by),
            resolution.way.as_str()
        )),
        (ApprovalStatus::Pending, None) => lines.push(format!("open until {expires_at:.0}")),
        (_, None) => lines.push(format!("expired    {expires_at:.0}")),
    }
    lines.extend(sight(approval));
    lines.extend(request(asking));
    for further in &approval.also {
        let reason = line(&further.reason);
        lines.push(format!(
            "also asked, and covered by the same decision: {reason}"
        ));
        lines.extend(request(further));
    }
    lines.join("\n")
}

/// The content of the call: its arguments, and the other fields of the request.
fn request(asking: &HeldCallExcerpt) -> Vec<String> {
    let mut lines = vec![
        "arguments".to_owned(),
        indented(&visible_json(&asking.arguments)),
    ];
    if let Some(others) = &asking.others {
        lines.push("beside the arguments".to_owned());
        lines.push(indented(&visible_json(others)));
    }
    for edit in file_edits(&asking.arguments) {
        let path = visible(&edit.path, Layout::OneLine);
        lines.push(format!("changes {path}"));
        lines.push(diff(&edit));
    }
    lines
}

/// The notice for a call that is not shown completely.
fn sight(approval: &Approval) -> Option<String> {
    let HeldCallExcerpt {
        arguments_whole,
        arguments_bytes,
        ..
    } = &approval.asking;
    match approval.sight {
        CallVisibility::Whole => None,
        CallVisibility::Redacted if *arguments_whole => Some(
            "Secrets are redacted below; the complete arguments were erased when the approval was decided or expired."
                .to_owned(),
        ),
        CallVisibility::Redacted => Some(format!(
            "Secrets are redacted below, and only the beginning of {arguments_bytes} bytes is kept; the complete arguments were erased when the approval was decided or expired."
        )),
        CallVisibility::Unreadable => Some(
            "WARNING: the arguments of this call cannot be decrypted, because `seal.key` in the data folder changed. The call can be denied but not approved. If the agent repeats the call, the new arguments are readable."
                .to_owned(),
        ),
    }
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
        shown.push("  … (see the arguments for the rest)".to_owned());
    }
    shown.join("\n")
}

/// The current content of a file, if this machine has a file of exactly that name.
fn current(path: &str) -> Option<String> {
    let path = Path::new(path);
    let data = fs::metadata(path).ok()?;
    let fits = path.is_absolute() && data.is_file() && data.len() <= MAX_FILE_BYTES;
    fits.then(|| fs::read_to_string(path).ok()).flatten()
}
