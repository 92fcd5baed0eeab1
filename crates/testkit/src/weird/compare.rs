//! Comparing what a host saw directly with what it saw through a gateway.
//!
//! A gateway owns very little: the ids of its own questions to the host, how a list is put together,
//! and where between the frames of calls a notification that belongs to no call arrives. All else is bytes.

use std::fmt;

use super::Exchange;
use crate::frame::{self, Frame, Kind};

/// Where two transcripts differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The script's steps themselves: a step is missing on one side.
    Step,
    /// The id of the response.
    Id,
    /// The raw result or error.
    Response,
    /// The response's line around an equal result: whitespace, order or unknown envelope members.
    Envelope,
    /// An item of a list, by its index.
    ListItem(usize),
    /// A member of a list's result beside its items.
    ListMember(String),
    /// The progress of the call, in order.
    Progress,
    /// A question to the host during the call: its method or params.
    Question,
    /// The notifications that belong to no call, as one stream over the whole script.
    Notification,
}

/// One difference, with both sides as raw text; a side that is absent is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The name of the script's step.
    pub step: String,
    /// Where.
    pub place: Place,
    /// What came directly.
    pub direct: String,
    /// What came through the gateway.
    pub through: String,
}

/// Lists every difference between two runs of the script.
pub fn compare(direct: &[Exchange], through: &[Exchange]) -> Vec<Difference> {
    let mut found = Vec::new();
    for index in 0..direct.len().max(through.len()) {
        match (direct.get(index), through.get(index)) {
            (Some(direct), Some(through)) if direct.name == through.name => {
                compare_exchange(direct, through, &mut found);
            }
            (direct, through) => {
                let name =
                    |side: Option<&Exchange>| side.map(|e| e.name.clone()).unwrap_or_default();
                found.push(Difference {
                    step: name(direct.or(through)),
                    place: Place::Step,
                    direct: name(direct),
                    through: name(through),
                });
            }
        }
    }
    let mut sides = Sides {
        step: "the whole script",
        found: &mut found,
    };
    sides.rows(
        &Place::Notification,
        &stray_notifications(direct),
        &stray_notifications(through),
    );
    found
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cut = |text: &str| text.chars().take(300).collect::<String>();
        writeln!(out, "{}: {:?}", self.step, self.place)?;
        writeln!(out, "  direct:  {}", cut(&self.direct))?;
        write!(out, "  through: {}", cut(&self.through))
    }
}

struct Sides<'a> {
    step: &'a str,
    found: &'a mut Vec<Difference>,
}

impl Sides<'_> {
    /// Notes a difference if there is one; true when the sides are equal.
    fn same(&mut self, place: Place, direct: &str, through: &str) -> bool {
        if direct != through {
            self.found.push(Difference {
                step: self.step.to_owned(),
                place,
                direct: direct.to_owned(),
                through: through.to_owned(),
            });
        }
        direct == through
    }

    fn rows(&mut self, place: &Place, direct: &[String], through: &[String]) {
        for index in 0..direct.len().max(through.len()) {
            let row = |side: &[String]| side.get(index).cloned().unwrap_or_default();
            self.same(place.clone(), &row(direct), &row(through));
        }
    }
}

fn compare_exchange(direct: &Exchange, through: &Exchange, found: &mut Vec<Difference>) {
    let mut sides = Sides {
        step: &direct.name,
        found,
    };
    sides.rows(&Place::Progress, &progress(direct), &progress(through));
    sides.rows(&Place::Question, &questions(direct), &questions(through));
    let (Some(left), Some(right)) = (response(direct), response(through)) else {
        let last = |side: &Exchange| side.received.last().cloned().unwrap_or_default();
        sides.same(Place::Response, &last(direct), &last(through));
        return;
    };
    let id = |frame: &Frame| frame.id.clone().unwrap_or_default();
    sides.same(Place::Id, &id(&left), &id(&right));
    if let Some(key) = list_key(direct) {
        compare_lists(&mut sides, key, &left, &right);
        return;
    }
    let body = |frame: &Frame| {
        frame
            .result
            .clone()
            .or(frame.error.clone())
            .unwrap_or_default()
    };
    if sides.same(Place::Response, &body(&left), &body(&right)) {
        sides.same(Place::Envelope, &left.raw, &right.raw);
    }
}

/// Lists are put together by a gateway, so items and members are compared and the frame around them is not.
fn compare_lists(sides: &mut Sides<'_>, key: &str, left: &Frame, right: &Frame) {
    let (left, right) = (left.result.as_deref(), right.result.as_deref());
    let (left, right) = (left.unwrap_or("{}"), right.unwrap_or("{}"));
    let items = |raw| {
        frame::member(raw, key)
            .and_then(frame::items)
            .unwrap_or_default()
    };
    let (ours, theirs) = (items(left), items(right));
    for index in 0..ours.len().max(theirs.len()) {
        let item = |side: &[&str]| side.get(index).copied().unwrap_or_default().to_owned();
        sides.same(Place::ListItem(index), &item(&ours), &item(&theirs));
    }
    let members = |raw| frame::members(raw).unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    for (name, _) in members(left).into_iter().chain(members(right)) {
        if name != key && !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let member = |raw| frame::member(raw, &name).unwrap_or_default();
        sides.same(Place::ListMember(name.clone()), member(left), member(right));
    }
}

fn list_key(exchange: &Exchange) -> Option<&'static str> {
    match Frame::parse(&exchange.sent)?.method.as_deref()? {
        "tools/list" => Some("tools"),
        "resources/list" => Some("resources"),
        "resources/templates/list" => Some("resourceTemplates"),
        "prompts/list" => Some("prompts"),
        _ => None,
    }
}

fn frames(exchange: &Exchange) -> impl Iterator<Item = Frame> {
    exchange
        .received
        .iter()
        .filter_map(|line| Frame::parse(line))
}

fn response(exchange: &Exchange) -> Option<Frame> {
    frames(exchange)
        .filter(|frame| frame.kind() == Kind::Response)
        .last()
}

fn is_progress(frame: &Frame) -> bool {
    frame.method.as_deref() == Some("notifications/progress")
}

fn progress(exchange: &Exchange) -> Vec<String> {
    frames(exchange)
        .filter(is_progress)
        .map(|frame| frame.raw)
        .collect()
}

/// The questions without their ids, which a gateway must choose itself.
fn questions(exchange: &Exchange) -> Vec<String> {
    let asked = frames(exchange).filter(|frame| frame.kind() == Kind::Request);
    asked
        .map(|frame| {
            let method = frame.method.unwrap_or_default();
            format!("{method} {}", frame.params.unwrap_or_default())
        })
        .collect()
}

fn stray_notifications(exchanges: &[Exchange]) -> Vec<String> {
    let all = exchanges.iter().flat_map(frames);
    all.filter(|frame| frame.kind() == Kind::Notification && !is_progress(frame))
        .map(|frame| frame.raw)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(method: &str, received: &[&str]) -> Exchange {
        Exchange {
            name: "step".to_owned(),
            sent: format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#),
            received: received.iter().map(|line| (*line).to_owned()).collect(),
        }
    }

    fn places(method: &str, direct: &[&str], through: &[&str]) -> Vec<Place> {
        let found = compare(&[exchange(method, direct)], &[exchange(method, through)]);
        found
            .into_iter()
            .map(|difference| difference.place)
            .collect()
    }

    #[test]
    fn each_kind_of_loss_is_named() {
        let call = |direct: &str, through: &str| places("tools/call", &[direct], &[through]);
        assert_eq!(
            call(
                r#"{"id":1,"result":{"n":1.0}}"#,
                r#"{"id":1,"result":{"n":1.0}}"#
            ),
            []
        );
        assert_eq!(
            call(
                r#"{"id":1,"result":{"n":1.0}}"#,
                r#"{"id":1,"result":{"n":1}}"#
            ),
            [Place::Response]
        );
        assert_eq!(
            call(r#"{"id":1,"result":{}}"#, r#"{"id":"1","result":{}}"#),
            [Place::Id, Place::Envelope]
        );
        assert_eq!(
            call(r#"{"id":1,"result":{},"x":1}"#, r#"{"id":1,"result":{}}"#),
            [Place::Envelope]
        );
        assert_eq!(
            call(r#"{"id":1,"error":{"x":1}}"#, r#"{"id":1,"error":{}}"#),
            [Place::Response]
        );
    }

    #[test]
    fn a_list_is_compared_by_items_and_members() {
        let direct = [r#"{"id":1,"result":{"tools":[{"a":1.0},{"b":2}],"_meta":{}}}"#];
        let through = [r#"{"id":1,"result":{ "tools":[ {"a":1.0} , {"b": 2}]}}"#];
        let expected = [Place::ListItem(1), Place::ListMember("_meta".to_owned())];
        assert_eq!(places("tools/list", &direct, &through), expected);
    }

    #[test]
    fn a_question_may_change_its_id_but_not_its_params() {
        let end = r#"{"id":1,"result":{}}"#;
        let asked = r#"{"id":5,"method":"roots/list","params":{"n":1.0}}"#;
        let other_id = r#"{"id":"g-1","method":"roots/list","params":{"n":1.0}}"#;
        let other_params = r#"{"id":5,"method":"roots/list","params":{"n":1}}"#;
        assert_eq!(places("tools/call", &[asked, end], &[other_id, end]), []);
        assert_eq!(
            places("tools/call", &[asked, end], &[other_params, end]),
            [Place::Question]
        );
        assert_eq!(
            places("tools/call", &[asked, end], &[end]),
            [Place::Question]
        );
    }

    #[test]
    fn lost_progress_and_lost_notifications_are_differences() {
        let end = r#"{"id":1,"result":{}}"#;
        let progress =
            r#"{"method":"notifications/progress","params":{"progressToken":"t","progress":1.0}}"#;
        let stray = r#"{"method":"vendor/event"}"#;
        assert_eq!(
            places("tools/call", &[progress, end], &[end]),
            [Place::Progress]
        );
        assert_eq!(
            places("tools/call", &[stray, end], &[end]),
            [Place::Notification]
        );
    }

    #[test]
    fn a_missing_step_is_a_difference() {
        let found = compare(&[exchange("ping", &[r#"{"id":1,"result":{}}"#])], &[]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, Place::Step);
    }
}
