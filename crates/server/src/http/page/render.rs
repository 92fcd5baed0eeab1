//! The page's HTML. Everything that is put in is text: the macro escapes it, and what a person would not
//! see in it is written out and marked.

use callgate_gate::visible::{
    DiffLine, FileEdit, Layout, file_edits, summary, visible, visible_json,
};
use callgate_record::{Approval, ApprovalStatus, Asking, Sight};
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::Visit;

/// Lines of a change that are shown; the arguments have the rest.
const MAX_LINES: usize = 400;

/// Every approval: those that wait first.
pub(super) fn list(visit: &Visit, all: &[Approval]) -> Markup {
    let waits = |approval: &&Approval| approval.status == ApprovalStatus::Pending;
    let pending: Vec<&Approval> = all.iter().filter(waits).collect();
    let others: Vec<&Approval> = all.iter().filter(|one| !waits(one)).collect();
    let middle = html! {
        h2 { "Waiting for a person (" (pending.len()) ")" }
        @if pending.is_empty() {
            p { "Nothing waits. This page follows what happens." }
        } @else {
            (rows(&pending))
        }
        @if !others.is_empty() {
            h2 { "Decided or over" }
            (rows(&others))
        }
    };
    page("Approvals", Some(visit), &middle)
}

/// One approval, with everything that a person needs to decide.
pub(super) fn one(visit: &Visit, approval: &Approval) -> Markup {
    let Approval { id, asking, .. } = approval;
    let call = format!("{}:{}", asking.server, asking.tool);
    let middle = html! {
        h2 { (marked_line(&call)) }
        dl {
            dt { "Status" } dd { span.state { (approval.status.as_str()) } (outcome(approval)) }
            dt { "Agent" } dd { (marked_line(&asking.agent)) " (token " (marked_line(&asking.principal)) ", tenant " (marked_line(&asking.tenant)) ")" }
            dt { "Why it asks" } dd { (marked_line(&asking.reason)) }
            dt { "Rule" } dd { code { (marked_line(&asking.rule)) } }
            @for flag in &asking.flags {
                dt { "Odd about the tool" } dd { (marked_line(flag)) }
            }
            dt { "Asked" } dd { (time(approval.asked_at)) }
            @if approval.status == ApprovalStatus::Pending {
                dt { "Open until" } dd { (time(approval.expires_at)) }
            }
            dt { "Approval" } dd { code { (id) } }
        }
        (sight(approval))
        (request(asking))
        @for further in &approval.also {
            h2 { "Also asked, and covered by the same decision" }
            p { (marked_line(&further.reason)) }
            (request(further))
        }
        @if approval.status == ApprovalStatus::Pending {
            form.decide method="post" action=(format!("/approvals/{id}")) {
                input type="hidden" name="csrf" value=(visit.csrf);
                @if approval.sight == Sight::Whole {
                    button.yes name="answer" value="approve" { "Approve this call, once" }
                }
                button.no name="answer" value="deny" { "Deny it" }
            }
        }
    };
    page(&visible(&call, Layout::OneLine), Some(visit), &middle)
}

/// The way in: by a link's code, or by a token.
pub(super) fn login(code: Option<&str>) -> Markup {
    let middle = match code {
        Some(code) => html! {
            p { "This link logs you in, once." }
            form.decide method="post" action="/login" {
                input type="hidden" name="code" value=(code);
                button.yes { "Log in" }
            }
        },
        None => token_form("/approvals"),
    };
    page("Log in", None, &middle)
}

/// The way in for somebody who wants to go somewhere.
pub(super) fn login_for(place: &str) -> Markup {
    page("Log in", None, &token_form(place))
}

/// A sentence, and perhaps where to go from here.
pub(super) fn notice(title: &str, text: &str, next: Option<&str>) -> Markup {
    let middle = html! {
        h2 { (title) }
        p { (text) }
        @if let Some(next) = next { p { a href=(next) { "Go on" } } }
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

fn page(title: &str, visit: Option<&Visit>, middle: &Markup) -> Markup {
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
                    @if let Some(visit) = visit {
                        form method="post" action="/logout" {
                            span { (visit.principal.name) " " }
                            input type="hidden" name="csrf" value=(visit.csrf);
                            button { "Log out" }
                        }
                    }
                }
                main data-live[visit.is_some()] { (middle) }
            }
        }
    }
}

fn rows(approvals: &[&Approval]) -> Markup {
    html! {
        table {
            thead { tr { th { "Call" } th { "Arguments" } th { "Agent" } th { "Why" } th { "Asked" } th { "Status" } } }
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

/// Who decided, and what became of it.
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

/// What is said where the call that will run is not shown whole.
fn sight(approval: &Approval) -> Markup {
    let asking = &approval.asking;
    html! {
        @match approval.sight {
            Sight::Whole => {}
            Sight::Redacted => p {
                "Secrets are left out below. The whole arguments were erased when the approval was decided or expired."
                @if !asking.arguments_whole {
                    " Only the beginning of " (asking.arguments_bytes) " bytes is kept."
                }
            },
            Sight::Unreadable => p.warning {
                "The arguments of this call cannot be read, because the key of the data folder changed. It can be denied, not "
                "approved. If the agent makes the call again, it can be read again."
            },
        }
    }
}

/// What the call says: its arguments, and what stands beside them in the request.
fn request(asking: &Asking) -> Markup {
    html! {
        h2 { "Arguments" }
        pre { (marked(&visible_json(&asking.arguments))) }
        @if let Some(others) = &asking.others {
            h2 { "Beside the arguments" }
            pre { (marked(&visible_json(others))) }
        }
        @for edit in file_edits(&asking.arguments) { (change(&edit)) }
    }
}

/// A change of a file, line by line.
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

/// A text in which hidden characters were written out, with each of those marked.
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
