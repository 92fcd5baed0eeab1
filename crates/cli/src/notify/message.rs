//! What a webhook is told, in the two forms there are. What an agent wrote is text in them and nothing
//! else: hidden characters are written out, and Slack's own marks are taken from it.

use callgate_gate::visible::{Layout, visible, visible_json};
use callgate_record::{Approval, Asking};
use serde_json::{Value, json};

/// How much of the arguments a chat shows; the page has the rest.
const SLACK_CHARS: usize = 1500;

/// Every field of an approval.
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
        "arguments": visible_json(&asking.arguments),
        "arguments_whole": asking.arguments_whole,
        "rule": asking.rule,
        "reason": visible(&asking.reason, Layout::OneLine),
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
        reason,
        arguments,
        ..
    } = &approval.asking;
    let call = plain(&format!("{server}:{tool}"));
    let shown = visible_json(arguments);
    let cut: String = shown.chars().take(SLACK_CHARS).collect();
    let more = if cut.len() < shown.len() { "\n…" } else { "" };
    let text = format!("{} wants to call {call}", plain(agent));
    let details = format!(
        "*{text}*\n{}\n```{}{more}```",
        plain(reason),
        plain_lines(&cut)
    );
    json!({
        "text": text,
        "blocks": [
            {"type": "section", "text": {"type": "mrkdwn", "text": details, "verbatim": true}},
            {"type": "actions", "elements": [{
                "type": "button",
                "text": {"type": "plain_text", "text": "Look at it"},
                "url": url,
            }]},
        ],
    })
}

fn plain(text: &str) -> String {
    plain_lines(&visible(text, Layout::OneLine))
}

/// Slack's three special characters as text, and no way out of a block of code.
fn plain_lines(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('`', "'")
}
