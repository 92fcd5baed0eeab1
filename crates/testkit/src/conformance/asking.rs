//! Table: the tools and prompts of the conformance suite that ask the client something, in rounds.

use serde_json::{Map, Value, json};

use super::{defaults, elicitation, enums};

/// Tools whose questions carry a state that the client has to bring back.
const STATEFUL: [&str; 4] = [
    "test_input_required_result_request_state",
    "test_input_required_result_tampered_state",
    "test_input_required_result_multiple_inputs",
    "test_input_required_result_multi_round",
];

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
    let rounds = match only_question(tool, arguments) {
        Some(question) => vec![vec![question]],
        None => several_questions(tool, capabilities)?,
    };
    Some(Asking {
        rounds,
        has_state: STATEFUL.contains(&tool),
        is_careless: tool == "test_missing_capability",
    })
}

/// The question of a tool that asks exactly one.
fn only_question(tool: &str, arguments: &Value) -> Option<Question> {
    let text = |name: &str| arguments[name].as_str().unwrap_or_default();
    Some(match tool {
        "test_sampling" => sample("sampling", text("prompt")),
        "test_elicitation" => elicit("elicitation", elicitation(text("message"))),
        "test_elicitation_sep1034_defaults" => elicit("defaults", defaults()),
        "test_elicitation_sep1330_enums" => elicit("enums", enums()),
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => users_name(),
        "test_input_required_result_sampling" => capital(),
        "test_input_required_result_list_roots" => roots(),
        "test_input_required_result_request_state"
        | "test_input_required_result_tampered_state" => {
            form("confirm", "Please confirm", "ok", "boolean")
        }
        "test_input_required_result_prompt" => {
            let message = "What context should the prompt use?";
            form("user_context", message, "context", "string")
        }
        "test_missing_capability" => sample("needed", "Anything?"),
        _ => return None,
    })
}

/// The rounds of a tool that asks several questions, or only those that the client can answer.
fn several_questions(tool: &str, capabilities: &Value) -> Option<Vec<Vec<Question>>> {
    Some(match tool {
        "test_input_required_result_multiple_inputs" => vec![vec![
            users_name(),
            sample("greeting", "Generate a greeting"),
            roots(),
        ]],
        "test_input_required_result_multi_round" => {
            let color = "Step 2: What is your favorite color?";
            vec![
                vec![form(
                    "step1",
                    "Step 1: What is your name?",
                    "name",
                    "string",
                )],
                vec![form("step2", color, "color", "string")],
            ]
        }
        "test_input_required_result_capabilities" => {
            let both = [("sampling", capital()), ("elicitation", users_name())];
            let declared = |(capability, question): (&str, Question)| {
                capabilities.get(capability).map(|_| question)
            };
            vec![both.into_iter().filter_map(declared).collect()]
        }
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

fn users_name() -> Question {
    form("user_name", "What is your name?", "name", "string")
}

fn capital() -> Question {
    sample("capital_question", "What is the capital of France?")
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
