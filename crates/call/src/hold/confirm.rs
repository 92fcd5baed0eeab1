//! A confirmation: the person at the host is asked whether this call is meant, where the host can ask.
//! It is never an approval; a host that cannot ask leaves the call to an approver.

use callgate_gate::{
    BoundRequest, Call, Consent, Denied, Hold, Permit, Ruling, Verdict,
    visible::{Layout, visible},
};
use callgate_wire::{Era, Frame, Id, Strictness, message, methods, quote};

use super::come_again::{self, CONFIRMATION, Shows};
use crate::{AskFailed, Exchange, parking::Back};

/// What does not fit into this many characters is left to an approver: a person confirms only what was shown.
const SHOWN_CHARS: usize = 10_000;

/// What came of asking.
pub(super) enum Confirmed {
    /// Yes.
    Permit(Permit),
    /// No.
    Refused(Denied),
    /// Nobody waits for the answer any more.
    Cancelled(Hold),
    /// The host is asked in the answer, and comes again.
    ComeAgain(Hold),
    /// It was not asked: a confirmation is not enough, or the host cannot.
    Unasked(Hold),
}

/// Asks the person at the host, where that is enough and possible.
pub(super) async fn confirm(hold: Hold, exchange: &Exchange, back: Option<&Back>) -> Confirmed {
    let host = &hold.call().attempt.host;
    let can_ask = hold.asks_for_confirmation() && Shows::of(&host.capabilities).form;
    if !can_ask || text(&hold).chars().count() > SHOWN_CHARS {
        return Confirmed::Unasked(hold);
    }
    match host.era {
        Era::Handshake => ask(hold, exchange).await,
        Era::Stateless => brought(hold, back),
    }
}

/// What a host brings that cannot be sent a question.
fn brought(hold: Hold, back: Option<&Back>) -> Confirmed {
    // A yes to what the call was is no yes to what it is now.
    let same = back.filter(|back| back.binding == hold.binding());
    match same.and_then(|back| back.says(CONFIRMATION)) {
        Some(true) => said_yes(hold),
        Some(false) => said_no(hold),
        None if come_again::is_possible(&hold.call().attempt, back) => Confirmed::ComeAgain(hold),
        None => Confirmed::Unasked(hold),
    }
}

async fn ask(hold: Hold, exchange: &Exchange) -> Confirmed {
    let bytes = message::request(&Id::number(0), methods::ELICITATION, Some(&params(&hold)));
    let Ok(request) = Frame::parse(bytes, Strictness::Full) else {
        return Confirmed::Unasked(hold);
    };
    let asked = tokio::select! {
        asked = exchange.caller.ask(request) => asked,
        () = exchange.cancelled.cancelled() => {
            return Confirmed::Cancelled(hold);
        }
    };
    match asked.as_ref().map(answer) {
        Ok(Some(true)) => said_yes(hold),
        Ok(Some(false)) => said_no(hold),
        // A host that said it can ask and does not is like one that cannot.
        Ok(None)
        | Err(AskFailed::Denied(_) | AskFailed::NoWay | AskFailed::Gone | AskFailed::TimedOut) => {
            Confirmed::Unasked(hold)
        }
    }
}

fn said_yes(hold: Hold) -> Confirmed {
    let consent = Consent::confirmed(hold.binding());
    match hold.release(consent) {
        Verdict::Permit(permit) => Confirmed::Permit(permit),
        Verdict::Hold(hold) => Confirmed::Unasked(hold),
        Verdict::Deny(denied) => Confirmed::Refused(denied),
    }
}

fn said_no(hold: Hold) -> Confirmed {
    Confirmed::Refused(hold.deny("the user did not confirm this call"))
}

/// What the host's person is shown.
pub(super) fn params(hold: &Hold) -> String {
    form(&quote(&text(hold)))
}

/// The whole call, in words.
fn text(hold: &Hold) -> String {
    let (call, ruling): (&Call, &Ruling) = (hold.call(), hold.ruling());
    let name = format!("{}:{}", call.target.server(), call.target.name());
    let BoundRequest { arguments, others } = BoundRequest::of(call);
    let line = |text: &str| visible(text, Layout::OneLine);
    let beside = others.map(|others| format!("\nBeside the arguments: {}", line(&others)));
    format!(
        "Should `{}` be called?\nReason: {}\nArguments: {}{}",
        line(&name),
        ruling.reason,
        line(&arguments),
        beside.unwrap_or_default()
    )
}

/// A form with nothing to fill in: it is accepted or not.
pub(super) fn form(quoted: &str) -> String {
    format!(r#"{{"message":{quoted},"requestedSchema":{{"type":"object","properties":{{}}}}}}"#)
}

/// Yes or no; `None` for what is no answer.
fn answer(reply: &Frame) -> Option<bool> {
    match reply.result_member("action")?.as_str()?.as_ref() {
        "accept" => Some(true),
        "decline" | "cancel" => Some(false),
        _ => None,
    }
}
