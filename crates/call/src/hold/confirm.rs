//! Confirmation: the host asks its user whether the call is intended. A confirmation is never an approval; if the host cannot
//! ask, the call needs an approver.

use callgate_gate::{
    BoundRequest, Call, Consent, Denied, Hold, Permit, Ruling, Verdict,
    visible::{Layout, visible},
};
use callgate_wire::{Era, Frame, Id, Strictness, message, methods, quote};

use super::host_question::{self, CONFIRMATION, ElicitationModes};
use crate::{AskFailed, Exchange, parking::ReturningHost};

/// Calls whose text has more characters need an approver: a user can only confirm what was shown.
const SHOWN_CHARS: usize = 10_000;

/// The result of asking the host.
pub(super) enum Confirmation {
    Confirmed(Permit),
    Declined(Denied),
    /// The host cancelled the call.
    Cancelled(Hold),
    /// The host has to be asked in the answer, and returns.
    AskInAnswer(Hold),
    /// A confirmation is not enough, or the host cannot ask.
    NotAsked(Hold),
}

/// Asks the host's user, if a confirmation is enough and the host can ask.
pub(super) async fn confirm(
    hold: Hold,
    exchange: &Exchange,
    returning: Option<&ReturningHost>,
) -> Confirmation {
    let host = &hold.call().attempt.host;
    let can_ask = hold.asks_for_confirmation() && ElicitationModes::of(&host.capabilities).form;
    if !can_ask || text(&hold).chars().count() > SHOWN_CHARS {
        return Confirmation::NotAsked(hold);
    }
    match host.era {
        Era::Handshake => ask(hold, exchange).await,
        Era::Stateless => from_returning_host(hold, returning),
    }
}

/// The answer of a host that cannot be sent requests.
fn from_returning_host(hold: Hold, returning: Option<&ReturningHost>) -> Confirmation {
    // The user confirmed the call as it was then. If its arguments or its tool differ now, the answer does not count.
    let same = returning.filter(|returning| returning.binding == hold.binding());
    match same.and_then(|returning| returning.answer_to(CONFIRMATION)) {
        Some(true) => confirmed(hold),
        Some(false) => declined(hold),
        None if host_question::is_possible(&hold.call().attempt, returning) => {
            Confirmation::AskInAnswer(hold)
        }
        None => Confirmation::NotAsked(hold),
    }
}

async fn ask(hold: Hold, exchange: &Exchange) -> Confirmation {
    // The id does not matter: the caller sends the request under an id of its own.
    let bytes = message::request(&Id::number(0), methods::ELICITATION, Some(&params(&hold)));
    let Ok(request) = Frame::parse(bytes, Strictness::Full) else {
        return Confirmation::NotAsked(hold);
    };
    let asked = tokio::select! {
        asked = exchange.caller.ask(request) => asked,
        () = exchange.cancelled.cancelled() => {
            return Confirmation::Cancelled(hold);
        }
    };
    match asked.as_ref().map(answer) {
        Ok(Some(true)) => confirmed(hold),
        Ok(Some(false)) => declined(hold),
        // A host that declared the capability and did not ask is treated like one without it: an approver decides.
        Ok(None)
        | Err(AskFailed::Denied(_) | AskFailed::NoWay | AskFailed::Gone | AskFailed::TimedOut) => {
            Confirmation::NotAsked(hold)
        }
    }
}

fn confirmed(hold: Hold) -> Confirmation {
    let consent = Consent::confirmed(hold.binding());
    match hold.release(consent) {
        Verdict::Permit(permit) => Confirmation::Confirmed(permit),
        Verdict::Hold(hold) => Confirmation::NotAsked(hold),
        Verdict::Deny(denied) => Confirmation::Declined(denied),
    }
}

fn declined(hold: Hold) -> Confirmation {
    Confirmation::Declined(hold.deny("the user did not confirm this call"))
}

/// The parameters of the elicitation.
pub(super) fn params(hold: &Hold) -> String {
    form(&quote(&text(hold)))
}

/// The call as the user sees it.
fn text(hold: &Hold) -> String {
    let (call, ruling): (&Call, &Ruling) = (hold.call(), hold.ruling());
    let name = format!("{}:{}", call.target.server(), call.target.name());
    let BoundRequest { arguments, others } = BoundRequest::of(call);
    // Escaped to one line: arguments could otherwise fake further lines of this text, such as another reason.
    let line = |text: &str| visible(text, Layout::OneLine);
    let beside = others.map(|others| format!("\nOther parameters: {}", line(&others)));
    format!(
        "Allow the call of `{}`?\nReason: {}\nArguments: {}{}",
        line(&name),
        ruling.reason,
        line(&arguments),
        beside.unwrap_or_default()
    )
}

/// A form without fields, to be accepted or declined.
pub(super) fn form(quoted: &str) -> String {
    format!(r#"{{"message":{quoted},"requestedSchema":{{"type":"object","properties":{{}}}}}}"#)
}

/// `None` for a reply that is neither yes nor no.
fn answer(reply: &Frame) -> Option<bool> {
    match reply.result_member("action")?.as_str()?.as_ref() {
        "accept" => Some(true),
        "decline" | "cancel" => Some(false),
        _ => None,
    }
}
