//! A held call of a host that can be asked in an answer: the answer carries a question and a sealed state, and the host
//! returns with both. The gateway keeps nothing meanwhile.
//!
//! The host's answer is at most a confirmation. Accepting the question about an approval means that the host wants to
//! continue; it does not approve the call.

use bytes::Bytes;
use callgate_gate::{ApprovalId, Attempt, Hold};
use callgate_wire::{
    Era, Json, Strictness, message, methods, quote,
    stateless::{INPUT_REQUIRED, INPUT_RESPONSES, REQUEST_STATE, may_ask},
};

use super::confirm;
use crate::{
    finish::{approval_lines, approval_meta, for_stateless_host},
    parking::{Parking, ReturningHost},
};

/// The key of the confirmation in `inputRequests`.
pub(super) const CONFIRMATION: &str = "confirmation";
/// The key of the approval in `inputRequests`.
const APPROVAL: &str = "approval";
/// How often a host may return with one call. A host that accepts without asking its user would otherwise loop for ever; it
/// then gets the refusal in words.
const MAX_RETURNS: u8 = 10;

/// The question that a host puts to its user.
#[derive(Debug, Clone, Copy)]
pub(crate) enum HostQuestion<'a> {
    /// Whether the call is intended.
    Confirmation,
    /// The id of the pending approval, and where it is decided.
    Approval(&'a ApprovalId, &'a str),
}

/// The elicitation modes that a host supports.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ElicitationModes {
    pub(super) form: bool,
    pub(super) url: bool,
}

impl ElicitationModes {
    pub(super) fn of(capabilities: &str) -> Self {
        let json = Json::validate(capabilities.as_bytes(), Strictness::Envelope).ok();
        let elicitation = json.and_then(|json| json.get("elicitation"));
        let Some(elicitation) = elicitation.filter(|declared| declared.is_object()) else {
            return Self::default();
        };
        // By the specification an empty declaration means forms, for compatibility with hosts older than the modes.
        let is_empty = elicitation.members().next().is_none();
        Self {
            form: is_empty || elicitation.get("form").is_some(),
            url: elicitation.get("url").is_some(),
        }
    }
}

/// Whether a call can be answered with a question of the gateway.
pub(super) fn is_possible(attempt: &Attempt, returning: Option<&ReturningHost>) -> bool {
    let frame = &attempt.frame;
    // A request that answers its server's question carries the server's state, and a request has room for one.
    attempt.host.era == Era::Stateless
        && may_ask(frame.method().unwrap_or_default())
        && frame.param(REQUEST_STATE).is_none()
        && frame.param(INPUT_RESPONSES).is_none()
        && returning.is_none_or(|returning| returning.asked < MAX_RETURNS)
}

/// The answer that asks the host to return; `None` where the refusal is given in words instead.
pub(crate) fn question(
    hold: &Hold,
    asks: HostQuestion<'_>,
    returning: Option<&ReturningHost>,
    parking: &Parking,
) -> Option<Bytes> {
    let attempt = &hold.call().attempt;
    if !is_possible(attempt, returning) {
        return None;
    }
    let (name, params, meta) = match asks {
        HostQuestion::Confirmation => (CONFIRMATION, confirm::params(hold), String::new()),
        HostQuestion::Approval(id, url) => {
            // After its user declined, the host gets the refusal in words and not the same question again.
            if returning.and_then(|returning| returning.answer_to(APPROVAL)) == Some(false) {
                return None;
            }
            let lines = approval_lines(hold.ruling(), id, url);
            let params = approval_question(
                ElicitationModes::of(&attempt.host.capabilities),
                &lines,
                url,
            )?;
            (APPROVAL, params, approval_meta(id, url))
        }
    };
    let asked = returning.map_or(0, |returning| returning.asked) + 1;
    let state = quote(&parking.hold(attempt, hold.binding(), asked));
    let method = methods::ELICITATION;
    let result = format!(
        r#"{{"resultType":"{INPUT_REQUIRED}","inputRequests":{{"{name}":{{"method":"{method}","params":{params}}}}},"requestState":{state}{meta}}}"#
    );
    let answer = message::result(attempt.frame.id()?, &result);
    let method = attempt.frame.method().unwrap_or_default();
    Some(for_stateless_host(answer, method))
}

/// The question about an approval: the approval page if the host can open it, else a form.
fn approval_question(modes: ElicitationModes, lines: &str, url: &str) -> Option<String> {
    let (lines, url) = (quote(lines), quote(url));
    match modes {
        ElicitationModes { url: true, .. } => {
            Some(format!(r#"{{"mode":"url","message":{lines},"url":{url}}}"#))
        }
        ElicitationModes { form: true, .. } => Some(confirm::form(&lines)),
        ElicitationModes { .. } => None,
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
            let modes = ElicitationModes::of(capabilities);
            assert_eq!((modes.form, modes.url), (form, url), "{capabilities}");
        }
    }
}
