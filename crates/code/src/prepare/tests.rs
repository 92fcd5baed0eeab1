use super::*;

fn packs_of(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn code(source: &str) -> String {
    let packs = packs_of(&["wix", "notion"]);
    script(source, &packs, &[], &Limits::default())
        .unwrap()
        .code
}

fn refusal(source: &str) -> ScriptRefused {
    let packs = packs_of(&["wix"]);
    script(source, &packs, &[], &Limits::default()).unwrap_err()
}

#[test]
fn attribute_access_on_results_reads_keys() {
    let cases = [
        ("x = 1\nx.name", "x = 1\n_cg_attribute(x,\"name\")"),
        (
            "x = 1\nx.a.b",
            "x = 1\n_cg_attribute(_cg_attribute(x,\"a\"),\"b\")",
        ),
        ("wix.a()[0].name", "_cg_attribute(wix.a()[0],\"name\")"),
        (
            "x = 1\n(x or 2).name",
            "x = 1\n_cg_attribute((x or 2),\"name\")",
        ),
        (
            "x = 1\nx.name.upper()",
            "x = 1\n_cg_attribute(x,\"name\").upper()",
        ),
        (
            "x = 1\n(x\n .name)",
            "x = 1\n(_cg_attribute(x\n ,\"name\"))",
        ),
        (
            "x = 1\nf'{x.name}'",
            "x = 1\nf'{_cg_attribute(x,\"name\")}'",
        ),
        ("x = {}\nx.get(1)", "x = {}\nx.get(1)"),
        ("x = {}\nx.y = 1", "x = {}\nx.y = 1"),
        (
            "import datetime\ndatetime.datetime.min",
            "import datetime\ndatetime.datetime.min",
        ),
        ("f = wix.list", "f = wix.list"),
    ];
    for (source, expected) in cases {
        assert_eq!(code(source), expected, "{source}");
    }
}

#[test]
fn a_top_level_return_ends_the_run() {
    assert_eq!(code("return 1, 2"), "_cg_return(( 1, 2))");
    assert_eq!(code("if 1:\n  return"), "if 1:\n  _cg_return()");
    let function = "def f():\n  return 1";
    assert_eq!(code(function), function);
}

#[test]
fn del_of_a_key_becomes_pop() {
    assert_eq!(code("x = {}\ndel x['a']"), "x = {}\nx.pop('a')");
    assert_eq!(
        code("x = {}\ndel x.y[0]"),
        "x = {}\n_cg_attribute(x,\"y\").pop(0)"
    );
    assert!(
        refusal("x = 1\ndel x")
            .message
            .contains("need not be deleted")
    );
}

#[test]
fn awaited_calls_become_futures() {
    let cases = [
        ("await wix.a()", "await wix.a__cg_later()"),
        (
            "import asyncio\nawait asyncio.gather(wix.a(x=wix.b()), *[wix.c(i) for i in [1]])",
            "import asyncio\nawait asyncio.gather(wix.a__cg_later(x=wix.b()), *[wix.c__cg_later(i) for i in [1]])",
        ),
        (
            "t = [wix.a(i) for i in [1]]\nawait gather(*t)",
            "t = [wix.a__cg_later(i) for i in [1]]\nawait gather(*t)",
        ),
        (
            "t = []\nt.append(wix.a())\nawait gather(*t)",
            "t = []\nt.append(wix.a__cg_later())\nawait gather(*t)",
        ),
        (
            "async def f(i):\n  return wix.a(i)",
            "async def f(i):\n  return (await wix.a__cg_later(i))",
        ),
        ("x = wix.a()", "x = wix.a()"),
        ("wix = 1\nawait wix.a()", "wix = 1\nawait wix.a()"),
    ];
    for (source, expected) in cases {
        assert_eq!(code(source), expected, "{source}");
    }
}

#[test]
fn local_packs_have_their_own_namespace() {
    let written = [LocalPack {
        name: "brave".to_owned(),
        source: "LIMIT = 3\ndef search(q):\n    return wix.find(q, LIMIT)\n".to_owned(),
    }];
    let names = packs_of(&["wix"]);
    let limits = Limits::default();
    let local = packs(&written, &names, &limits).unwrap();
    assert_eq!(
        local[0].code,
        "_cg_p_brave_LIMIT = 3\ndef _cg_p_brave_search(q):\n    return wix.find__cg_via_brave(q, _cg_p_brave_LIMIT)\n"
    );
    let used = script("brave.search('x')", &names, &local, &limits).unwrap();
    assert_eq!(used.code, "_cg_p_brave_search('x')");
}

#[test]
fn escapes_from_the_interpreter_are_refused_with_their_line() {
    let cases = [
        ("x = 1\nimport os", 2, "`os` cannot be imported"),
        ("from subprocess import run", 1, "`subprocess` cannot"),
        ("open('/etc/passwd')", 1, "`open` is not available"),
        ("\n\neval('1')", 3, "`eval` is not available"),
        ("().__class__.__bases__", 1, "is not available"),
        ("_cg_return(1)", 1, "are reserved"),
        ("x =", 1, "SyntaxError"),
        ("def g():\n  yield 1", 2, "build a list"),
        ("match 1:\n  case 1: pass", 1, "use `if`"),
        ("from wix import a", 1, "call `wix.a(...)`"),
    ];
    for (source, line, message) in cases {
        let refused = refusal(source);
        assert_eq!(refused.line, Some(line), "{source}: {}", refused.message);
        assert!(refused.message.contains(message), "{}", refused.message);
    }
}

#[test]
fn deeply_nested_scripts_are_refused_before_recursion() {
    let nested =
        |open: &str, close: &str, count: usize| open.repeat(count) + "1" + &close.repeat(count);
    let mut defs = String::new();
    for depth in 0..20 {
        defs.push_str(&format!("{}def f{depth}():\n", " ".repeat(depth)));
    }
    defs.push_str(&format!("{}pass\n", " ".repeat(20)));
    let bombs = [
        nested("(", ")", 20_000),
        nested("[", "]", 500),
        nested("-", "", 30_000),
        nested("not ", "", 10_000),
        "1+".repeat(20_000) + "1",
        "a".to_owned() + &".a".repeat(20_000),
        "f".to_owned() + &"()".repeat(20_000),
        "lambda: ".repeat(5_000) + "1",
        "1 if 1 else ".repeat(4_000) + "1",
        "x = ".repeat(10_000) + "1",
        "if 1:\n pass\n".to_owned() + &"elif 1:\n pass\n".repeat(3_000),
        "1+".repeat(200_000) + "1",
        defs,
        "\0".to_owned(),
    ];
    for bomb in bombs {
        let refused = refusal(&bomb);
        assert!(
            !refused.message.starts_with("SyntaxError"),
            "{} for {:.40}",
            refused.message,
            bomb
        );
    }
    let list = format!("x = [{}]", "1, ".repeat(10_000));
    assert!(script(&list, &[], &[], &Limits::default()).is_ok());
    let records = format!("x = [{}]", "{'a': (1, 2), 'b': -1}, ".repeat(600));
    assert!(script(&records, &[], &[], &Limits::default()).is_ok());
}
