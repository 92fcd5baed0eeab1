//! What the tools say about themselves, and that they keep to it.

use std::collections::BTreeSet;

use callgate_call::LocalProvider;
use callgate_gate::BuiltinTool;
use serde_json::{Map, Value, json};

use crate::fixture::{Fixture, exchange, json_of};

fn descriptors(fixture: &Fixture) -> Vec<Value> {
    let tools = fixture.builtins().listing().tools.unwrap();
    let parse = |tool: &callgate_gate::Tool| serde_json::from_slice(&tool.descriptor).unwrap();
    tools.iter().map(parse).collect()
}

#[test]
fn six_tools_are_listed_of_which_three_are_read_only() {
    let fixture = Fixture::new();
    let listed: Vec<(String, bool)> = descriptors(&fixture)
        .iter()
        .map(|tool| {
            let name = tool["name"].as_str().unwrap().to_owned();
            (name, tool["annotations"]["readOnlyHint"] == true)
        })
        .collect();
    let expected = [
        ("Bash", false),
        ("Edit", false),
        ("Glob", true),
        ("Grep", true),
        ("Read", true),
        ("Write", false),
    ];
    assert_eq!(
        listed,
        expected.map(|(name, reads)| (name.to_owned(), reads))
    );
    assert_eq!(fixture.builtins().server().to_string(), "builtin");
    assert_eq!(fixture.builtins().root(), fixture.root());
}

/// The table is what the policy judges by, so a schema must not have more than the table.
#[test]
fn every_tool_and_argument_is_in_the_table_that_the_policy_uses() {
    let fixture = Fixture::new();
    let listed = descriptors(&fixture);
    let names: Vec<&str> = listed
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, BuiltinTool::ALL.map(BuiltinTool::name));
    for (tool, descriptor) in BuiltinTool::ALL.into_iter().zip(&listed) {
        let properties = descriptor["inputSchema"]["properties"].as_object();
        let in_schema: BTreeSet<&str> = properties.unwrap().keys().map(String::as_str).collect();
        let in_table = tool.arguments().iter().map(|argument| argument.name);
        assert_eq!(in_schema, in_table.collect(), "{}", tool.name());
    }
}

/// Each argument of a schema is given with another type, and each required one is left out.
#[tokio::test]
async fn every_argument_is_checked_against_its_schema() {
    let fixture = Fixture::new();
    let mut checked = 0;
    for tool in descriptors(&fixture) {
        let name = tool["name"].as_str().unwrap();
        let schema = &tool["inputSchema"];
        let required = schema["required"].as_array().unwrap();
        let mut valid: Map<String, Value> = Map::new();
        for key in required {
            valid.insert(key.as_str().unwrap().to_owned(), json!(format!("{key}")));
        }
        for (key, property) in schema["properties"].as_object().unwrap() {
            let (wrong, wanted) = match property["type"].as_str().unwrap() {
                "string" => (json!(7), "a string"),
                "integer" => (json!("x"), "a non-negative integer"),
                "boolean" => (json!("x"), "true or false"),
                other => panic!("{name} {key}: {other}"),
            };
            let mut arguments = valid.clone();
            arguments.insert(key.clone(), wrong);
            let said = fixture.error(name, arguments.into()).await;
            assert_eq!(said, format!("`{key}` must be {wanted}"), "{name}");
            checked += 1;
        }
        for key in required {
            let key = key.as_str().unwrap();
            let mut arguments = valid.clone();
            arguments.remove(key);
            let said = fixture.error(name, arguments.into()).await;
            assert_eq!(said, format!("`{key}` is missing"), "{name}");
        }
    }
    assert_eq!(checked, 20, "every property of six schemas");
}

#[tokio::test]
async fn arguments_may_be_absent_or_null_but_not_a_list() {
    let fixture = Fixture::new();
    for params in [
        json!({}),
        json!({"arguments": null}),
        json!({"arguments": {}}),
    ] {
        let reply = fixture.forward("Read", &params, exchange()).await.unwrap();
        let said = &json_of(&reply)["result"]["content"][0]["text"];
        assert_eq!(said, "`path` is missing", "{params}");
    }
    for arguments in [json!([1]), json!("x"), json!(3), json!(true)] {
        let said = fixture.error("Read", arguments.clone()).await;
        assert_eq!(said, "the arguments must be an object", "{arguments}");
    }
}

#[tokio::test]
async fn an_unknown_tool_is_a_protocol_error_under_the_same_id() {
    let fixture = Fixture::new();
    let reply = fixture.forward("Delete", &json!({}), exchange()).await;
    let reply = json_of(&reply.unwrap());
    assert_eq!(reply["id"], 7);
    assert_eq!(reply["error"]["code"], -32601);
    assert_eq!(reply["error"]["message"], "unknown tool");
}
