//! The page's HTML. All inserted values are text: the macro escapes them, and hidden characters are written out and
//! marked.

use callgate_gate::visible::{
    DiffLine, FileEdit, Layout, file_edits, summary, visible, visible_json,
};
use callgate_record::{Approval, ApprovalStatus, CallVisibility, HeldCallExcerpt};
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::LoginSession;

/// The limit of diff lines; the arguments above the diff are complete.
const MAX_LINES: usize = 400;

/// The list of approvals, pending ones first.
pub(super) fn list(login_session: &LoginSession, all: &[Approval]) -> Markup {
    let waits = |approval: &&Approval| approval.status == ApprovalStatus::Pending;
    let pending: Vec<&Approval> = all.iter().filter(waits).collect();
    let others: Vec<&Approval> = all.iter().filter(|one| !waits(one)).collect();
    let middle = html! {
        h2 { "Pending (" (pending.len()) ")" }
        @if pending.is_empty() {
            p { "No pending approvals. This page updates by itself." }
        } @else {
            (rows(&pending))
        }
        @if !others.is_empty() {
            h2 { "Decided or expired" }
            (rows(&others))
        }
    };
    page("Approvals", Some(login_session), &middle)
}

/// One approval, with everything that is needed to decide it.
pub(super) fn one(login_session: &LoginSession, approval: &Approval) -> Markup {
    let Approval { id, asking, .. } = approval;
    let call = format!("{}:{}", asking.server, asking.tool);
    let middle = html! {
        h2 { (marked_line(&call)) }
        dl {
            dt { "Status" } dd { span.state { (approval.status.as_str()) } (outcome(approval)) }
            dt { "Agent" } dd { (marked_line(&asking.agent)) " (token " (marked_line(&asking.principal)) ", tenant " (marked_line(&asking.tenant)) ")" }
            dt { "Reason" } dd { (marked_line(&asking.reason)) }
            dt { "Rule" } dd { code { (marked_line(&asking.rule)) } }
            @for flag in &asking.flags {
                dt { "Warning about the tool" } dd { (marked_line(flag)) }
            }
            dt { "Requested" } dd { (time(approval.asked_at)) }
            @if approval.status == ApprovalStatus::Pending {
                dt { "Expires" } dd { (time(approval.expires_at)) }
            }
            dt { "Approval" } dd { code { (id) } }
        }
        // Above the arguments, so that the warning about missing parts is read first.
        (sight(approval))
        (request(asking))
        @for further in &approval.also {
            h2 { "Also covered by this decision" }
            p { (marked_line(&further.reason)) }
            (request(further))
        }
        @if approval.status == ApprovalStatus::Pending {
            form.decide method="post" action=(format!("/approvals/{id}")) {
                input type="hidden" name="csrf" value=(login_session.csrf);
                // A call that cannot be shown whole cannot be approved, so the button is missing. `resolve` checks it again.
                @if approval.sight == CallVisibility::Whole {
                    button.yes name="answer" value="approve" { "Approve this call once" }
                }
                button.no name="answer" value="deny" { "Deny" }
            }
        }
    };
    page(
        &visible(&call, Layout::OneLine),
        Some(login_session),
        &middle,
    )
}

/// The login form, for a link's code or a token.
pub(super) fn login(code: Option<&str>) -> Markup {
    let middle = match code {
        Some(code) => html! {
            p { "This link logs you in once." }
            form.decide method="post" action="/login" {
                input type="hidden" name="code" value=(code);
                button.yes { "Log in" }
            }
        },
        None => token_form("/approvals"),
    };
    page("Log in", None, &middle)
}

/// The login form that continues to `place`.
pub(super) fn login_for(place: &str) -> Markup {
    page("Log in", None, &token_form(place))
}

/// A message, with a link to continue if there is one.
pub(super) fn notice(title: &str, text: &str, next: Option<&str>) -> Markup {
    let middle = html! {
        h2 { (title) }
        p { (text) }
        @if let Some(next) = next { p { a href=(next) { "Continue" } } }
    };
    page(title, None, &middle)
}

fn token_form(place: &str) -> Markup {
    html! {
        p { "Log in with the token of an approver or an admin, or with a link from " code { "callgate approvals link" } "." }
        form method="post" action="/login" {
            input type="hidden" name="next" value=(place);
            p { label { "Token" br; input type="password" name="token" autocomplete="off" required; } }
            p { button.yes { "Log in" } }
        }
    }
}

fn page(title: &str, login_session: Option<&LoginSession>, middle: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Callgate" }
                link rel="stylesheet" href="/assets/page.css";
                script src="/assets/page.js" defer {}
            }
            body {
                header {
                    h1 { a href="/approvals" { "Callgate approvals" } }
                    @if let Some(login_session) = login_session {
                        form method="post" action="/logout" {
                            span { (login_session.principal.name) " " }
                            input type="hidden" name="csrf" value=(login_session.csrf);
                            button { "Log out" }
                        }
                    }
                }
                main data-live[login_session.is_some()] { (middle) }
            }
        }
    }
}

fn rows(approvals: &[&Approval]) -> Markup {
    html! {
        table {
            thead { tr { th { "Call" } th { "Arguments" } th { "Agent" } th { "Reason" } th { "Requested" } th { "Status" } } }
            tbody {
                @for approval in approvals {
                    @let asking = &approval.asking;
                    tr {
                        td { a href=(format!("/approvals/{}", approval.id)) { (marked_line(&format!("{}:{}", asking.server, asking.tool))) } }
                        td { code.summary { (marked(&summary(&asking.arguments))) } }
                        td { (marked_line(&asking.agent)) }
                        td { (marked_line(&asking.reason)) }
                        td { (time(approval.asked_at)) }
                        td { span.state { (approval.status.as_str()) } }
                    }
                }
            }
        }
    }
}

/// Who decided, and whether the call was made.
fn outcome(approval: &Approval) -> Markup {
    html! {
        @if let Some(resolution) = &approval.resolution {
            " · " (resolution.answer.status().as_str()) " by " (marked_line(&resolution.by)) " (" (resolution.way.as_str()) ") at " (time(resolution.at))
        }
        @if let Some(call) = approval.used_by {
            " · the call went ahead, record " code { (call) }
        }
    }
}

/// The notice for a call that is not shown whole.
fn sight(approval: &Approval) -> Markup {
    let asking = &approval.asking;
    html! {
        @match approval.sight {
            CallVisibility::Whole => {}
            CallVisibility::Redacted => p {
                "Secrets are redacted below. The full arguments were erased when the approval was decided or expired."
                @if !asking.arguments_whole {
                    " Only the beginning of their " (asking.arguments_bytes) " bytes is kept."
                }
            },
            CallVisibility::Unreadable => p.warning {
                "The arguments of this call cannot be read because the key of the data folder changed. You can deny the call but not "
                "approve it. If the agent repeats the call, the new approval will be readable."
            },
        }
    }
}

/// The request: its arguments and its other members.
fn request(asking: &HeldCallExcerpt) -> Markup {
    html! {
        h2 { "Arguments" }
        pre { (marked(&visible_json(&asking.arguments))) }
        @if let Some(others) = &asking.others {
            h2 { "Other request members" }
            pre { (marked(&visible_json(others))) }
        }
        @for edit in file_edits(&asking.arguments) { (change(&edit)) }
    }
}

/// A file edit as a diff.
fn change(edit: &FileEdit) -> Markup {
    let lines = edit.lines(None);
    html! {
        h2 { "Changes " code { (marked_line(&edit.path)) } }
        pre {
            @for line in lines.iter().take(MAX_LINES) {
                @let (sign, text) = line.parts();
                span class=(class(line)) { (sign) " " (marked_line(text)) }
            }
            @if lines.len() > MAX_LINES { span.kept { "…" } }
        }
    }
}

fn class(line: &DiffLine) -> &'static str {
    match line {
        DiffLine::Kept(_) => "kept",
        DiffLine::Removed(_) => "removed",
        DiffLine::Added(_) => "added",
    }
}

fn time(at: Timestamp) -> Markup {
    html! { time datetime=(at) { (format!("{at:.0}").replace('T', " ").replace('Z', " UTC")) } }
}

fn marked_line(text: &str) -> Markup {
    marked(&visible(text, Layout::OneLine))
}

/// Marks the hidden characters that were written out between `⟨` and `⟩`.
fn marked(visible: &str) -> Markup {
    let mut out = String::with_capacity(visible.len() * 2);
    let mut rest = visible;
    while let Some(start) = rest.find('⟨') {
        let end = rest[start..]
            .find('⟩')
            .map_or(rest.len(), |end| start + end + '⟩'.len_utf8());
        let (plain, hidden) = (&rest[..start], &rest[start..end]);
        out.push_str(&html! { (plain) mark { (hidden) } }.into_string());
        rest = &rest[end..];
    }
    out.push_str(&html! { (rest) }.into_string());
    PreEscaped(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_text_is_escaped_and_invisible_characters_are_marked() {
        let shown = marked_line("<b>\u{202e}</b>\u{1b}[2J&").into_string();
        assert_eq!(
            shown,
            "&lt;b&gt;<mark>⟨U+202E⟩</mark>&lt;/b&gt;<mark>⟨U+001B⟩</mark>[2J&amp;"
        );
    }
}
