use std::process::Command;
use std::time::Duration;

use callgate_testkit::frame::{self, Frame};
use callgate_testkit::weird::{self, Direction, Place, replies};
use callgate_testkit::{DataDir, StdioHost, bin, wait_until};

fn connect(data: &DataDir) -> StdioHost {
    let mut command = Command::new(bin("weird-upstream"));
    command.arg("--log").arg(data.path().join("log"));
    StdioHost::connect(&mut command, "2025-11-25").expect("it shakes hands")
}

#[test]
fn every_scripted_reply_is_valid_json() {
    let data = DataDir::new();
    let exchanges = weird::run(&mut connect(&data), "").expect("every step is answered");
    assert_eq!(exchanges.len(), weird::requests().len());
    for exchange in &exchanges {
        let response = exchange.received.last().expect("a response");
        let frame =
            Frame::parse(response).unwrap_or_else(|| panic!("{}: {response:.200}", exchange.name));
        assert!(
            frame.answers(
                &Frame::parse(&exchange.sent)
                    .and_then(|f| f.id)
                    .expect("an id")
            )
        );
        let unknown = frame
            .error
            .as_deref()
            .is_some_and(|error| error.contains("unknown tool"));
        assert!(!unknown, "{}: {response}", exchange.name);
    }
}

#[test]
fn direct_runs_agree_and_a_careless_relay_is_detected() {
    let (first, second) = (DataDir::new(), DataDir::new());
    let direct = weird::run(&mut connect(&first), "").expect("it answers");
    let again = weird::run(&mut connect(&second), "").expect("it answers");
    assert_eq!(weird::compare(&direct, &again), []);

    let mut careless = again;
    for exchange in &mut careless {
        for line in &mut exchange.received {
            // What a relay does that parses numbers and prints them again.
            *line = line.replace("1.0", "1").replace("-0", "0");
        }
    }
    let places: Vec<Place> = weird::compare(&direct, &careless)
        .into_iter()
        .map(|d| d.place)
        .collect();
    for expected in [
        Place::Response,
        Place::Progress,
        Place::Question,
        Place::Notification,
        Place::ListItem(0),
    ] {
        assert!(
            places.contains(&expected),
            "{expected:?} is not in {places:?}"
        );
    }
}

#[test]
fn echo_raw_shows_the_exact_params() {
    let data = DataDir::new();
    let mut host = connect(&data);
    for (name, line) in weird::requests()
        .into_iter()
        .filter(|(name, _)| name.starts_with("echo"))
    {
        let response = host.request(&line).expect("it answers");
        let sent = Frame::parse(&line).and_then(|frame| frame.params);
        assert_eq!(weird::echoed(&response), sent, "{name}");
    }
}

#[test]
fn answers_to_questions_are_echoed_raw() {
    let data = DataDir::new();
    let exchanges = weird::run(&mut connect(&data), "").expect("it answers");
    let answers = [
        ("sampling", replies::SAMPLING_ANSWER),
        ("elicitation", replies::ELICITATION_ANSWER),
        ("roots", replies::ROOTS_ANSWER),
    ];
    for (name, expected) in answers {
        let exchange = exchanges
            .iter()
            .find(|exchange| exchange.name == name)
            .expect("a step");
        assert_eq!(exchange.received.len(), 2, "a question and a response");
        assert_eq!(
            weird::echoed(&exchange.received[1]).as_deref(),
            Some(expected)
        );
    }
}

#[test]
fn the_log_holds_every_frame_of_both_directions() {
    let data = DataDir::new();
    let mut host = connect(&data);
    for line in weird::NOTIFICATIONS {
        host.send(line).expect("it reads");
    }
    let asked = r#"{"jsonrpc":"2.0", "id":1,	"method":"x/custom"}"#;
    let response = host.request(asked).expect("it answers");
    let log = data.path().join("log");
    let read = || weird::read_log(&log).unwrap_or_default();
    assert!(wait_until(Duration::from_secs(5), || read().len()
        >= 4 + weird::NOTIFICATIONS.len()));
    let log = read();
    for line in weird::NOTIFICATIONS.iter().copied().chain([asked]) {
        assert!(
            log.contains(&(Direction::Received, line.to_owned())),
            "{line}"
        );
    }
    assert!(log.contains(&(Direction::Sent, response)));
}

#[test]
fn every_listed_tool_is_scripted_without_duplicate_keys() {
    let script: String = weird::requests()
        .into_iter()
        .map(|(_, line)| line)
        .collect();
    for (name, descriptor) in replies::TOOLS {
        assert!(script.contains(&format!("\"{name}\"")), "{name}");
        let mut keys: Vec<String> = frame::members(descriptor)
            .expect("an object")
            .into_iter()
            .map(|(key, _)| key)
            .collect();
        let count = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), count, "{name}");
    }
}

#[test]
fn known_older_protocol_versions_are_accepted() {
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-06-18", "2025-06-18"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let mut host =
            StdioHost::spawn(&mut Command::new(bin("weird-upstream"))).expect("it starts");
        let response = host.initialize(asked).expect("it answers");
        assert!(
            response.contains(&format!(r#""protocolVersion":"{answered}""#)),
            "{response}"
        );
        assert!(
            host.close(Duration::from_secs(5))
                .expect("it ends by itself")
                .success()
        );
    }
}
