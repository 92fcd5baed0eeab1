use std::time::{Duration, Instant};

use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn scope() -> Value {
    json!({
        "inputs": {
            "mode": "full", "n": 3, "f": 1.5, "yes": true, "no": false, "list": ["a", 1], "path": r"C:\new",
            "größe": 4, "in": "x", "big": u64::MAX, "null": null, "more-list": [[1], "failed"],
        },
        "states": {
            "my-test": {"ExitCode": 1, "Output": "2 failed", "JSON": {"items": [{"name": "a"}, {"name": "b"}]}},
            "check_2": {"ExitCode": 0, "Output": "say \"it's\"\nTESTS_PASSED"},
        },
        "loop": {"item": 2, "index": 2, "first": false, "last": true, "parent": {"index": 0}},
        "env": {"CI": "1"},
        "workflow": {"id": "w1", "name": "ship"},
    })
}

fn result(text: &str) -> String {
    match Expression::read(text) {
        Err(_) => "refused".to_owned(),
        Ok(expression) => match expression.holds(&scope()) {
            Ok(holds) => holds.to_string(),
            Err(ExpressionError::Missing(path)) => format!("missing {path}"),
            Err(_) => "fails".to_owned(),
        },
    }
}

/// Conditions in the language that files had before CEL, with the results of its evaluator.
const BEFORE: &[(&str, &str)] = &[
    ("states.my-test.ExitCode != 0", "true"),
    (".states.my-test.ExitCode == 1.0", "true"),
    ("states.check_2.ExitCode == 0", "true"),
    ("  states.check_2.ExitCode==0  ", "true"),
    ("inputs.mode == 'full'", "true"),
    ("inputs.mode == \"other\"", "false"),
    ("inputs.mode=='full'and inputs.yes", "true"),
    ("inputs.mode != \"\"", "true"),
    ("inputs.yes", "true"),
    ("inputs.yes == true", "true"),
    ("not inputs.yes", "false"),
    ("!inputs.yes or inputs.n >= 3", "true"),
    ("inputs.n < 3 && states.none.Output == 'x'", "false"),
    ("inputs.n == 3 || states.none.Output == 'x'", "true"),
    (
        "inputs.n > 2 and (inputs.n <= 2 or inputs.yes == true)",
        "true",
    ),
    ("states.my-test.Output contains 'failed'", "true"),
    ("states.my-test.Output startsWith '2 '", "true"),
    (
        "not states.my-test.Output endsWith '2 ' and inputs.yes",
        "true",
    ),
    ("states.check_2.Output contains \"TESTS_PASSED\"", "true"),
    ("states.check_2.Output contains 'STOP'", "false"),
    ("states.check_2.Output contains \"it's\"", "true"),
    ("states.check_2.Output contains 'say \"it'", "true"),
    ("states.check_2.Output contains '\n'", "true"),
    ("states.check_2.Output contains '\\n'", "false"),
    ("not states.my-test.Output contains 'passed'", "true"),
    (
        "!(states.my-test.Output contains 'passed') and inputs.yes",
        "true",
    ),
    ("inputs.list contains 1", "true"),
    ("inputs.list contains 1.0", "true"),
    ("inputs.list contains 'b'", "false"),
    ("inputs.list contains (inputs.n == 4)", "false"),
    ("(inputs.list) contains('a')", "true"),
    ("inputs.more-list.1 contains 'fail'", "true"),
    ("'a' < 'b'", "true"),
    ("'B' < 'a'", "true"),
    ("true", "true"),
    ("false", "false"),
    ("inputs.n == '3'", "false"),
    ("inputs.n != '3'", "true"),
    ("inputs.yes == 'true'", "false"),
    ("not not true", "true"),
    ("!!true", "true"),
    ("! not ! false", "true"),
    ("1 == 1 and 2 == 3 or true", "true"),
    ("true or true and false", "true"),
    ("(true or true) and false", "false"),
    ("not false and false", "false"),
    ("not inputs.n == 4", "true"),
    ("!inputs.n == 4", "true"),
    (
        "not inputs.n > 4 and not inputs.mode == 'x' or false",
        "true",
    ),
    ("not (inputs.yes and not (inputs.n == 4))", "false"),
    ("(inputs.n == 3) == inputs.yes", "true"),
    ("(inputs.no or inputs.no) == false", "true"),
    ("inputs.f > 1 and inputs.f <= 1.5", "true"),
    ("inputs.f == 15e-1", "true"),
    ("inputs.n > -1", "true"),
    ("inputs.n >= -9223372036854775808", "true"),
    ("inputs.big == 18446744073709551615", "true"),
    ("inputs.big < 100000000000000000000", "true"),
    ("inputs.path == 'C:\\new'", "true"),
    ("inputs.größe == 4", "true"),
    ("inputs.in == 'x'", "true"),
    ("inputs.null == inputs.n", "false"),
    ("inputs.null == inputs.null", "true"),
    ("states.my-test.JSON.items.1.name == 'b'", "true"),
    (
        "states.my-test.JSON.items.1 == states.my-test.JSON.items.0",
        "false",
    ),
    (
        "states.my-test.JSON.items contains states.my-test.JSON.items.0",
        "true",
    ),
    ("loop.index >= 2", "true"),
    ("loop.last == true", "true"),
    ("loop.first == false", "true"),
    ("loop.item == 2", "true"),
    ("loop.parent.index < 1", "true"),
    ("env.CI == '1'", "true"),
    ("workflow.name == 'ship' and workflow.id != 'x'", "true"),
    ("inputs.mode == 'and'", "false"),
    ("inputs.mode == 'path0'", "false"),
    ("states.none.ExitCode == 0", "missing states.none.ExitCode"),
    (
        "states.none.ExitCode == 0 and false",
        "missing states.none.ExitCode",
    ),
    (
        "states.none.ExitCode == 0 or true",
        "missing states.none.ExitCode",
    ),
    ("true and not states.none.ok", "missing states.none.ok"),
    (
        "states.my-test.JSON.items.2 == 1",
        "missing states.my-test.JSON.items.2",
    ),
    (
        "states.my-test.Output.x == 1",
        "missing states.my-test.Output.x",
    ),
    ("env.HOME2 == 'x'", "false"),
    ("env.HOME2 != 'x'", "true"),
    ("env.HOME2 > 1 or true", "true"),
    ("env.HOME2 > 1", "false"),
    ("inputs.none contains 'x'", "false"),
    ("not (inputs.none startsWith 'x')", "false"),
    ("error.Message != \"\"", "missing error.Message"),
    ("context.User != ''", "missing context.User"),
    ("inputs.n", "fails"),
    ("not inputs.n", "fails"),
    ("inputs.n and true", "fails"),
    ("false or inputs.mode", "fails"),
    ("inputs.mode > 1", "fails"),
    ("inputs.list < inputs.list", "fails"),
    ("inputs.n contains 1", "fails"),
    ("inputs.mode contains 1", "fails"),
    ("", "refused"),
    ("  ", "refused"),
    ("inputs.n ==", "refused"),
    ("inputs.n = 1", "refused"),
    ("inputs.n inputs.yes", "refused"),
    ("(inputs.n", "refused"),
    ("inputs.n)", "refused"),
    ("'open", "refused"),
    ("word", "refused"),
    ("word == 1", "refused"),
    ("inputs", "refused"),
    ("loop", "refused"),
    ("and inputs.yes", "refused"),
    ("inputs.yes and", "refused"),
    ("inputs.yes or or true", "refused"),
    ("inputs.list contains", "refused"),
    ("not", "refused"),
    ("contains", "refused"),
    ("{{.inputs.n}} == 1", "refused"),
    ("inputs..n == 1", "refused"),
    ("inputs.n & true", "refused"),
    ("inputs.n | trimSpace", "refused"),
];

#[test]
fn conditions_from_before_cel_keep_their_results() {
    for (text, expected) in BEFORE {
        assert_eq!(result(text), *expected, "{text}");
    }
}

#[test]
fn conditions_can_use_cel() {
    for (text, expected) in [
        (
            "states.my-test.Output.startsWith('2') && size(inputs.list) == 2",
            "true",
        ),
        (
            "inputs.n + 1 == 4 && -inputs.n < 0 && inputs.n * 2 % 4 == 2",
            "true",
        ),
        ("inputs.n - 1 == 2", "true"),
        ("'a' in inputs.list and not ('b' in inputs.list)", "true"),
        ("inputs.mode in ['full', 'fast']", "true"),
        (
            "inputs.list.contains('a') && inputs.mode.contains('ul')",
            "true",
        ),
        ("inputs.yes ? inputs.n == 3 : states.none.x", "true"),
        ("states.my-test.Output.matches(r'^\\d+ failed$')", "true"),
        ("states.my-test.Output.matches('^\\\\d+ failed$')", "true"),
        ("states.check_2.Output.contains('\\nTESTS')", "true"),
        (
            "states.check_2.Output == 'say \"it\\'s\"\\nTESTS_PASSED'",
            "true",
        ),
        ("states.check_2.Output.contains('''\"it's\"''')", "true"),
        (
            "states.my-test.JSON.items.exists(item, item.name == 'b')",
            "true",
        ),
        ("!states.my-test.JSON.items.all(i, i.name in ['a'])", "true"),
        ("states.my-test.JSON.items[1].name == 'b'", "true"),
        ("(states.my-test.JSON).items[0].name == 'a'", "true"),
        ("{'a': {'b': 1}}.a.b == 1", "true"),
        (
            "has(states.my-test.JSON.items) && !has(states.none.JSON) and not has(loop.none)",
            "true",
        ),
        (
            "states.my-test.JSON.items.exists(i, has(i.name) && !has(i.other))",
            "true",
        ),
        ("type(inputs.n) == int", "true"),
        (
            "states.none.x == 1 || size(inputs.list) == 2",
            "missing states.none.x",
        ),
        ("size(states.none.JSON) == 0", "missing states.none.JSON"),
        ("states.my-test.JSON.items[2].name == 'b'", "fails"),
        ("inputs.n / 0 == 1", "fails"),
        ("size(inputs) == 1", "refused"),
        ("size(trouble.Message) == 1", "refused"),
        ("inputs.mode.startWith('a')", "refused"),
        ("inputs.mode.matches('(')", "refused"),
        ("inputs.mode.matches(inputs.path)", "refused"),
        ("inputs.mode == \"\"\"full", "refused"),
    ] {
        assert_eq!(result(text), expected, "{text}");
    }
}

#[test]
fn condition_errors_quote_the_file() {
    let refusals = [
        "",
        "'open",
        "inputs.n =",
        "inputs.n inputs.yes",
        "(inputs.n",
        "word",
        "size(trouble.Message) == 1",
        "inputs.mode.startWith('a')",
        "inputs.list.exists(x, inputs.list.exists(y, x == y))",
    ];
    let errors = refusals.map(|text| Expression::read(text).expect_err(text).to_string());
    expect![[r#"
        the condition is empty
        bad expression: Syntax error: token recognition error at: '' open  '
        bad expression: Syntax error: token recognition error at: '= '
        bad expression: Syntax error: mismatched input 'inputs' expecting {<EOF>, '==', '!=', 'in', '<', '<=', '>=', '>', '&&', '||', '[', '.', '-', '?', '+', '*', '/', '%'}
        bad expression: Syntax error: missing ')' at '<EOF>'
        unknown name `word`; names are inputs.NAME, states.NAME.Output, env.NAME, vars.NAME, workflow.id, loop.item, error.Message and context.User
        unknown name `trouble.Message`; names are inputs.NAME, states.NAME.Output, env.NAME, vars.NAME, workflow.id, loop.item, error.Message and context.User
        unknown function `startWith`; did you mean `startsWith`?
        loops cannot nest, and a condition with a loop cannot use `map`, `filter` or `+`, nor build lists and maps"#]].assert_eq(&errors.join("\n"));
}

#[test]
fn hostile_conditions_end_quickly() {
    let begun = Instant::now();
    let repeated = |part: &str, count: usize| part.repeat(count);
    let hostile = [
        format!("{}true{}", repeated("(", 500), repeated(")", 500)),
        format!("{}true", repeated("!", 500)),
        format!("{}true", repeated("not ", 500)),
        format!("{}true", repeated("true and ", 400)),
        format!("{}1 == 1", repeated("1 + ", 1000)),
        format!("inputs.list{} == 1", repeated("[0]", 390)),
        format!("inputs.mode == '{}'", repeated("x", 10_000_000)),
        format!("inputs.n == {}", repeated("9", 4000)),
        format!(
            "[inputs.mode]{}.size() == 1",
            repeated(".map(x, x + x)", 60)
        ),
        format!("[inputs.mode].exists(x, x{} == '')", repeated(" + x", 90)),
        "inputs.list.exists(x, inputs.list.exists(y, x == y))".to_owned(),
        "inputs.list.map(x, inputs.list).size() == 1".to_owned(),
        repeated("inputs.list contains ", 150),
        repeated("'", 4001),
        repeated("{", 4000),
    ];
    for text in hostile {
        let shown: String = text.chars().take(40).collect();
        assert!(
            matches!(result(&text).as_str(), "refused" | "fails" | "true"),
            "{shown}"
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[test]
fn looping_conditions_are_limited_in_input_size() {
    let large = json!({"inputs": {"list": vec![0; 2000], "text": "x".repeat(10_000_000)}});
    let holds = |text: &str| Expression::read(text).expect(text).holds(&large);
    assert_eq!(holds("inputs.text contains 'y'"), Ok(false));
    assert_eq!(holds("inputs.list contains 0"), Ok(true));
    for text in [
        "inputs.list.exists(x, x == 1)",
        "inputs.text + inputs.text == ''",
        "size([inputs.text, inputs.text]) == 2",
    ] {
        assert_eq!(holds(text), Err(ExpressionError::TooLarge), "{text}");
    }
}

proptest! {
    #[test]
    fn reading_arbitrary_conditions_never_panics(text in "[a-z.()!=<>&|'\" 0-9é\\[\\]{},?:+*/%\\\\-]{0,40}") {
        result(&text);
    }

    #[test]
    fn reading_mixed_condition_tokens_never_panics(words in proptest::collection::vec(
        prop_oneof![
            Just("and"), Just("or"), Just("not"), Just("contains"), Just("inputs.n"), Just("inputs.mode"),
            Just("'a'"), Just("("), Just(")"), Just("=="), Just("!"), Just("has"), Just("in"), Just("["), Just("]"),
            Just("size"), Just("x.y"), Just(".all(x,"), Just("r'"), Just("-1"), Just("true"),
        ],
        0..16,
    )) {
        result(&words.join(" "));
        result(&words.concat());
    }
}
