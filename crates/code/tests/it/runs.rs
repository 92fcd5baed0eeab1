//! What scripts can do, and what they are told.

use callgate_code::{Limits, Pool};

use crate::stage::{Tools, pool, run, said, script};

async fn check(pool: &Pool, cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        let given = run(pool, source, &Limits::default()).await;
        assert_eq!(given.as_deref(), Ok(*expected), "{source}");
    }
}

#[tokio::test]
async fn a_result_is_the_last_expression_a_return_or_the_variables() {
    let cases = [
        ("1 + 1", "2"),
        ("x = 1; y = [x, 2]", "x=1 y=[1,2]"),
        (
            "sites = wix.list_sites(); pages = notion.search(query=sites[0].name)\nreturn [sites[0]['name'], pages.pages[0].title]",
            r#"["Alpha","Alpha"]"#,
        ),
        (
            "print('a', 1)\nprint('b')\n{'k': None}",
            "a 1\nb\n{\"k\":null}",
        ),
        (
            "for s in wix.list_sites():\n    if s.size > 4:\n        return s.name\n'none'",
            "\"Beta\"",
        ),
        ("pass", ""),
        ("def f(x): return x * 2\nf(21)", "42"),
        ("_hidden = 1\nshown = 2", "shown=2"),
        ("```python\n>>> 6 * 7\n```", "42"),
        ("len(wix.list_sites()[0].items)", "2"),
        ("wix.list_sites()[1].owner.email", "\"b@x.org\""),
        ("f = wix.echo\nf(a=1).kwargs", r#"{"a":1}"#),
    ];
    check(&pool(), &cases).await;
}

#[tokio::test]
async fn script_arguments_reach_tools_unchanged() {
    let source =
        "wix.echo(a=1, b=1.0, c=True, d=None, e=[1, {'x': 'y'}], f=12345678901234567890123).raw";
    let raw = r#""{\"a\":1,\"b\":1.0,\"c\":true,\"d\":null,\"e\":[1,{\"x\":\"y\"}],\"f\":12345678901234567890123}""#;
    check(&pool(), &[(source, raw)]).await;
}

#[tokio::test]
async fn a_failed_call_raises_a_catchable_exception() {
    let pool = pool();
    let source = "try:\n    bad.fail()\nexcept Exception as e:\n    r = str(e)\nr";
    check(&pool, &[(source, "\"bad.fail failed\"")]).await;
    let error = run(&pool, "x = 1\n\nbad.fail()", &Limits::default()).await;
    assert_eq!(error.unwrap_err(), "3: RuntimeError: bad.fail failed");
}

#[tokio::test]
async fn script_errors_name_the_line() {
    let pool = pool();
    let cases = [
        ("x = 1\nx.nope", "2: AttributeError"),
        (
            "sites = wix.list_sites()\n\nsites[0].nope",
            "3: AttributeError: no `nope` in this object; it has: id, name, size, items",
        ),
        ("def f():\n    return 1 / 0\n\nf()", "2: ZeroDivisionError"),
        (
            "\n\nwixx.list_sites()",
            "3: NameError: name 'wixx' is not defined; did you mean `wix`? Packs: wix, notion",
        ),
        ("x = (\n1 +\n)", "3: SyntaxError"),
        (
            "brave.nope()",
            "1: AttributeError: the pack `brave` has no `nope`; it has: search",
        ),
        (
            "wix.echo(x=float('nan'))",
            "1: TypeError: the arguments of `echo` cannot be sent",
        ),
    ];
    for (source, expected) in cases {
        let error = run(&pool, source, &Limits::default()).await.unwrap_err();
        assert!(error.starts_with(expected), "{source}: {error}");
    }
}

#[tokio::test]
async fn gathered_calls_run_concurrently() {
    let pool = pool();
    let sources = [
        "import asyncio\nawait asyncio.gather(slow.wait(400), slow.wait(400), slow.wait(400))",
        "import asyncio\nt = [slow.wait(400) for _ in range(3)]\nr = await asyncio.gather(*t)\nr",
        "import asyncio\nasync def one(ms):\n    return slow.wait(ms)\nasync def main():\n    return await asyncio.gather(one(400), one(400), one(400))\nasyncio.run(main())",
    ];
    for source in sources {
        let tools = Tools::default();
        let ended = pool.run(script(source), &Limits::default(), &tools).await;
        assert_eq!(said(ended).as_deref(), Ok("[400,400,400]"), "{source}");
        assert_eq!(tools.slow.lock().unwrap().1, 3, "{source}");
    }
}

#[tokio::test]
async fn calls_made_by_a_local_pack_name_the_pack() {
    let tools = Tools::default();
    let ended = pool()
        .run(
            script("brave.search('q', limit=1)"),
            &Limits::default(),
            &tools,
        )
        .await;
    assert_eq!(said(ended).as_deref(), Ok(r#"["Alpha"]"#));
    let calls = tools.calls.lock().unwrap();
    assert_eq!(calls[0].via.as_deref(), Some("brave"));
}

#[tokio::test]
async fn a_stopped_run_makes_no_further_calls() {
    let tools = Tools::default();
    let source = "wix.list_sites()\nhold.ask()\nwix.echo()";
    let ended = pool().run(script(source), &Limits::default(), &tools).await;
    assert_eq!(said(ended).unwrap_err(), "stopped");
    assert_eq!(tools.names(), ["wix.list_sites", "hold.ask"]);
}

#[tokio::test]
async fn the_clock_of_a_run_is_fixed() {
    let cases = [(
        "from datetime import datetime, date\n[datetime.now().isoformat(), date.today().isoformat()]",
        r#"["2026-11-15T12:00:00","2026-11-15"]"#,
    )];
    check(&pool(), &cases).await;
}

#[tokio::test]
async fn variables_do_not_survive_into_the_next_run() {
    let pool = pool();
    assert!(
        run(&pool, "secret = 42\nsecret", &Limits::default())
            .await
            .is_ok()
    );
    let error = run(&pool, "secret", &Limits::default()).await.unwrap_err();
    assert!(error.contains("NameError"), "{error}");
}

#[tokio::test]
async fn workers_are_started_on_demand() {
    let pool = pool();
    assert_eq!(pool.waiting(), 0);
    assert!(run(&pool, "1", &Limits::default()).await.is_ok());
    assert!(pool.waiting() >= 1);
}
