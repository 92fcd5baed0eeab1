//! Packs: names, arguments, results, and what scripts can ask about them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{bed, failed, host, ran, run};
use crate::talk;

#[test]
fn scripts_combine_servers_and_read_results_by_attribute_or_key() {
    let bed = bed("policy: allow-all\n");
    let served = bed.serve();
    let mut host = host(&served);
    let both = "sites = wix.list_sites().sites; pages = my_notes.search(query=sites[0].name)";
    let both: Value = serde_json::from_str(&ran(&mut host, both)).unwrap();
    assert_eq!(both["sites"][1]["name"], "Beta");
    assert_eq!(both["pages"][0]["title"], "Alpha page");
    let cases = [
        ("wix.ListSites().sites[1]['name']", "Beta"),
        (
            "getattr(wix, 'get-product')(product='a', include=True).product_id",
            "a",
        ),
        (
            "wix.get_product('x', True)",
            r#"{"product_id":"x","include_variants":true}"#,
        ),
        (
            "wix.get_product(product_id='x', include_variants=None)",
            r#"{"product_id":"x","include_variants":null}"#,
        ),
        (
            "wix.get_product(n=1, f=1.0, l=[1, {'a': None}])",
            r#"{"n":1,"f":1.0,"l":[1,{"a":null}]}"#,
        ),
        ("my_notes.search('x')[0].n", "12345678901234567890"),
        ("my_notes.plain()", "plain text"),
        (
            "try:\n    wix.fails()\nexcept Exception as e:\n    r = str(e)\nr",
            "no such product",
        ),
        ("print('first'); 1 + 1", "first\n2"),
        ("__format__ = 'yml'\n{'a': [1, 'x']}", "a:\n- 1\n- x\n"),
        ("__format__ = 'json_h'\n{'a': 1}", "{\n  \"a\": 1\n}"),
        ("__format__ = 'json'\n'x'", "\"x\""),
        (
            "pass",
            "The script ran. It printed nothing and has no result.",
        ),
        ("```python\nreturn 7\n```", "7"),
    ];
    for (command, expected) in cases {
        assert_eq!(ran(&mut host, command), expected, "{command}");
    }
}

#[test]
fn errors_for_unknown_names_in_scripts_list_the_choices() {
    let bed = bed("policy: allow-all\n");
    let served = bed.serve();
    let mut host = host(&served);
    let cases = [
        (
            "\nwixx.list_sites()",
            vec!["line 2: ", "did you mean `wix`?", "my_notes"],
        ),
        (
            "wix.nothing()",
            vec![
                "line 1: ",
                "has no tool `nothing`",
                "list_sites",
                "get_product",
            ],
        ),
        ("wix.dup_name()", vec!["dup-name or dupName"]),
        ("wix.fails()", vec!["line 1: ", "no such product"]),
        (
            "proxy.list_tools(server='nope')",
            vec!["there is no pack `nope`", "wix"],
        ),
        ("dead.anything()", vec!["the pack `dead` has no tools now"]),
        ("import os", vec!["line 1: ", "`os` cannot be imported"]),
    ];
    for (command, parts) in cases {
        let text = failed(&mut host, command);
        for part in parts {
            assert!(text.contains(part), "{command}: {text}");
        }
    }
    let ledger = bed.read("ledger");
    assert_eq!(ledger, "fails {}\n", "nothing else was forwarded");
    let response = talk::call(&mut host, "other", "{}");
    assert_eq!(response["error"]["code"], -32602, "{response}");
}

#[test]
fn scripts_can_list_servers_and_tools() {
    let bed = bed("policy: allow-all\n");
    let served = bed.serve();
    let mut host = host(&served);
    let servers = ran(&mut host, "proxy.list_servers()");
    let servers: Vec<Value> = serde_json::from_str(&servers).unwrap();
    let named = |name: &str| {
        servers
            .iter()
            .find(|server| server["name"] == name)
            .unwrap()
    };
    assert_eq!(named("wix")["status"], "ok");
    assert_eq!(named("wix")["type"], "stdio");
    assert_eq!(named("my-notes")["pack"], "my_notes");
    assert_eq!(named("off")["enabled"], false);
    assert!(named("dead")["reason"].is_string(), "{servers:?}");
    let tools = ran(&mut host, "proxy.list_tools(server='my-notes')");
    let tools: Value = serde_json::from_str(&tools).unwrap();
    assert_eq!(
        tools[0],
        json!({"name": "search", "description": "About search", "signature": "(query:str)"})
    );
    let found = ran(&mut host, "tools.search('list sites')[0].name");
    assert_eq!(found, "wix.list_sites");
    let described = ran(
        &mut host,
        "tools.describe('wix.get_product').input_schema.properties.product_id.type",
    );
    assert_eq!(described, "string");
}

#[test]
fn gathered_calls_of_a_script_take_as_long_as_one() {
    let bed = bed("policy: allow-all\n");
    let served = bed.serve();
    let mut host = host(&served);
    ran(&mut host, "1");
    let begun = Instant::now();
    let command = "import asyncio\nlen(await asyncio.gather(*[wix.slow() for _ in range(30)]))";
    assert_eq!(ran(&mut host, command), "30");
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn large_results_become_handles_and_images_are_kept() {
    let bed = bed("policy: allow-all\n");
    let served = bed.serve();
    let mut host = host(&served);
    let text = ran(&mut host, "wix.large()");
    assert!(
        text.starts_with("[callgate] The result is too large"),
        "{text}"
    );
    let handle = text.split("handle ").nth(1).unwrap();
    let handle = handle.split('.').next().unwrap().to_owned();
    let page = format!(
        "page = read_result('{handle}', offset=5, limit=2)\npage.lines if 'lines' in page else page"
    );
    let page = ran(&mut host, &page);
    assert!(page.contains("line of text"), "{page}");
    let search = format!("read_result('{handle}', search='nothing like it').total");
    assert_eq!(ran(&mut host, &search), "2000");
    let mut another = super::host(&served);
    let error = failed(&mut another, &format!("read_result('{handle}')"));
    assert!(error.contains("no such result in this session"), "{error}");
    let assigned: Value = serde_json::from_str(&ran(&mut host, "a = 1\nb = wix.large()")).unwrap();
    assert_eq!(assigned["a"], 1);
    assert!(assigned["b"]["handle"].is_string(), "{assigned}");
    let result = run(&mut host, "p = wix.picture()\np.mimeType");
    assert_eq!(result["content"][0]["text"], "image/png");
    assert_eq!(result["content"][1]["data"], "AAAA", "{result}");
}

#[test]
fn local_packs_take_precedence_over_servers() {
    let bed = bed("policy: allow-all\ncode: {packs: packs}\n");
    std::fs::create_dir(bed.path("packs")).unwrap();
    let brave = "def search(q):\n    \"\"\"Searches.\"\"\"\n    return [s.name + q for s in wix.list_sites().sites]\n";
    std::fs::write(bed.path("packs/brave.py"), brave).unwrap();
    std::fs::write(
        bed.path("packs/my_notes.py"),
        "def hello():\n    return 'local'\n",
    )
    .unwrap();
    let served = bed.serve();
    let mut host = host(&served);
    assert_eq!(ran(&mut host, "brave.search('!')"), r#"["Alpha!","Beta!"]"#);
    assert_eq!(ran(&mut host, "my_notes.hello()"), "local");
    let shadowed = "[s.shadowed_by for s in proxy.list_servers() if s.name == 'my-notes'][0]";
    assert_eq!(ran(&mut host, shadowed), "a local pack");
    let tools = ran(&mut host, "proxy.list_tools(server='brave')");
    assert!(tools.contains(r#""signature":"(q)""#), "{tools}");
    drop(host);
    let records = crate::evidence::records(&bed);
    let of_pack = |record: &&Value| record["source"] == "pack:brave";
    let made: Vec<&Value> = records.iter().filter(of_pack).collect();
    assert_eq!(made.len(), 1, "{records:?}");
    assert_eq!(made[0]["tool"], "ListSites");
    let mut host = super::host(&served);
    let error = failed(&mut host, "brave.nope()");
    assert!(error.contains("it has: search"), "{error}");
}

#[test]
fn local_packs_are_found_beside_the_configuration() {
    let bed = bed("policy: allow-all\n");
    std::fs::create_dir_all(bed.path(".callgate/packs")).unwrap();
    let hello = "def hello(name='you'):\n    return f'hello {name}'\n";
    std::fs::write(bed.path(".callgate/packs/greet.py"), hello).unwrap();
    let served = bed.serve();
    let mut host = host(&served);
    assert_eq!(ran(&mut host, "greet.hello(name='Ada')"), "hello Ada");
}

#[test]
fn the_code_view_of_400_tools_takes_few_tokens() {
    let mut config = "policy: allow-all\nservers:\n".to_owned();
    for at in 0..20 {
        config.push_str(&format!(
            "  a-server-with-a-long-name-{at}: {{command: '@canned@', args: [--answers, '@dir@/many.json']}}\n"
        ));
    }
    let bed = crate::setup::Bed::new(&config);
    let tools = (0..20).map(|at| {
        super::tool(
            &format!("tool_{at}"),
            json!({"text": {"type": "string"}}),
            json!({}),
            super::text("x"),
        )
    });
    let tools: Vec<Value> = tools.collect();
    std::fs::write(bed.path("many.json"), json!(tools).to_string()).unwrap();
    let served = bed.serve();
    let url = format!("{}/code", served.url);
    let host = callgate_testkit::HttpHost::new(&url)
        .unwrap()
        .header("Authorization", &format!("Bearer {}", served.token));
    let reply = host.post(&talk::introduction(Some("{}"))).unwrap();
    let told: Value = serde_json::from_str(&reply.text().unwrap()).unwrap();
    let instructions = told["result"]["instructions"].as_str().unwrap().to_owned();
    let mut host = super::host(&served);
    let listed = talk::list(&mut host, "{}");
    let run = &listed["result"]["tools"][0];
    let description = run["description"].as_str().unwrap();
    assert!(
        description.contains("a_server_with_a_long_name_0 (20)"),
        "{description}"
    );
    let count = "sum([len(proxy.list_tools(server=s.name)) for s in proxy.list_servers()])";
    assert_eq!(ran(&mut host, count), "400");
    // A token is about four bytes of English and JSON.
    let tokens = (run.to_string().len() + instructions.len()) / 4;
    println!("{tokens} tokens with 20 servers and 400 tools");
    assert!(tokens < 1200, "{tokens}");
}

#[test]
fn the_code_view_has_one_short_tool() {
    let bed = bed("policy: allow-all\n");
    let served = bed.serve();
    let mut host = host(&served);
    let list = talk::list(&mut host, "{}");
    let tools = list["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0]["name"], "run");
    let description = tools[0]["description"].as_str().unwrap();
    assert!(description.contains("wix (10)"), "{description}");
    // A token is about four characters of English; the limit is 1,200 tokens with many servers.
    assert!(
        tools[0].to_string().len() < 3200,
        "{}",
        tools[0].to_string().len()
    );
}
