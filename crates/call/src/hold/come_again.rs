//! A held call of a host that can be asked in an answer: it is told whom to ask, and comes again with a
//! sealed state. Nothing is kept for it meanwhile.
//!
//! What the host answers is at most a confirmation. That it accepts a question about an approval means that
//! it wants to go on, and is no approval.

use bytes::Bytes;
use callgate_gate::{ApprovalId, Attempt, Hold};
use callgate_wire::{
    Era, Json, Strictness, message, methods, quote,
    stateless::{INPUT_REQUIRED, INPUT_RESPONSES, REQUEST_STATE, may_ask},
};

use super::confirm;
use crate::{
    finish::{approval_lines, approval_meta, for_stateless_host},
    parking::{Back, Parking},
};

/// What the question about a confirmation is called.
pub(super) const CONFIRMATION: &str = "confirmation";
/// What the question about an approval is called.
const APPROVAL: &str = "approval";
/// After so many rounds the host is told as one that cannot be asked: it may not be asking anybody.
const MAX_ASKED: u8 = 10;

/// What a host is to ask its person.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Asks<'a> {
    /// Whether the call is meant.
    Confirmation,
    /// That this approval is given, there.
    Approval(&'a ApprovalId, &'a str),
}

/// How a host can put something before its person.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Shows {
    pub(super) form: bool,
    pub(super) url: bool,
}

impl Shows {
    /// What the host declared.
    pub(super) fn of(capabilities: &str) -> Self {
        let json = Json::validate(capabilities.as_bytes(), Strictness::Envelope).ok();
        let elicitation = json.and_then(|json| json.get("elicitation"));
        let Some(elicitation) = elicitation.filter(|declared| declared.is_object()) else {
            return Self::default();
        };
        // An empty declaration means forms; one that names modes must name this one.
        let is_empty = elicitation.members().next().is_none();
        Self {
            form: is_empty || elicitation.get("form").is_some(),
            url: elicitation.get("url").is_some(),
        }
    }
}

/// Whether a call can be answered with a question of ours. One that carries what its server asked cannot:
/// there is one place for a state.
pub(super) fn is_possible(attempt: &Attempt, back: Option<&Back>) -> bool {
    let frame = &attempt.frame;
    attempt.host.era == Era::Stateless
        && may_ask(frame.method().unwrap_or_default())
        && frame.param(REQUEST_STATE).is_none()
        && frame.param(INPUT_RESPONSES).is_none()
        && back.is_none_or(|back| back.asked < MAX_ASKED)
}

/// The answer that asks the host to come again; `None` where it is told in words instead.
pub(crate) fn question(
    hold: &Hold,
    asks: Asks<'_>,
    back: Option<&Back>,
    parking: &Parking,
) -> Option<Bytes> {
    let attempt = &hold.call().attempt;
    if !is_possible(attempt, back) {
        return None;
    }
    let (name, params, meta) = match asks {
        Asks::Confirmation => (CONFIRMATION, confirm::params(hold), String::new()),
        Asks::Approval(id, url) => {
            if back.and_then(|back| back.says(APPROVAL)) == Some(false) {
                return None;
            }
            let lines = approval_lines(hold.ruling(), id, url);
            let params = shown(Shows::of(&attempt.host.capabilities), &lines, url)?;
            (APPROVAL, params, approval_meta(id, url))
        }
    };
    let asked = back.map_or(0, |back| back.asked) + 1;
    let state = quote(&parking.hold(attempt, hold.binding(), asked));
    let method = methods::ELICITATION;
    let result = format!(
        r#"{{"resultType":"{INPUT_REQUIRED}","inputRequests":{{"{name}":{{"method":"{method}","params":{params}}}}},"requestState":{state}{meta}}}"#
    );
    let answer = message::result(attempt.frame.id()?, &result);
    let method = attempt.frame.method().unwrap_or_default();
    Some(for_stateless_host(answer, method))
}

/// The question about an approval: the page itself where the host can open it.
fn shown(shows: Shows, lines: &str, url: &str) -> Option<String> {
    let (lines, url) = (quote(lines), quote(url));
    match shows {
        Shows { url: true, .. } => {
            Some(format!(r#"{{"mode":"url","message":{lines},"url":{url}}}"#))
        }
        Shows { form: true, .. } => Some(confirm::form(&lines)),
        Shows { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elicitation_uses_only_the_modes_a_host_supports() {
        for (capabilities, form, url) in [
            ("{}", false, false),
            (r#"{"elicitation":{}}"#, true, false),
            (r#"{"elicitation":{"form":{}}}"#, true, false),
            (r#"{"elicitation":{"url":{}}}"#, false, true),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, true, true),
            (r#"{"elicitation":null}"#, false, false),
            (r#"{"sampling":{}}"#, false, false),
        ] {
            let shows = Shows::of(capabilities);
            assert_eq!((shows.form, shows.url), (form, url), "{capabilities}");
        }
    }
}
