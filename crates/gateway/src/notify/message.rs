//! The messages to webhooks, in two formats: the tool, the agent and where to decide, but no arguments. Text from an
//! agent stays text: invisible characters are escaped, and so are Slack's control characters.

use callgate_gate::visible::{Layout, visible};
use callgate_record::{Approval, HeldCallExcerpt};
use serde_json::{Value, json};

/// The fields of an approval, without the call's arguments.
pub(super) fn generic(approval: &Approval, url: &str) -> Value {
    let Approval { id, asking, .. } = approval;
    json!({
        "type": "approval_required",
        "id": id,
        "url": url,
        "record_id": asking.record_id,
        "tenant": asking.tenant,
        "principal": asking.principal,
        "agent": visible(&asking.agent, Layout::OneLine),
        "session_id": asking.session_id,
        "server": asking.server,
        "tool": visible(&asking.tool, Layout::OneLine),
        "asked_at": approval.asked_at,
        "expires_at": approval.expires_at,
    })
}

/// A message with a button that leads to the page.
pub(super) fn slack(approval: &Approval, url: &str) -> Value {
    let HeldCallExcerpt {
        server,
        tool,
        agent,
        ..
    } = &approval.asking;
    let call = plain(&format!("{server}:{tool}"));
    let text = format!("{} wants to call {call}", plain(agent));
    json!({
        "text": text,
        "blocks": [
            {"type": "section", "text": {"type": "mrkdwn", "text": format!("*{text}*"), "verbatim": true}},
            {"type": "actions", "elements": [{
                "type": "button",
                "text": {"type": "plain_text", "text": "Review"},
                "url": url,
            }]},
        ],
    })
}

/// Text on one line, with Slack's three special characters escaped and backquotes replaced, so that the text cannot
/// leave a code block.
fn plain(text: &str) -> String {
    visible(text, Layout::OneLine)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('`', "'")
}
