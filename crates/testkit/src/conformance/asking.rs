//! Table: the tools and prompts of the conformance suite that ask the client something, in rounds.

use serde_json::{Map, Value, json};

use super::{defaults, elicitation, enums};

/// One question: what it is called, its method and its params.
#[derive(Debug)]
pub struct Question {
    /// The key in `inputRequests`, and the id where it is asked as a request.
    pub key: &'static str,
    /// The method.
    pub method: &'static str,
    /// The params.
    pub params: Value,
}

/// Something that asks before it answers.
#[derive(Debug)]
pub struct Asking {
    /// What is asked, round by round.
    pub rounds: Vec<Vec<Question>>,
    /// Whether the client has to bring back a state.
    pub has_state: bool,
    /// Whether it asks without looking at what the client can do.
    pub is_careless: bool,
}

/// What a tool asks; `None` for one that asks nothing.
pub fn asking(tool: &str, arguments: &Value, capabilities: &Value) -> Option<Asking> {
    let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
    let plain = |rounds| Asking {
        rounds,
        has_state: false,
        is_careless: false,
    };
    let stateful = |rounds| Asking {
        has_state: true,
        ..plain(rounds)
    };
    Some(match tool {
        "test_sampling" => plain(vec![vec![sample("sampling", &text("prompt"))]]),
        "test_elicitation" => plain(vec![vec![elicit(
            "elicitation",
            elicitation(&text("message")),
        )]]),
        "test_elicitation_sep1034_defaults" => plain(vec![vec![elicit("defaults", defaults())]]),
        "test_elicitation_sep1330_enums" => plain(vec![vec![elicit("enums", enums())]]),
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => {
            plain(vec![vec![form(
                "user_name",
                "What is your name?",
                "name",
                "string",
            )]])
        }
        "test_input_required_result_sampling" => plain(vec![vec![sample(
            "capital_question",
            "What is the capital of France?",
        )]]),
        "test_input_required_result_list_roots" => plain(vec![vec![roots()]]),
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => stateful(vec![vec![form(
            "confirm",
            "Please confirm",
            "ok",
            "boolean",
        )]]),
        "test_input_required_result_multiple_inputs" => stateful(vec![vec![
            form("user_name", "What is your name?", "name", "string"),
            sample("greeting", "Generate a greeting"),
            roots(),
        ]]),
        "test_input_required_result_multi_round" => stateful(vec![
            vec![form(
                "step1",
                "Step 1: What is your name?",
                "name",
                "string",
            )],
            vec![form(
                "step2",
                "Step 2: What is your favorite color?",
                "color",
                "string",
            )],
        ]),
        "test_input_required_result_capabilities" => {
            let both = [
                (
                    "sampling",
                    sample("capital_question", "What is the capital of France?"),
                ),
                (
                    "elicitation",
                    form("user_name", "What is your name?", "name", "string"),
                ),
            ];
            let declared = |(capability, question): (&str, Question)| {
                capabilities.get(capability).map(|_| question)
            };
            plain(vec![both.into_iter().filter_map(declared).collect()])
        }
        "test_input_required_result_prompt" => plain(vec![vec![form(
            "user_context",
            "What context should the prompt use?",
            "context",
            "string",
        )]]),
        "test_missing_capability" => Asking {
            is_careless: true,
            ..plain(vec![vec![sample("needed", "Anything?")]])
        },
        _ => return None,
    })
}

/// The text that a tool answers with once it has all answers.
pub fn conclusion(tool: &str, answers: &Map<String, Value>) -> String {
    let first = answers.values().next().cloned().unwrap_or_default();
    let content = &first["content"];
    match tool {
        "test_sampling" | "test_input_required_result_sampling" => {
            format!(
                "LLM response: {}",
                content["text"].as_str().unwrap_or("no text")
            )
        }
        "test_elicitation" => format!("User response: {}", accepted(&first)),
        "test_elicitation_sep1034_defaults" | "test_elicitation_sep1330_enums" => {
            format!("Elicitation completed: {}", accepted(&first))
        }
        "test_input_required_result_elicitation" => {
            format!("Hello, {}!", content["name"].as_str().unwrap_or("nobody"))
        }
        "test_input_required_result_request_state" => "state-ok".to_owned(),
        _ => format!("answers: {}", Value::Object(answers.clone())),
    }
}

/// The capability that a method needs.
pub fn capability(method: &str) -> &'static str {
    match method {
        "sampling/createMessage" => "sampling",
        "roots/list" => "roots",
        _ => "elicitation",
    }
}

fn accepted(answer: &Value) -> String {
    let action = answer["action"].as_str().unwrap_or("none");
    format!("action={action}, content={}", answer["content"])
}

fn elicit(key: &'static str, params: Value) -> Question {
    Question {
        key,
        method: "elicitation/create",
        params,
    }
}

fn form(key: &'static str, message: &str, name: &str, kind: &str) -> Question {
    let schema =
        json!({"type": "object", "properties": {name: {"type": kind}}, "required": [name]});
    elicit(key, json!({"message": message, "requestedSchema": schema}))
}

fn sample(key: &'static str, text: &str) -> Question {
    let content = json!({"type": "text", "text": text});
    let params = json!({"messages": [{"role": "user", "content": content}], "maxTokens": 100});
    Question {
        key,
        method: "sampling/createMessage",
        params,
    }
}

fn roots() -> Question {
    Question {
        key: "client_roots",
        method: "roots/list",
        params: json!({}),
    }
}
