use super::{function::escaped, *};
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
        ("a{{/* }} \" */}}b {{- /* x */ -}} c", "abc"),
        (r#"{{index (split "x, y" ",") 1}}"#, "y"),
        ("{{len .inputs.list}} {{len .inputs.name}}", "2 4"),
        (
            r#"{{printf "%s-%03d-%.1f%%|%-4s|%4s|" .inputs.name .inputs.n 1.25 "a" "b"}}"#,
            "it's-003-1.2%|a   |   b|",
        ),
        (r#"{{print "a" 1 2 "b"}}"#, "a1 2b"),
        (r#"{{slice .inputs.name 0 2}}"#, "it"),
        ("{{(index .states.my-step.JSON.a 1).b}}", "2"),
    ] {
        let read = Template::read(template).expect(template);
        let rendered = read.render(&scope());
        assert_eq!(rendered.as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn templates_branch_and_repeat() {
    for (template, expected) in [
        ("{{if .inputs.yes}}a{{else}}b{{end}}", "a"),
        ("{{if not .inputs.yes}}a{{else}}b{{end}}", "b"),
        (
            "{{if eq .inputs.n 1 2}}a{{else if ge .inputs.n 3}}b{{else}}c{{end}}.",
            "b.",
        ),
        (
            r#"{{if and (gt .inputs.n 1) (ne .inputs.name "x")}}both{{end}}"#,
            "both",
        ),
        ("{{if or .inputs.yes .inputs.none}}short{{end}}", "short"),
        ("{{range .inputs.list}}[{{.}}]{{end}}", "[a][b]"),
        (
            "{{range $i, $x := .inputs.list}}{{if $i}}, {{end}}{{$x}} of {{$.inputs.n}}{{end}}",
            "a of 3, b of 3",
        ),
        (
            "{{range .states.my-step.JSON}}{{.}}{{else}}none{{end}}",
            r#"[1,{"b":2}]"#,
        ),
        (r#"{{range split "" ","}}[{{.}}]{{end}}"#, "[]"),
        ("{{range 3}}{{.}}{{end}}", "012"),
        (
            "{{range 9}}{{if eq . 1}}{{continue}}{{end}}{{if eq . 3}}{{break}}{{end}}{{.}}{{end}}",
            "02",
        ),
        (
            "{{with .states.my-step.JSON}}{{len .a}}{{else}}none{{end}}",
            "2",
        ),
        ("{{with nil}}a{{else}}b{{end}}", "b"),
        (
            "{{$sum := 1}}{{range .inputs.list}}{{$sum = .}}{{end}}{{$sum}}",
            "b",
        ),
        (
            "{{range .inputs.list}}\n  {{- if eq . `a`}} one{{else}} other{{end}}\n{{- end}}",
            " one other",
        ),
    ] {
        let read = Template::read(template).expect(template);
        let rendered = read.render(&scope());
        assert_eq!(rendered.as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn a_preview_keeps_what_has_no_value_as_it_is_written() {
    let text = "{{.inputs.n}} {{.states.none.Output}} {{if .states.none.ExitCode}}a{{else if true}}b{{end}}.";
    let read = Template::read(text).expect("it is a template");
    let expected = text.replace("{{.inputs.n}}", "3");
    assert_eq!(read.preview(&scope()), expected);
    let paths: Vec<String> = read.paths().iter().map(|path| path.join(".")).collect();
    let expected = ["inputs.n", "states.none.Output", "states.none.ExitCode"];
    assert_eq!(paths, expected);
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
        (
            r#"{{if eq .inputs.n "3"}}a{{end}}"#,
            "`eq` takes two or more values of one type",
        ),
        ("{{index .inputs.list 2}}", "`index 2` has no value"),
        ("{{range .inputs.list}}{{.a}}{{end}}", "`.a` has no value"),
        (
            "{{range .inputs.name}}{{end}}",
            "`range` takes a list, a map or a number",
        ),
        (
            r#"{{printf "%d" "x"}}"#,
            "`printf` takes a format, and a value for each `%`",
        ),
        (
            "{{range 2000}}{{range 2000}}{{end}}{{end}}",
            "`range` takes more than 1000000 rounds",
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
        ("{{if .a}}", "`if` is not closed with `{{end}}`"),
        (
            "{{range .a}}{{else}}",
            "`range` is not closed with `{{end}}`",
        ),
        (
            "{{end}}",
            "`end` does not belong to an `if`, `with` or `range`",
        ),
        (
            "{{if .a}}{{else}}{{else}}{{end}}",
            "`if` is not closed with `{{end}}`",
        ),
        (
            "{{if .a}}{{break}}{{end}}",
            "`break` does not belong to an `if`, `with` or `range`",
        ),
        (
            "{{input.a}}",
            "unknown function `input` (functions: json, escape, split, join, trimSpace, readFile, and, or, not, eq, ne, lt, le, gt, ge, len, index, slice, print, println, printf)",
        ),
        ("{{(.a}}", "`(.a` is not a valid template expression"),
        ("{{$x}}", "unknown variable `$x`"),
        ("{{if .a}}{{$x := 1}}{{end}}{{$x}}", "unknown variable `$x`"),
        (
            "{{template `x`}}",
            "unknown function `template` (functions: json, escape, split, join, trimSpace, readFile, and, or, not, eq, ne, lt, le, gt, ge, len, index, slice, print, println, printf)",
        ),
    ] {
        let error = Template::read(template).expect_err(template);
        assert_eq!(error.to_string(), expected);
    }
}

proptest! {
    #[test]
    fn reading_arbitrary_templates_never_panics(text in "([{}|.()a-z \"`\\\\$0-9é-]|\\{\\{(if|with|range|else|end|break)? ?|\\}\\}|/\\*|:=){0,40}") {
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
