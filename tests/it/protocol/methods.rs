//! Requests and notifications in a session: answered by the gateway, forwarded, or refused.

use callgate_testkit::frame::{items, member};
use callgate_testkit::weird;

use super::{Door, SEVERAL, SMALL, error, request, result};
use crate::setup::{Bed, VERSION};

#[test]
fn pings_are_answered_by_the_gateway() {
    let bed = Bed::new(SMALL);
    let (doors, _served) = Door::both(&bed, VERSION);
    for mut door in doors {
        door.assert_works("the start");
        assert_eq!(
            door.ask(&request("1", "ping", r#"{"x":1}"#)),
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#
        );
    }
    let log = weird::read_log(&bed.path("upstream.log")).expect("a log");
    assert!(!log.iter().any(|(_, line)| line.contains("\"ping\"")));
}

#[test]
fn unknown_methods_are_refused_with_several_upstreams_and_pass_with_one() {
    let bed = Bed::new(SEVERAL);
    let (doors, _served) = Door::both(&bed, VERSION);
    for mut door in doors {
        for method in ["x/custom", "tools/Call", "resources/List", "tasks/list", ""] {
            let answer = door.ask(&request("1", method, "{}"));
            let expected = format!(r#"{{"code":-32601,"message":"method `{method}` not found"}}"#);
            assert_eq!(error(&answer), expected, "{}", door.name());
        }
    }
    let bed = Bed::new(SMALL);
    let (doors, _served) = Door::both(&bed, VERSION);
    for mut door in doors {
        let answer = door.ask(&request("1", "x/custom", "{}"));
        assert_eq!(
            result(&answer),
            r#"{"any":[1.0,null,{"":-0}],"text":"\u0041"}"#
        );
        let answer = door.ask(&request("2", "x/nobody", "{}"));
        let theirs = r#"{"code":-32601,"message":"no such method","data":{"x":1.0}}"#;
        assert_eq!(error(&answer), theirs);
    }
}

#[test]
fn errors_for_unknown_tools_name_the_choices() {
    let bed = Bed::new(SEVERAL);
    let (doors, _served) = Door::both(&bed, VERSION);
    let counters = "counter__effect, counter__slow, counter__die, counter__grandchild, counter__fail, counter__big, counter__ask, counter__progress, counter__list_change, counter__env, counter__read_thing, counter__delete_thing, counter__wipe";
    let cases = [
        (
            "echo_raw",
            "unknown tool `echo_raw`: no such server; servers: weird, counter".to_owned(),
        ),
        (
            "nobody__x",
            "unknown tool `nobody__x`: no such server; servers: weird, counter".to_owned(),
        ),
        (
            "nobody:x",
            "unknown tool `nobody:x`: no such server; servers: weird, counter".to_owned(),
        ),
        (
            "",
            "unknown tool ``: no such server; servers: weird, counter".to_owned(),
        ),
        (
            "counter__nope",
            format!("unknown tool `counter__nope` of server `counter`; its tools: {counters}"),
        ),
        (
            "counter:nope",
            format!("unknown tool `counter:nope` of server `counter`; its tools: {counters}"),
        ),
    ];
    for mut door in doors {
        for (name, message) in &cases {
            let params = format!(r#"{{"name":"{name}","arguments":{{}}}}"#);
            let answer = door.ask(&request("1", "tools/call", &params));
            let expected = format!(r#"{{"code":-32602,"message":"{message}"}}"#);
            assert_eq!(error(&answer), expected, "{}", door.name());
        }
        for params in ["{}", "[]", r#"{"name":7}"#, r#"{"name":null}"#] {
            let answer = door.ask(&request("1", "tools/call", params));
            let expected =
                r#"{"code":-32602,"message":"`params.name` must be the name of a tool"}"#;
            assert_eq!(error(&answer), expected, "{params}");
        }
    }
}

#[test]
fn lists_hold_both_upstreams_in_configuration_order() {
    let bed = Bed::new(SEVERAL);
    let (doors, _served) = Door::both(&bed, VERSION);
    for mut door in doors {
        let list = door.ask(&request("1", "tools/list", "{}"));
        let list = result(&list);
        let tools = member(&list, "tools").and_then(items).expect("tools");
        let names: Vec<&str> = tools
            .iter()
            .filter_map(|tool| member(tool, "name"))
            .collect();
        assert_eq!(names.first(), Some(&r#""weird__echo_raw""#));
        assert_eq!(names.last(), Some(&r#""counter__wipe""#));
        let of_weird = names
            .iter()
            .take_while(|name| name.starts_with("\"weird__"));
        assert_eq!(of_weird.count() + 13, names.len());
        assert_eq!(
            member(&list, "_meta"),
            None,
            "with several upstreams it would have no owner"
        );
        let bad = door.ask(&request("2", "tools/list", r#"{"cursor":"theirs"}"#));
        let expected =
            r#"{"code":-32602,"message":"`cursor` is invalid: this gateway did not issue it"}"#;
        assert_eq!(error(&bad), expected);
    }
}

#[test]
fn stray_cancellations_and_replies_are_ignored() {
    let bed = Bed::new(SMALL);
    let (doors, _served) = Door::both(&bed, VERSION);
    let stray = [
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":""}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":""}}"#,
    ];
    for mut door in doors {
        for line in stray {
            door.tell(line);
            door.assert_works(line);
        }
    }
    let log = weird::read_log(&bed.path("upstream.log")).expect("a log");
    let passed_on = log.iter().filter(|(_, line)| line.contains("cancelled"));
    assert_eq!(passed_on.count(), 0, "the upstream has nothing to cancel");
}

#[test]
fn a_request_id_still_in_use_is_refused() {
    let bed = Bed::new(SMALL);
    let mut host = bed.stdio_ready();
    let ask = |id: &str| request(id, "tools/call", r#"{"name":"ask_roots"}"#);
    host.send(&ask("\"a\"")).expect("it is read");
    let question = host
        .recv_where(|frame| frame.method.as_deref() == Some("roots/list"))
        .expect("a question");
    host.send(&ask(r#""\u0061""#)).expect("it is read");
    let refused = host.recv().expect("an answer");
    assert_eq!(
        error(&refused),
        r#"{"code":-32600,"message":"a request with this id is still in flight"}"#
    );
    let question = callgate_testkit::Frame::parse(&question).expect("a frame");
    let answer = weird::answer(&question).expect("roots can be told");
    host.send(&answer).expect("it is read");
    let response = host
        .recv_where(|frame| frame.answers("\"a\""))
        .expect("the first is answered");
    assert!(weird::echoed(&response).is_some(), "{response}");
}

#[test]
fn requests_without_an_id_reach_no_upstream() {
    let bed = Bed::new(SMALL);
    let (doors, _served) = Door::both(&bed, VERSION);
    let smuggled = [
        "tools/call",
        "x/custom",
        "tools/list",
        "Notifications/x",
        "",
    ];
    for (at, mut door) in doors.into_iter().enumerate() {
        door.assert_works("the start");
        for method in smuggled {
            door.tell(&format!(
                r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"name":"echo_raw","smuggled":1}}}}"#
            ));
        }
        // Forwarded messages keep their order, so this one comes last.
        let last = format!("notifications/last{at}");
        door.tell(&format!(r#"{{"jsonrpc":"2.0","method":"{last}"}}"#));
        let came = callgate_testkit::wait_until(std::time::Duration::from_secs(10), || {
            bed.read("upstream.log").contains(&last)
        });
        assert!(came, "{}", door.name());
        assert!(
            !bed.read("upstream.log").contains("smuggled"),
            "{}",
            door.name()
        );
        door.assert_works("all of it");
    }
}
