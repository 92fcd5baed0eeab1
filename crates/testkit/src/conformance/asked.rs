//! A request to the conformance server, and how it is answered in each form of the protocol.

use std::thread;

use serde_json::{Map, Value, json};

use super::asking::{Asking, Question, capability};
use crate::frame::{Frame, quoted};
use crate::serve::Peer;

/// A request, and what is known about its client.
#[derive(Debug)]
pub struct Asked<'a> {
    /// The server that asks.
    pub peer: &'a Peer,
    /// The request.
    pub frame: &'a Frame,
    /// Whether it is of 2026-07-28.
    pub is_stateless: bool,
    /// What the client can be asked.
    pub capabilities: Value,
}

impl Asked<'_> {
    /// Answers; a result of 2026-07-28 says what it is.
    pub fn reply(&self, mut result: Value) {
        if self.is_stateless && result["resultType"].is_null() {
            result["resultType"] = json!("complete");
        }
        self.peer.reply(self.frame, &result.to_string());
    }

    /// Answers with something that may be kept for a moment.
    pub fn reply_cacheable(&self, mut result: Value) {
        if self.is_stateless {
            result["ttlMs"] = json!(1000);
            result["cacheScope"] = json!("public");
        }
        self.reply(result);
    }

    /// Answers with one text block.
    pub fn reply_text(&self, text: &str) {
        self.reply(json!({"content": [{"type": "text", "text": text}]}));
    }

    /// Answers with one text block that reports a failure.
    pub fn reply_failure(&self, text: &str) {
        self.reply(json!({"content": [{"type": "text", "text": text}], "isError": true}));
    }

    /// Answers with an error.
    pub fn fail(&self, code: i64, message: &str, data: Value) {
        let error = json!({"code": code, "message": message, "data": data});
        self.peer.fail(self.frame, &error.to_string());
    }

    /// A string among the params.
    pub fn text(&self, name: &str) -> String {
        text_param(self.frame, name)
    }

    /// A member of the params.
    pub fn value(&self, name: &str) -> Value {
        let raw = self.frame.param(name);
        raw.and_then(|raw| serde_json::from_str(raw).ok())
            .unwrap_or_default()
    }
}

fn text_param(request: &Frame, name: &str) -> String {
    request
        .param(name)
        .and_then(|raw| serde_json::from_str(raw).ok())
        .unwrap_or_default()
}

/// Asks, in the way of the request's form, and answers once everything is known.
pub fn ask(
    asked: &Asked<'_>,
    wanted: &Asking,
    name: &str,
    concluded: impl Fn(&Map<String, Value>) -> Value,
) {
    let lacking = |question: &&Question| {
        asked
            .capabilities
            .get(capability(question.method))
            .is_none()
    };
    let lacking = wanted.rounds.iter().flatten().find(lacking);
    match lacking.map(|question| capability(question.method)) {
        Some(lacking) if asked.is_stateless => {
            let data = json!({"requiredCapabilities": {lacking: {}}});
            return asked.fail(-32021, "the client cannot be asked", data);
        }
        Some(lacking) if !wanted.is_careless => {
            return asked.reply_failure(&format!("the client does not support {lacking}"));
        }
        Some(_) | None => {}
    }
    if asked.is_stateless {
        return ask_in_answers(asked, wanted, name, concluded);
    }
    let mut answers = Map::new();
    for round in &wanted.rounds {
        let asking = |question: &Question| {
            let (key, method, params) = (quoted(question.key), question.method, &question.params);
            let line =
                format!(r#"{{"jsonrpc":"2.0","id":{key},"method":"{method}","params":{params}}}"#);
            asked
                .peer
                .ask_as(&key, &line)
                .and_then(|answer| answer.result)
        };
        let given: Vec<Option<String>> = thread::scope(|scope| {
            let threads: Vec<_> = round
                .iter()
                .map(|one| scope.spawn(move || asking(one)))
                .collect();
            let joined = threads
                .into_iter()
                .map(|thread| thread.join().ok().flatten());
            joined.collect()
        });
        for (question, given) in round.iter().zip(given) {
            let Some(given) = given.and_then(|raw| serde_json::from_str(&raw).ok()) else {
                return asked.reply_failure("the client did not answer");
            };
            answers.insert(question.key.to_owned(), given);
        }
    }
    asked.reply(concluded(&answers));
}

/// Questions of 2026-07-28 are answers, and nothing is remembered between requests.
fn ask_in_answers(
    asked: &Asked<'_>,
    wanted: &Asking,
    name: &str,
    concluded: impl Fn(&Map<String, Value>) -> Value,
) {
    let state = asked.value("requestState");
    let state_of = |round: usize| json!(format!("{name}/{round}"));
    let reached = match &state {
        Value::Null => 0,
        state => match (0..wanted.rounds.len()).find(|round| state_of(*round) == *state) {
            Some(round) => round,
            None => return asked.fail(-32602, "the state was tampered with", Value::Null),
        },
    };
    let responses = asked.value("inputResponses");
    let questions = &wanted.rounds[reached];
    let answered = |question: &Question| responses[question.key].is_object();
    let next = match questions.iter().all(answered) {
        true if reached + 1 == wanted.rounds.len() => {
            let answers = responses.as_object().cloned().unwrap_or_default();
            return asked.reply(concluded(&answers));
        }
        true => reached + 1,
        false => reached,
    };
    let questions: Map<String, Value> = wanted.rounds[next]
        .iter()
        .map(|question| {
            let asked = json!({"method": question.method, "params": question.params});
            (question.key.to_owned(), asked)
        })
        .collect();
    let mut result = json!({"resultType": "input_required", "inputRequests": questions});
    if wanted.has_state {
        result["requestState"] = state_of(next);
    }
    asked.reply(result);
}
