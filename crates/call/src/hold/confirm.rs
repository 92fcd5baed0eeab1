//! A confirmation: the person at the host is asked whether this call is meant, where the host can ask.
//! It is never an approval; a host that cannot ask leaves the call to an approver.

use bytes::Bytes;
use callgate_gate::{
    Call, Consent, Denied, Hold, Permit, Ruling, Verdict,
    visible::{Layout, visible},
};
use callgate_wire::{Frame, Id, Json, Strictness, message, quote};

use crate::{AskFailed, Exchange};

/// The request by which a host asks its person.
const ELICIT: &str = "elicitation/create";
/// How much of the arguments is shown.
const SHOWN_CHARS: usize = 2000;

/// What came of asking.
pub(super) enum Confirmed {
    /// Yes.
    Permit(Permit),
    /// No.
    Refused(Denied),
    /// Nobody waits for the answer any more.
    Cancelled(Ruling),
    /// It was not asked: a confirmation is not enough, or the host cannot.
    Unasked(Hold),
}

/// Asks the person at the host, where that is enough and possible.
pub(super) async fn confirm(hold: Hold, exchange: &Exchange) -> Confirmed {
    let host = &hold.call().attempt.host;
    if !hold.asks_for_confirmation() || !can_ask(&host.capabilities) {
        return Confirmed::Unasked(hold);
    }
    let Some(request) = request(hold.call(), hold.ruling()) else {
        return Confirmed::Unasked(hold);
    };
    let asked = tokio::select! {
        asked = exchange.caller.ask(request) => asked,
        () = exchange.cancelled.cancelled() => {
            return Confirmed::Cancelled(hold.ruling().clone());
        }
    };
    match asked.as_ref().map(answer) {
        Ok(Some(true)) => {
            let consent = Consent::confirmed(hold.binding());
            match hold.release(consent) {
                Verdict::Permit(permit) => Confirmed::Permit(permit),
                Verdict::Hold(hold) => Confirmed::Unasked(hold),
                Verdict::Deny(denied) => Confirmed::Refused(denied),
            }
        }
        Ok(Some(false)) => Confirmed::Refused(hold.deny("the user did not confirm this call")),
        // A host that said it can ask and does not is like one that cannot.
        Ok(None) | Err(AskFailed::NoWay | AskFailed::Gone | AskFailed::TimedOut) => {
            Confirmed::Unasked(hold)
        }
    }
}

/// Whether the host declared that it can show a form.
fn can_ask(capabilities: &str) -> bool {
    let Ok(json) = Json::validate(capabilities.as_bytes(), Strictness::Envelope) else {
        return false;
    };
    let Some(elicitation) = json.get("elicitation") else {
        return false;
    };
    // An empty declaration means forms; one that names modes must name this one.
    elicitation.is_object()
        && (elicitation.members().next().is_none() || elicitation.get("form").is_some())
}

fn request(call: &Call, ruling: &Ruling) -> Option<Frame> {
    let name = format!("{}:{}", call.target.server(), call.target.name());
    let arguments = call.attempt.frame.param("arguments");
    let arguments = arguments.map_or("{}", |arguments| arguments.as_text());
    let shown = visible(arguments, Layout::OneLine);
    let cut: String = shown.chars().take(SHOWN_CHARS).collect();
    let more = if cut.len() < shown.len() { " …" } else { "" };
    let text = format!(
        "Should `{}` be called?\nReason: {}\nArguments: {cut}{more}",
        visible(&name, Layout::OneLine),
        ruling.reason
    );
    let params = format!(
        r#"{{"message":{},"requestedSchema":{{"type":"object","properties":{{}}}}}}"#,
        quote(&text)
    );
    let bytes: Bytes = message::request(&Id::number(0), ELICIT, Some(&params));
    Frame::parse(bytes, Strictness::Full).ok()
}

/// Yes or no; `None` for what is no answer.
fn answer(reply: &Frame) -> Option<bool> {
    match reply.result_member("action")?.as_str()?.as_ref() {
        "accept" => Some(true),
        "decline" | "cancel" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hosts_that_can_show_a_form_are_asked() {
        for (capabilities, expected) in [
            ("{}", false),
            (r#"{"elicitation":{}}"#, true),
            (r#"{"elicitation":{"form":{}}}"#, true),
            (r#"{"elicitation":{"url":{}}}"#, false),
            (r#"{"elicitation":null}"#, false),
            (r#"{"sampling":{}}"#, false),
        ] {
            assert_eq!(can_ask(capabilities), expected, "{capabilities}");
        }
    }
}
