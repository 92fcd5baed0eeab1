use std::process::Command;

use callgate_testkit::{Frame, Host, StdioHost, bin};
use serde_json::Value;

struct Seen {
    notifications: Vec<Value>,
    questions: Vec<Value>,
    response: Value,
}

fn connect() -> StdioHost {
    StdioHost::connect(&mut Command::new(bin("conformance-upstream")), "2025-11-25")
        .expect("it shakes hands")
}

fn ask(host: &mut StdioHost, method: &str, params: &str) -> Seen {
    let line = format!(r#"{{"jsonrpc":"2.0","id":"c","method":"{method}","params":{params}}}"#);
    let mut answer = |question: &Frame| {
        let id = question.id.clone()?;
        let result = match question.method.as_deref()? {
            "sampling/createMessage" => {
                r#"{"role":"assistant","content":{"type":"text","text":"said"},"model":"m"}"#
            }
            _ => r#"{"action":"accept","content":{"username":"u"}}"#,
        };
        Some(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#
        ))
    };
    let frames = host.exchange(&line, &mut answer).expect("it answers");
    let mut frames: Vec<Value> = frames
        .iter()
        .map(|raw| serde_json::from_str(raw).expect("JSON"))
        .collect();
    let response = frames.pop().expect("a response");
    let (questions, notifications) = frames
        .into_iter()
        .partition(|frame| frame.get("id").is_some());
    Seen {
        notifications,
        questions,
        response,
    }
}

fn call(host: &mut StdioHost, tool: &str) -> Seen {
    let params = format!(
        r#"{{"name":"{tool}","arguments":{{"prompt":"p","message":"m"}},"_meta":{{"progressToken":"t"}}}}"#
    );
    ask(host, "tools/call", &params)
}

#[test]
fn every_listed_tool_answers_with_content() {
    let mut host = connect();
    let listed = ask(&mut host, "tools/list", "{}").response;
    let tools = listed["result"]["tools"]
        .as_array()
        .expect("an array")
        .clone();
    assert_eq!(tools.len(), 28);
    for tool in &tools {
        let name = tool["name"].as_str().expect("a name");
        assert!(
            tool["description"].is_string() && tool["inputSchema"].is_object(),
            "{name}"
        );
        let result = call(&mut host, name).response["result"].clone();
        assert!(
            result["content"]
                .as_array()
                .is_some_and(|content| !content.is_empty()),
            "{name}: {result}"
        );
        assert_eq!(
            result["isError"] == true,
            name == "test_error_handling",
            "{name}"
        );
    }
}

#[test]
fn reporting_tools_send_progress_and_logs() {
    let mut host = connect();
    let progress = call(&mut host, "test_tool_with_progress").notifications;
    let steps: Vec<_> = progress
        .iter()
        .map(|frame| frame["params"]["progress"].as_u64())
        .collect();
    assert_eq!(steps, [Some(0), Some(50), Some(100)]);
    assert_eq!(
        call(&mut host, "test_tool_with_logging")
            .notifications
            .len(),
        3
    );
    ask(&mut host, "logging/setLevel", r#"{"level":"error"}"#);
    assert_eq!(
        call(&mut host, "test_tool_with_logging")
            .notifications
            .len(),
        0
    );
}

#[test]
fn asking_tools_ask_and_return_the_answer() {
    let mut host = connect();
    let cases = [
        ("test_sampling", "LLM response: said"),
        (
            "test_elicitation",
            "User response: action=accept, content={\"username\":\"u\"}",
        ),
        (
            "test_elicitation_sep1034_defaults",
            "Elicitation completed: action=accept, content={\"username\":\"u\"}",
        ),
        (
            "test_elicitation_sep1330_enums",
            "Elicitation completed: action=accept, content={\"username\":\"u\"}",
        ),
    ];
    for (tool, text) in cases {
        let seen = call(&mut host, tool);
        assert_eq!(seen.questions.len(), 1, "{tool}");
        assert_eq!(
            seen.response["result"]["content"][0]["text"], text,
            "{tool}"
        );
    }
}

#[test]
fn asking_tools_fail_for_hosts_without_the_capability() {
    let mut host =
        StdioHost::spawn(&mut Command::new(bin("conformance-upstream"))).expect("it starts");
    host.request(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#)
        .expect("it answers");
    for tool in ["test_sampling", "test_elicitation"] {
        assert_eq!(
            call(&mut host, tool).response["result"]["isError"],
            true,
            "{tool}"
        );
    }
}

#[test]
fn resources_prompts_and_completion_are_answered() {
    let mut host = connect();
    let cases = [
        (
            "resources/read",
            r#"{"uri":"test://static-text"}"#,
            "This is the content",
        ),
        (
            "resources/read",
            r#"{"uri":"test://static-binary"}"#,
            "blob",
        ),
        (
            "resources/read",
            r#"{"uri":"test://template/123/data"}"#,
            "Data for ID: 123",
        ),
        ("resources/read", r#"{"uri":"test://nowhere"}"#, "-32002"),
        ("resources/list", "{}", "test://watched-resource"),
        (
            "resources/templates/list",
            "{}",
            "test://template/{id}/data",
        ),
        (
            "resources/subscribe",
            r#"{"uri":"test://watched-resource"}"#,
            r#""result":{}"#,
        ),
        (
            "resources/unsubscribe",
            r#"{"uri":"test://watched-resource"}"#,
            r#""result":{}"#,
        ),
        ("prompts/list", "{}", "test_prompt_with_image"),
        (
            "prompts/get",
            r#"{"name":"test_simple_prompt"}"#,
            "This is a simple prompt for testing.",
        ),
        (
            "prompts/get",
            r#"{"name":"test_prompt_with_arguments","arguments":{"arg1":"one","arg2":"two"}}"#,
            "arg1='one', arg2='two'",
        ),
        (
            "prompts/get",
            r#"{"name":"test_prompt_with_embedded_resource","arguments":{"resourceUri":"test://r"}}"#,
            "test://r",
        ),
        (
            "prompts/get",
            r#"{"name":"test_prompt_with_image"}"#,
            "image/png",
        ),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"test_prompt_with_arguments"},"argument":{"name":"arg1","value":"par"}}"#,
            "paris",
        ),
        ("ping", "{}", r#""result":{}"#),
    ];
    for (method, params, expected) in cases {
        let response = ask(&mut host, method, params).response.to_string();
        assert!(response.contains(expected), "{method} {params}: {response}");
    }
}
