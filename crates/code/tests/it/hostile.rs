//! Scripts that mean harm: each ends at its limit, and the next one runs.

use std::time::{Duration, Instant};

use callgate_code::{Ended, Limits, Pool};

use crate::stage::{Tools, pool, run, said, script};

/// Small limits, so that many scripts can reach them.
fn tight() -> Limits {
    Limits {
        cpu: Duration::from_millis(300),
        wall: Duration::from_secs(20),
        memory_bytes: 32 * 1024 * 1024,
        calls: 50,
        output_bytes: 64 * 1024,
        ..Limits::default()
    }
}

/// What they may take besides their limit, on a machine that does other things too.
const GRACE: Duration = Duration::from_secs(6);

const LOOPS: [&str; 12] = [
    "while True: pass",
    "i = 0\nwhile i < 10**12:\n    i += 1",
    "for i in range(10**12): pass",
    "[i for i in range(10**12) if i < 0]",
    "sum(i for i in range(10**12))",
    "def f():\n    while 1: pass\nf()",
    "(lambda: [0 for _ in range(10**12) if False])()",
    "while True:\n    try:\n        1/0\n    except Exception:\n        pass",
    "x = 0\nwhile True:\n    x ^= 1\n    str(x)",
    "pow(3, 10**8) % 7",
    "import itertools\nfor _ in itertools.count(): pass",
    "while True:\n    try:\n        while True: pass\n    except BaseException:\n        pass",
];

const MEMORY: [&str; 12] = [
    "'a' * 10**10",
    "[0] * 10**9",
    "x = 'a'\nwhile True: x += x",
    "x = []\nwhile True: x.append('a' * 1000)",
    "x = [1]\nwhile True: x = x + x",
    "bytes(10**10)",
    "2 ** (10**10)",
    "{i: str(i) * 100 for i in range(10**9)}",
    "x = ()\nwhile True: x = (x, x, 'a' * 1000)",
    "'{:>1000000000}'.format(1)",
    "f'{1:>2000000000}'",
    "'ab'.replace('a', 'a' * 10**5).replace('a', 'a' * 10**5)",
];

const DEPTH: [&str; 8] = [
    "def f(): return f()\nf()",
    "def f(n): return f(n + 1) + 1\nf(0)",
    "def a(): return b()\ndef b(): return a()\na()",
    "x = []\nfor _ in range(100000): x = [x]\nx",
    "x = []\nfor _ in range(100000): x = [x]\nstr(x)",
    "x = {}\nfor _ in range(100000): x = {'a': x}\nwix.echo(x)",
    "x = []\nx.append(x)\nx",
    "f = lambda: 1\nfor _ in range(5000):\n    f = (lambda g: lambda: g())(f)\nf()",
];

const ESCAPES: [&str; 20] = [
    "import os",
    "import sys",
    "import subprocess",
    "import socket",
    "import ctypes",
    "from os import system",
    "__import__('os')",
    "open('/etc/passwd').read()",
    "eval('1+1')",
    "exec('import os')",
    "compile('1', '', 'eval')",
    "globals()",
    "().__class__.__base__.__subclasses__()",
    "(lambda: 0).__globals__",
    "getattr((), '__class__').__mro__",
    "''.__class__.__mro__[1].__subclasses__()",
    "'{0.__class__}'.format(1) + open('/etc/passwd').read()",
    "import pathlib\npathlib.Path('/etc/passwd').read_text()",
    "breakpoint()",
    "_cg_return(1)",
];

const ODD: [&str; 12] = [
    "\u{0}",
    "x = '\u{202e}'\nｏｐｅｎ('/etc/passwd')",
    "ｅｖａｌ('1')",
    "import ｏｓ",
    "𝐢𝐦𝐩𝐨𝐫𝐭 os",
    "x = 1\u{200b}\ny",
    "\u{feff}while True: pass",
    "import re\nre.match('(a+)+$', 'a' * 40 + 'b')\nwhile True: pass",
    "import re\nre.match('(a|a)*$', 'a' * 60 + 'b')\nwhile True: pass",
    "import json\njson.loads('[' * 100000)",
    "int('9' * 5000000)",
    "raise SystemExit",
];

/// The script ends with an error within its limits.
async fn ends(pool: &Pool, source: &str) -> String {
    let limits = tight();
    let begun = Instant::now();
    let ended = run(pool, source, &limits).await;
    let took = begun.elapsed();
    assert!(took < limits.cpu + GRACE, "{took:?}: {source:.60}");
    match ended {
        Err(error) => error,
        Ok(value) => panic!("{source:.60} gave {value:.200}"),
    }
}

#[tokio::test]
async fn loops_end_at_their_cpu_time() {
    let pool = pool();
    for source in LOOPS {
        let error = ends(&pool, source).await;
        assert!(
            error.contains("CPU time") || error.contains("memory"),
            "{source}: {error}"
        );
        assert_eq!(run(&pool, "1", &tight()).await.as_deref(), Ok("1"));
    }
}

#[tokio::test]
async fn memory_ends_at_its_limit() {
    let pool = pool();
    for source in MEMORY {
        let error = ends(&pool, source).await;
        let is_told = ["memory", "CPU time", "Error", "nested", "outside"];
        assert!(
            is_told.iter().any(|word| error.contains(word)),
            "{source}: {error}"
        );
        assert_eq!(run(&pool, "1", &tight()).await.as_deref(), Ok("1"));
    }
}

#[tokio::test]
async fn depth_ends_somewhere() {
    let pool = pool();
    for source in DEPTH {
        let limits = tight();
        let begun = Instant::now();
        let ended = pool.run(script(source), &limits, &Tools::default()).await;
        assert!(begun.elapsed() < limits.cpu + GRACE, "{source}");
        // A value that says that it contains itself is as good as an error.
        assert!(matches!(ended, Ended::Failed { .. } | Ended::Done { .. }));
        assert_eq!(run(&pool, "1", &tight()).await.as_deref(), Ok("1"));
    }
}

#[tokio::test]
async fn nothing_leads_out() {
    let pool = pool();
    for source in ESCAPES.iter().chain(&ODD) {
        let error = ends(&pool, source).await;
        assert!(!error.contains("root:"), "{source}: {error}");
    }
}

#[tokio::test]
async fn floods_end() {
    let pool = pool();
    let error = ends(&pool, "while True: print('x' * 1000)").await;
    assert!(error.contains("output is larger"), "{error}");
    let error = ends(&pool, "'x' * 100000").await;
    assert!(error.contains("output is larger"), "{error}");
    let tools = Tools::default();
    let ended = pool
        .run(script("while True: wix.list_sites()"), &tight(), &tools)
        .await;
    let error = said(ended).unwrap_err();
    assert!(error.contains("50 calls"), "{error}");
    assert_eq!(tools.names().len(), 50);
    let caught =
        "while True:\n    try:\n        wix.list_sites()\n    except BaseException:\n        pass";
    let error = ends(&pool, caught).await;
    assert!(error.contains("50 calls"), "{error}");
}

#[tokio::test]
async fn waiting_ends_at_the_wall_clock() {
    let pool = pool();
    let limits = Limits {
        wall: Duration::from_millis(300),
        ..tight()
    };
    let begun = Instant::now();
    let error = run(&pool, "slow.wait(60000)", &limits).await.unwrap_err();
    assert!(error.contains("ran longer than"), "{error}");
    assert!(begun.elapsed() < GRACE);
    assert_eq!(run(&pool, "1", &tight()).await.as_deref(), Ok("1"));
}

#[tokio::test]
async fn others_run_while_one_loops() {
    let pool = pool();
    let busy = {
        let pool = pool.clone();
        tokio::spawn(async move { run(&pool, "while True: pass", &tight()).await })
    };
    for _ in 0..5 {
        assert_eq!(run(&pool, "1", &tight()).await.as_deref(), Ok("1"));
    }
    assert!(busy.await.unwrap().is_err());
}
