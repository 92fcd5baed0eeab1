//! What a webhook is told, in the two forms there are: the tool, the agent and where to decide, and no argument. What
//! an agent wrote is text in them and nothing else: hidden characters are written out, and Slack's own marks are
//! taken from it.

use callgate_gate::visible::{Layout, visible};
use callgate_record::{Approval, Asking};
use serde_json::{Value, json};

/// The fields of an approval that say which one it is.
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
    let Asking {
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
                "text": {"type": "plain_text", "text": "Look at it"},
                "url": url,
            }]},
        ],
    })
}

/// Text on one line, with Slack's three special characters written out and no way out of a block of code.
fn plain(text: &str) -> String {
    visible(text, Layout::OneLine)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('`', "'")
}
