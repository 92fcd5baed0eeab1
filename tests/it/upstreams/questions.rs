//! Questions of servers: to the host that made the call, and back.

use std::thread;
use std::time::Duration;

use callgate_testkit::{Frame, Host, wait_until};

use crate::setup::Bed;
use crate::talk::{
    DEADLINE, answer_line, call_line, call_text, http_as, parsed, stdio_as, text_of,
};

const ONE: &str = "servers: {x: {command: '@counter@', args: [--ledger, '@dir@/ledger']}}";
const YES: &str = r#"{"action":"accept","content":{"ok":true},"x":1.0}"#;
const CAPABILITIES: &str = r#"{"elicitation":{}}"#;

/// Calls `ask` and answers what is asked; gives the questions and the text of the result.
fn ask(host: &mut dyn Host) -> (Vec<Frame>, String) {
    let mut questions = Vec::new();
    let mut answer = |question: &Frame| {
        questions.push(question.clone());
        Some(answer_line(question, YES))
    };
    let frames = host.exchange(&call_line("1", "x__ask", "{}"), &mut answer);
    let frames = frames.expect("the call is answered");
    let last = frames.last().expect("an exchange ends with its response");
    (questions, text_of(&parsed(last)))
}

#[test]
fn questions_reach_the_host_and_answers_the_server() {
    let bed = Bed::new(ONE);
    let served = bed.serve();
    let hosts: [&mut dyn Host; 2] = [
        &mut stdio_as(&bed, Some(CAPABILITIES)),
        // Over HTTP it comes on the stream that answers the call: there is no other open.
        &mut http_as(&served, CAPABILITIES),
    ];
    for host in hosts {
        let (questions, text) = ask(host);
        assert_eq!(questions.len(), 1);
        assert_eq!(questions[0].method.as_deref(), Some("elicitation/create"));
        assert_eq!(
            questions[0].params.as_deref(),
            Some(
                r#"{"message":"go on?","requestedSchema":{"type":"object","properties":{"ok":{"type":"boolean"}}}}"#
            )
        );
        assert_eq!(text, YES, "the answer passes byte for byte");
        let (questions, _) = ask(host);
        assert_eq!(questions.len(), 1, "and again");
    }
}

#[test]
fn a_hosts_error_answer_reaches_the_server() {
    let bed = Bed::new(ONE);
    let mut host = stdio_as(&bed, Some(CAPABILITIES));
    let no = r#"{"code":-1,"message":"no \u00e9"}"#;
    let mut answer = |question: &Frame| {
        let id = question.id.as_deref().expect("a question has an id");
        Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{no}}}"#))
    };
    let frames = host.exchange(&call_line("1", "x__ask", "{}"), &mut answer);
    let frames = frames.expect("the call is answered");
    assert_eq!(text_of(&parsed(&frames[frames.len() - 1])), no);
}

#[test]
fn the_timeout_is_paused_while_the_host_is_asked() {
    let bed = Bed::new("servers: {x: {command: '@counter@', timeout: 400ms}}");
    let mut host = stdio_as(&bed, Some(CAPABILITIES));
    call_text(&mut host, "x__read_thing", "{}");
    host.send(&call_line("1", "x__ask", "{}"))
        .expect("it reads");
    let question = host.recv().expect("the question comes");
    let question = Frame::parse(&question).expect("it is a frame");
    host.recv_within(Duration::from_millis(1500))
        .expect_err("for three timeouts and more nothing is answered");
    host.send(&answer_line(&question, YES)).expect("it reads");
    assert_eq!(text_of(&parsed(&host.recv().expect("an answer"))), YES);
}

#[test]
fn time_spent_asking_the_host_does_not_count_towards_the_timeout() {
    let bed = Bed::new("servers: {x: {command: '@counter@', timeout: 1s}}");
    let mut host = stdio_as(&bed, Some(CAPABILITIES));
    call_text(&mut host, "x__read_thing", "{}");
    for (after_ms, in_time) in [(600, true), (5000, false)] {
        let arguments = format!(r#"{{"ms":{after_ms}}}"#);
        host.send(&call_line("1", "x__ask", &arguments))
            .expect("it reads");
        let question = host.recv().expect("the question comes");
        let question = Frame::parse(&question).expect("it is a frame");
        host.recv_within(Duration::from_millis(700))
            .expect_err("the person is thinking");
        host.send(&answer_line(&question, YES)).expect("it reads");
        let response = parsed(&host.recv().expect("an answer"));
        assert_eq!(response.get("result").is_some(), in_time, "{response}");
        if !in_time {
            let message = response["error"]["message"].as_str();
            assert_eq!(message, Some("upstream \"x\" timed out after 1s"));
        }
    }
}

#[test]
fn ambiguous_questions_are_passed_to_no_host() {
    let bed = Bed::new(ONE);
    let served = bed.serve();
    let mut busy = http_as(&served, CAPABILITIES);
    let mut asked = http_as(&served, CAPABILITIES);
    let slow = thread::spawn(move || {
        let heard_something = |_: &Frame| panic!("it is asked for another host's call");
        let line = call_line("1", "x__slow", r#"{"key":"k","ms":1500}"#);
        let frames = busy.exchange(&line, &mut { heard_something });
        frames.expect("the slow call is answered")
    });
    assert!(wait_until(DEADLINE, || bed.read("ledger").contains('k')));
    let (questions, text) = ask(&mut asked);
    assert!(questions.is_empty());
    let error = parsed(&text);
    assert_eq!(error["code"], -32603);
    assert_eq!(
        error["message"],
        "the gateway cannot determine which host this request is for"
    );
    slow.join().expect("it was not asked");
    let (questions, text) = ask(&mut asked);
    assert_eq!(
        (questions.len(), text.as_str()),
        (1, YES),
        "alone it is asked"
    );
}

#[test]
fn a_question_is_withdrawn_when_its_call_ends() {
    let bed = Bed::new(ONE);
    let mut host = stdio_as(&bed, Some(CAPABILITIES));
    host.send(&call_line("1", "x__ask", "{}"))
        .expect("it reads");
    let question = host.recv().expect("the question comes");
    let question = Frame::parse(&question).expect("it is a frame");
    host.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#)
        .expect("it reads");
    // A late answer is ignored.
    host.send(&answer_line(&question, YES)).expect("it reads");
    assert_eq!(
        call_text(&mut host, "x__read_thing", r#"{"key":"k"}"#),
        "read k"
    );
}
