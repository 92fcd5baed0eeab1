//! Lists of several servers: order, pages, changes, capabilities, instructions.

use serde_json::json;

use super::{SEVERAL, all, ask, prompts, resources};
use crate::setup::Bed;
use crate::talk::{call_text, http_as, introduction, is_notification, request, stdio_as, tools};

const WRAPPED: &str = "callgate://b/shared://doc";

#[test]
fn lists_hold_every_server_in_configuration_order() {
    let bed = Bed::new(SEVERAL);
    let served = bed.serve();
    let mut hosts: [Box<dyn callgate_testkit::Host>; 2] = [
        Box::new(stdio_as(&bed, None)),
        Box::new(http_as(&served, "{}")),
    ];
    for host in &mut hosts {
        let host = &mut **host;
        assert_eq!(prompts(host), ["a__p0", "a__p1", "b__p0"]);
        assert_eq!(
            resources(host),
            [
                "a://0",
                "a://1",
                "a://2",
                "shared://doc",
                "b://0",
                "b://1",
                "b://2",
                WRAPPED
            ],
            "a URI that two servers have says whose it is"
        );
        let templates = all(
            host,
            "resources/templates/list",
            "resourceTemplates",
            "uriTemplate",
        );
        assert_eq!(
            templates,
            [
                "a://item/{id}",
                "shared://{+path}",
                "b://item/{id}",
                "callgate://b/shared://{+path}"
            ]
        );
        for method in ["prompts/list", "resources/list", "resources/templates/list"] {
            let refused = ask(host, method, r#"{"cursor":"page-1"}"#);
            assert_eq!(refused["error"]["code"], -32602, "{method}");
        }
    }
}

#[test]
fn upstream_pages_are_merged_into_the_gateways_own_pages() {
    let bed = Bed::new(
        "\
servers:
  a: {command: '@shelf@', args: [--tag, a, --resources, '700', --prompts, '7', --pages, '3']}
  b: {command: '@shelf@', args: [--tag, b, --resources, '900', --prompts, '5', --pages, '4']}
  c: {command: '@shelf@', args: [--tag, c, --resources, '2', --loop-cursor]}
",
    );
    let mut host = bed.stdio_ready();
    let first = ask(&mut host, "resources/list", "{}");
    assert_eq!(
        first["result"]["resources"].as_array().map(Vec::len),
        Some(1000)
    );
    let all = resources(&mut host);
    assert_eq!(all.len(), 701 + 901 + 3);
    assert_eq!(all[0], "a://0");
    assert_eq!(all[699], "a://699");
    assert_eq!(all[701], "b://0");
    assert_eq!(all[1604], "callgate://c/shared://doc");
    let unique: std::collections::BTreeSet<&String> = all.iter().collect();
    assert_eq!(unique.len(), all.len(), "none is on two pages");
    assert_eq!(prompts(&mut host).len(), 7 + 5 + 2);
}

#[test]
fn offered_capabilities_are_the_union_of_the_servers() {
    let bed = Bed::new(
        "\
servers:
  a: {command: '@shelf@', args: [--tag, a, --without, prompts, --without, completions, --without, tasks]}
  n: {command: '@counter@'}
",
    );
    let served = bed.serve();
    let mut early = http_as(&served, "{}");
    tools(&mut early);
    let missing = ask(&mut early, "prompts/list", "{}");
    assert_eq!(missing["error"]["code"], -32601);
    let mut host = served.host();
    let introduced = request(&mut host, &introduction(Some("{}")));
    assert_eq!(
        introduced["result"]["capabilities"],
        json!({
            "tools": {"listChanged": true},
            "logging": {},
            "resources": {"subscribe": true, "listChanged": true},
        })
    );
}

#[test]
fn instructions_of_several_servers_get_headings() {
    let bed = Bed::new(SEVERAL);
    let served = bed.serve();
    tools(&mut http_as(&served, "{}"));
    let introduced = request(&mut served.host(), &introduction(Some("{}")));
    let capabilities = &introduced["result"]["capabilities"];
    assert_eq!(capabilities["prompts"], json!({"listChanged": true}));
    assert_eq!(capabilities["completions"], json!({}));
    let instructions = introduced["result"]["instructions"].as_str();
    assert_eq!(instructions, Some("## a\nask a\n\n## b\nask b"));
}

#[test]
fn changes_of_every_list_are_announced() {
    let bed = Bed::new(SEVERAL);
    let mut host = bed.stdio_ready();
    let before = (prompts(&mut host), resources(&mut host));
    // A change may be announced before its call is answered, so the calls have different ids.
    for (id, tool, method) in [
        ("1", "b__add_prompt", "notifications/prompts/list_changed"),
        (
            "2",
            "b__add_resource",
            "notifications/resources/list_changed",
        ),
    ] {
        host.send(&crate::talk::call_line(id, tool, "{}"))
            .expect("it reads");
        host.recv_where(|frame| is_notification(frame, method))
            .expect("the change is announced");
    }
    let after = (prompts(&mut host), resources(&mut host));
    assert_eq!(after.0.len(), before.0.len() + 1);
    assert!(after.0.contains(&"b__p1".to_owned()));
    assert_eq!(after.1.len(), before.1.len() + 1);
    assert!(after.1.contains(&"b://3".to_owned()));
}

#[test]
fn lists_of_the_last_run_are_served_at_once() {
    let bed = Bed::new(SEVERAL);
    let first = {
        let mut host = bed.stdio_ready();
        (prompts(&mut host), resources(&mut host))
    };
    let mut host = bed.stdio();
    let introduced = request(&mut host, &introduction(Some("{}")));
    let capabilities = &introduced["result"]["capabilities"];
    assert_eq!(capabilities["prompts"], json!({"listChanged": true}));
    assert_eq!((prompts(&mut host), resources(&mut host)), first);
}

#[test]
fn a_list_change_in_a_hosts_own_process_is_followed() {
    let bed = Bed::new("servers: {a: {command: '@shelf@', args: [--tag, a]}}");
    let served = bed.serve();
    let mut plain = http_as(&served, "{}");
    call_text(&mut plain, "a__echo", "{}");
    let mut other = http_as(&served, r#"{"roots":{}}"#);
    let before = prompts(&mut other).len();
    let mut stream = other.listen().expect("the stream opens");
    assert_eq!(call_text(&mut other, "a__add_prompt", "{}"), "added");
    loop {
        let event = stream.next_event().expect("the stream is alive");
        let event = event.expect("the stream does not end");
        if event.data.contains("notifications/prompts/list_changed") {
            break;
        }
    }
    assert_eq!(prompts(&mut other).len(), before + 1);
}

#[test]
fn the_first_introduction_has_what_servers_offer() {
    // Long enough for a slow machine.
    let waiting = format!("{SEVERAL}server_defaults: {{initialize_wait: 30s}}\n");
    let bed = Bed::new(&waiting);
    let first = request(&mut bed.stdio(), &introduction(Some("{}")));
    let capabilities = &first["result"]["capabilities"];
    for offered in ["prompts", "resources", "completions", "tools"] {
        assert!(capabilities.get(offered).is_some(), "{offered}: {first}");
    }
    let told = first["result"]["instructions"].as_str().unwrap_or_default();
    assert!(told.contains("ask a") && told.contains("ask b"), "{first}");
}

#[test]
fn the_first_introduction_does_not_wait_long_for_a_server_that_hangs() {
    let bed = Bed::new("servers: {late: {command: 'sleep 600'}}\n");
    let first = request(&mut bed.stdio(), &introduction(Some("{}")));
    assert!(
        first["result"]["capabilities"]["tools"].is_object(),
        "{first}"
    );
}
