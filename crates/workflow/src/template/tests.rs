use super::*;
use proptest::prelude::*;
use serde_json::json;

fn scope() -> Value {
    json!({
        "inputs": {"name": "it's", "n": 3, "list": ["a", "b"], "yes": true},
        "states": {"my-step": {"Output": " out\n", "ExitCode": 0, "JSON": {"a": [1, {"b": 2}]}}},
    })
}

#[test]
fn templates_are_rendered() {
    for (template, expected) in [
        ("plain", "plain"),
        ("", ""),
        ("a {{.inputs.n}} b", "a 3 b"),
        (
            "a {{inputs.n}} {{ inputs.name | escape }} b",
            r"a 3 'it'\''s' b",
        ),
        ("{{escape inputs.name}}", r"'it'\''s'"),
        ("{{ .inputs.yes }}", "true"),
        ("{{.inputs.list}}", r#"["a","b"]"#),
        ("{{.inputs.list.1}}", "b"),
        ("{{escape .inputs.name}}", r"'it'\''s'"),
        ("{{.inputs.name | escape}}", r"'it'\''s'"),
        ("{{trimSpace .states.my-step.Output}}", "out"),
        ("{{json .states.my-step.JSON}}", r#"{"a":[1,{"b":2}]}"#),
        ("{{.states.my-step.JSON.a.1.b}}", "2"),
        (r#"{{join .inputs.list ", "}}"#, "a, b"),
        (r#"{{.inputs.list | join "-"}}"#, "a-b"),
        (r#"{{split "x,y" ","}}"#, r#"["x","y"]"#),
        (r#"{{join (split "x,y" ",") `+`}}"#, "x+y"),
        (r#"{{json "}}"}}"#, r#""}}""#),
        ("{{json true}} {{json 1.5}}", "true 1.5"),
        ("a  {{- 1 -}}  b", "a1b"),
    ] {
        let read = Template::read(template).expect(template);
        let rendered = read.render(&scope());
        assert_eq!(rendered.as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn templates_with_missing_values_are_errors() {
    for (template, expected) in [
        ("{{.inputs.none}}", "`.inputs.none` has no value"),
        ("{{.inputs.name.more}}", "`.inputs.name.more` has no value"),
        (
            "{{.states.none.Output}}",
            "`.states.none.Output` has no value",
        ),
        ("{{.inputs.list.7}}", "`.inputs.list.7` has no value"),
        (
            "{{join .inputs.name `,`}}",
            "`join` takes a list and a separator",
        ),
        (
            "{{split .inputs.name ``}}",
            "`split` takes a text and a separator",
        ),
    ] {
        let read = Template::read(template).expect(template);
        let error = read.render(&scope()).expect_err(template);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn malformed_templates_are_refused() {
    for (template, expected) in [
        ("{{.a", "`{{` is not closed"),
        ("{{", "`{{` is not closed"),
        ("{{}}", "`` is not a valid template expression"),
        ("{{.}}", "`.` is not a valid template expression"),
        ("{{.a..b}}", "`.a..b` is not a valid template expression"),
        ("{{.a .b}}", "`.a .b` is not a valid template expression"),
        (
            "{{.a | .b}}",
            "`.a | .b` is not a valid template expression",
        ),
        (
            "{{if .a}}",
            "unknown function `if` (functions: json, escape, split, join, trimSpace, readFile)",
        ),
        (
            "{{input.a}}",
            "unknown function `input` (functions: json, escape, split, join, trimSpace, readFile)",
        ),
        ("{{(.a}}", "`(.a` is not a valid template expression"),
        ("{{$x}}", "`$x` is not a valid template expression"),
    ] {
        let error = Template::read(template).expect_err(template);
        assert_eq!(error.to_string(), expected);
    }
}

proptest! {
    #[test]
    fn reading_arbitrary_templates_never_panics(text in "[{}|.()a-z \"`\\\\$0-9é-]{0,40}") {
        if let Ok(template) = Template::read(&text) {
            let _ = template.render(&scope());
        }
    }

    #[test]
    fn text_without_braces_is_rendered_unchanged(text in "[^{]{0,60}") {
        let template = Template::read(&text).expect("there is nothing to read");
        prop_assert_eq!(template.render(&Value::Null), Ok(text));
    }

    #[test]
    fn escaped_text_is_one_shell_word(text in "[^\0]{0,40}") {
        let quoted = escaped(&text);
        let out = std::process::Command::new("sh")
            .args(["-c", &format!("printf %s {quoted}")])
            .output()
            .expect("there is a shell");
        prop_assert_eq!(String::from_utf8_lossy(&out.stdout), text);
    }
}
