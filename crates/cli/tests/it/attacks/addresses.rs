//! URLs and hosts that two readers understand differently.

use callgate_testkit::{Host, StdioHost};
use serde_json::{Value, json};

use super::{CANNED, Seen, attack, attempt, can, plain_tool, write};
use crate::setup::Bed;
use crate::talk::request;

const CLASS: &str = "addresses";

/// A gateway whose tool `s:get` meets these rules of the scope `network`.
fn network(rules: &str) -> (Bed, StdioHost) {
    let bed = Bed::new(&format!(
        "servers:\n{CANNED}policy: policy.yaml\npins: 'off'\n"
    ));
    write(
        &bed.path("policy.yaml"),
        &format!(
            "version: '1'\nrules:\n  - {{scope: mcp_tool, allow: [{{pattern: '*:*'}}]}}\n  - {{scope: network, {rules}}}\n\
             tool_scope_map: [{{pattern: 's:*', scope: network}}]\n"
        ),
    );
    can(&bed, &[plain_tool("get")]);
    let host = bed.stdio_ready();
    (bed, host)
}

/// Every address is allowed but `evil.com`, and so is a call without one.
const NOT_EVIL: &str =
    "deny: [{domains: ['evil.com', '*.evil.com']}], allow: [{domains: ['*']}, {when: 'true'}]";

/// The same for one denied host or word.
fn but(denied: &str) -> String {
    format!("deny: [{{domains: ['{denied}']}}], allow: [{{domains: ['*']}}, {{when: 'true'}}]")
}

/// The address under a key that says nothing and under `url`; the worse of both counts.
fn fetched(bed: &Bed, host: &mut StdioHost, address: &str) -> Seen {
    let mut with = |key: &str| attempt(bed, host, "s:get", &json!({ key: address }).to_string());
    match with("x") {
        Seen::Refused => with("url"),
        seen => seen,
    }
}

#[test]
fn a_url_without_its_slashes_is_still_one() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(
        CLASS,
        "a URL has more, fewer or other slashes than it should",
    )
    .expect(Seen::Refused)
    .open()
    .tries(
        [
            "https:evil.com",
            "http:/evil.com",
            "https:\\\\evil.com",
            "https:///evil.com",
            "https:/\\evil.com/x",
            "HTTP:evil.com:80/x",
            "ws:evil.com",
            "ftp:/evil.com/x",
            "https:\u{ff0f}\u{ff0f}evil.com",
        ],
        |address| fetched(&bed, &mut host, address),
    )
    .check();
}

#[test]
fn an_address_of_this_machine_without_slashes_is_found() {
    let (bed, mut host) = network(&but("127.0.0.1"));
    attack(CLASS, "a numeric host stands behind too few slashes")
        .expect(Seen::Refused)
        .open()
        .tries(
            ["http:/127.0.0.1", "http:127.0.0.1:80", "http:\\127.0.0.1/x"],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn a_url_without_a_scheme_is_found() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(CLASS, "a URL leaves out its scheme")
        .expect(Seen::Refused)
        .open()
        .tries(
            [
                "//evil.com",
                "\\\\evil.com\\share",
                "/\\evil.com",
                "///evil.com/x",
                "//u@evil.com/x",
                "\t//evil.com",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn control_characters_do_not_hide_a_url() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(CLASS, "control characters stand before or inside a URL")
        .expect(Seen::Refused)
        .open()
        .tries(
            [
                "\u{1}https://evil.com",
                "ht\ntps://evil.com",
                "https:\t//evil.com",
                "\u{1f} https://evil.com",
                "https://ev\til.com",
                "https://evil.com\u{0}.good.com",
                "\u{feff}https://evil.com",
                "\u{200b}https://evil.com",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn a_user_name_is_not_taken_for_the_host() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(
        CLASS,
        "a user name looks like the host, or the other way round",
    )
    .expect(Seen::Refused)
    .open()
    .tries(
        [
            "https://good.com@evil.com",
            "https://good.com\\@evil.com",
            "https://good.com#@evil.com/",
            "https://good.com?@evil.com/",
            "https://evil.com\\@good.com",
            "https://good.com:80@evil.com/x",
            "https://a@good.com@evil.com",
            "https://good.com%2f@evil.com",
        ],
        |address| fetched(&bed, &mut host, address),
    )
    .check();
}

#[test]
fn a_number_is_read_as_the_host_it_is() {
    let (bed, mut host) = network(&but("127.0.0.1"));
    attack(CLASS, "an IPv4 address in another base or with fewer parts")
        .expect(Seen::Refused)
        .tries(
            [
                "http://2130706433/",
                "http://0177.0.0.1/",
                "http://127.1/",
                "http://0x7f000001/",
                "http://0x7f.1/",
                "http://127.0.1:80/",
                "http://017700000001/",
                "http://127.0.0.1./",
                "http://１２７.0.0.1/",
                "http://①②⑦.⓪.⓪.①/",
                "http://127。0。0。1/",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn leading_zeros_are_read_both_ways() {
    let (bed, mut host) = network(&but("10.0.0.1"));
    attack(
        CLASS,
        "leading zeros that some read as octal and some as decimal",
    )
    .expect(Seen::Refused)
    .open()
    .tries(
        [
            "http://010.0.0.1/",
            "http://012.0.0.1/",
            "http://10.0.0.01/",
            "http://010.000.000.001:80/",
        ],
        |address| fetched(&bed, &mut host, address),
    )
    .check();
}

#[test]
fn an_ipv4_address_inside_an_ipv6_one_is_found() {
    let (bed, mut host) = network(&but("127.0.0.1"));
    attack(CLASS, "an IPv6 address carries an IPv4 one")
        .expect(Seen::Refused)
        .open()
        .tries(
            [
                "http://[::ffff:127.0.0.1]/",
                "http://[64:ff9b::7f00:1]/",
                "http://[::ffff:7f00:1]:80/",
                "http://[0:0:0:0:0:ffff:127.0.0.1]/",
                "http://[::127.0.0.1]/",
                "http://[2002:7f00:1::]/",
                "http://[64:ff9b:1::7f00:1]/",
                "http://[2001:0:1:2:3:4:80ff:fffe]/",
                "http://[fe80::5efe:127.0.0.1]/",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn a_zone_id_does_not_hide_an_address() {
    let (bed, mut host) = network(&but("::1"));
    attack(CLASS, "an IPv6 address has a zone id or another spelling")
        .expect(Seen::Refused)
        .tries(
            [
                "http://[::1%25lo]/",
                "http://[::1%lo]/",
                "http://[0:0:0:0:0:0:0:1]/",
                "http://[0000::0001]:80/",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn a_host_in_percent_encoding_is_refused() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(CLASS, "a host is percent-encoded")
        .expect(Seen::Refused)
        .tries(
            [
                "https://%65vil.com",
                "https://evil%2ecom",
                "https://evil.com%00.good.com",
                "https://evil.com%2f.good.com",
                "https://%65%76%69%6c%2e%63%6f%6d/",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn other_letters_for_a_host_are_folded() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(CLASS, "a host is written in other letters or dots")
        .expect(Seen::Refused)
        .tries(
            [
                "https://ｅｖｉｌ．com/",
                "https://evil。com/",
                "https://EVIL.COM./",
                "https://еvil.com/",
                "https://ev\u{ad}il.com/",
                "https://evi\u{200d}l.com/",
                "https://ev\u{2060}il.com/",
                "https://ⓔvil.com/",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn both_readings_of_an_international_name_are_judged() {
    let (bed, mut host) = network(&but("fass.de"));
    attack(
        CLASS,
        "a name that older and newer readers encode differently",
    )
    .expect(Seen::Refused)
    .open()
    .tries(
        [
            "https://faß.de/",
            "https://FAẞ.de/",
            "https://fa\u{200c}ss.de/",
        ],
        |address| fetched(&bed, &mut host, address),
    )
    .check();
}

#[test]
fn dots_and_ports_do_not_make_another_host() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(CLASS, "a host has dots, empty labels or a port around it")
        .expect(Seen::Refused)
        .tries(
            [
                "https://.evil.com/",
                "https://evil.com./",
                "https://evil.com:443/",
                "https://evil.com:/",
                "https://evil.com../",
                "https://evil.com:080/",
                "https://evil.com,good.com/",
                "https://evil.com;good.com/",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn an_option_that_carries_a_url_is_judged() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(CLASS, "an option in an argument carries a URL")
        .expect(Seen::Refused)
        .open()
        .tries(
            [
                "--url=https://evil.com",
                "-xhttps://evil.com",
                "proxy=https://evil.com",
                "@https://evil.com",
                "--config=a=b,url=https://evil.com",
                "--url https://evil.com",
                "--proxy=http:evil.com",
                "--url=//evil.com",
            ],
            |address| {
                let arguments = json!({"args": ["-v", address]}).to_string();
                attempt(&bed, &mut host, "s:get", &arguments)
            },
        )
        .check();
}

#[test]
fn every_url_of_several_in_one_string_is_judged() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(CLASS, "one string holds several URLs")
        .expect(Seen::Refused)
        .open()
        .tries(
            [
                "https://good.com/ https://evil.com/",
                "https://good.com/,https://evil.com/",
                "https://good.com/|https://evil.com/",
                "https://good.com/\nhttps://evil.com/",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn a_url_is_found_wherever_it_stands() {
    let (bed, mut host) = network(NOT_EVIL);
    let arguments = [
        json!({"https://evil.com": 1}),
        json!({"a": {"b": [[{"c": "https://evil.com"}]]}}),
        json!({"headers": {"Host": ["evil.com"]}}),
        json!({"url": {"href": "evil.com"}}),
        json!({"x": ["https://good.com", "wss://evil.com"]}),
    ];
    attack(CLASS, "a URL stands at an unusual place of the arguments")
        .expect(Seen::Refused)
        .open()
        .tries(arguments, |arguments| {
            attempt(&bed, &mut host, "s:get", &arguments.to_string())
        })
        .check();
}

#[test]
fn a_bare_host_is_found_under_every_key_that_names_one() {
    let (bed, mut host) = network(NOT_EVIL);
    let keys = [
        "base_url",
        "endpoint",
        "urls",
        "hostName",
        "proxy",
        "targetHost",
        "uri",
        "origin",
        "webhook",
        "domains",
        "server_url",
        "HOST",
    ];
    attack(CLASS, "a bare host stands under a compound key")
        .expect(Seen::Refused)
        .open()
        .tries(keys, |key| {
            let arguments = json!({ *key: "evil.com" }).to_string();
            attempt(&bed, &mut host, "s:get", &arguments)
        })
        .check();
}

#[test]
fn the_host_of_a_copy_address_is_found() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(
        CLASS,
        "an address that only ssh, git or a nested scheme reads",
    )
    .expect(Seen::Refused)
    .open()
    .tries(
        [
            "git@evil.com:x/y.git",
            "view-source:https://evil.com",
            "git+ssh://git@evil.com/x",
            "u@evil.com:/x",
            "feed:https://evil.com",
            "jar:http://evil.com!/x",
            "evil.com:443",
            "url:http:evil.com",
        ],
        |address| fetched(&bed, &mut host, address),
    )
    .check();
}

#[test]
fn a_file_url_is_not_an_address_of_the_network() {
    let (bed, mut host) = network("allow: [{domains: ['*']}, {when: 'true'}]");
    attack(CLASS, "a `file:` URL where hosts are judged")
        .expect(Seen::Refused)
        .open()
        .tries(
            [
                "\u{1}file:///secret",
                "fi\tle:///secret",
                "file:/secret",
                "file:///secret",
                "file://host/secret",
                "FILE:secret",
                "file:\\\\\\secret",
                "local_file:///secret",
                "netdoc:/secret",
                "jar:file:///secret!/x",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

/// The words for ranges; a gateway that does not know them would take them for hosts.
#[test]
fn loopback_is_a_range() {
    let (bed, mut host) = network(&but("loopback"));
    attack(CLASS, "an address of the range `loopback`")
        .expect(Seen::Refused)
        .open()
        .tries(
            [
                "http://127.0.0.2/",
                "http://localhost:80/",
                "http://[::1]/",
                "http://0.0.0.0/",
                "http://[::]/",
                "http://a.localhost/",
                "http://[::ffff:127.9.9.9]/",
                "http://LOCALHOST./",
                "http://0/",
                "localhost:3000",
                "127.0.0.1:80",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn private_is_a_range() {
    let (bed, mut host) = network(&but("private"));
    attack(CLASS, "an address of the range `private`")
        .expect(Seen::Refused)
        .open()
        .tries(
            [
                "http://10.1.2.3/",
                "http://192.168.0.1/",
                "http://[fc00::1]/",
                "http://172.31.255.255/",
                "http://3232235521/",
                "http://[::ffff:10.0.0.1]/",
                "http://100.64.0.1/",
                "http://[64:ff9b::a00:1]/",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn link_local_is_a_range() {
    let (bed, mut host) = network(&but("link_local"));
    attack(CLASS, "an address of the range `link_local`")
        .expect(Seen::Refused)
        .open()
        .tries(
            [
                "http://169.254.1.1/",
                "http://[fe80::1]/",
                "http://[::ffff:169.254.0.1]/",
                "http://[febf::1]/",
                "http://[fe80::1%25eth0]/",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn metadata_is_a_range() {
    let (bed, mut host) = network(&but("metadata"));
    attack(CLASS, "an address of the range `metadata`")
        .expect(Seen::Refused)
        .open()
        .tries(
            [
                "http://169.254.169.254/latest/meta-data/",
                "http://[fd00:ec2::254]/",
                "http://metadata.google.internal/",
                "http://100.100.100.200/",
                "http://2852039166/",
                "http://[::ffff:a9fe:a9fe]/",
                "http://METADATA.google.internal./",
                "http://169.254.170.2/v2/credentials",
                "http://metadata/",
                "http://0xa9fea9fe/",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn an_allowed_domain_is_not_reached_by_what_only_looks_like_it() {
    let (bed, mut host) = network("allow: [{domains: ['good.com', '*.good.com']}]");
    attack(CLASS, "a host only resembles an allowed one")
        .expect(Seen::Refused)
        .tries(
            [
                "https://goоd.com/",
                "https://evilgood.com/",
                "https://good.com.evil.com/",
                "https://good.com@evil.com/",
                "https://evil.com#good.com",
                "https://evil.com\\.good.com/",
                "https://good.com\t.evil.com/",
                "//evil.com/good.com",
            ],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

/// A gateway with one server `a` that has resources, on this policy.
fn resources(rules: &str) -> (Bed, StdioHost) {
    let bed = Bed::new(
        "servers: {a: {command: '@shelf@', args: [--tag, a, --log, '@dir@/a.log']}}\npolicy: policy.yaml\n",
    );
    write(
        &bed.path("policy.yaml"),
        &format!(
            "version: '1'\nrules:\n  - {{scope: mcp_tool, deny: [{{pattern: '*'}}]}}\n{rules}"
        ),
    );
    let host = bed.stdio_ready();
    (bed, host)
}

/// Reads a resource, and says whether its server was asked.
fn read(bed: &Bed, host: &mut dyn Host, uri: &str) -> Seen {
    let asked = || bed.read("a.log").matches("resources/read").count();
    let before = asked();
    let params = json!({"uri": uri});
    let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{params}}}"#);
    let response: Value = request(host, &line);
    match (asked() > before, response.get("error").is_some()) {
        (false, true) => Seen::Refused,
        (true, _) | (false, false) => Seen::Passed,
    }
}

#[test]
fn a_wrapped_uri_is_unwrapped_before_policy_sees_it() {
    let (bed, mut host) = resources(
        "  - {scope: filesystem, deny: [{paths: ['/secret/**']}], allow: [{paths: ['**']}, {when: 'true'}]}\n\
         tool_scope_map: [{pattern: 'a:*', scope: filesystem}]\n",
    );
    attack(CLASS, "a wrapped URI hides a path from a mapped scope")
        .expect(Seen::Refused)
        .open()
        .tries(
            [
                "callgate://a/file:///secret/x",
                "callgate://a/file:/secret/x",
                "callgate://a/FILE:///secret/x",
                "file:///secret/x",
            ],
            |uri| read(&bed, &mut host, uri),
        )
        .check();
}

#[test]
fn an_expression_sees_the_uri_that_the_server_gets() {
    let (bed, mut host) = resources(
        "  - {scope: mcp_resource, deny: [{pattern: '*:*', when: 'args.uri.startsWith(\"file:\")'}], allow: [{pattern: '*:*'}]}\n",
    );
    attack(CLASS, "a wrapped URI hides itself from an expression")
        .expect(Seen::Refused)
        .open()
        .tries(
            ["callgate://a/file:///secret/x", "file:///secret/x"],
            |uri| read(&bed, &mut host, uri),
        )
        .check();
}

#[test]
fn a_resource_is_refused_in_every_spelling_of_its_uri() {
    let (bed, mut host) = resources(
        "  - {scope: mcp_resource, deny: [{pattern: 'a:file:///secret/*'}, {pattern: 'a:http://inside/*'}], allow: [{pattern: '*:*'}]}\n",
    );
    attack(
        CLASS,
        "a resource's URI is spelled otherwise than a deny pattern",
    )
    .expect(Seen::Refused)
    .open()
    .tries(
        [
            "FILE:///secret/x",
            "file:///%73ecret/x",
            "callgate://a/file:///open/../secret/x",
            "http://INSIDE:80/x",
            "file:/secret/x",
            "file://localhost/secret/x",
            "file:///open/%2e%2e/secret/x",
            "file:////secret//x",
            "http://u@inside/x",
            "http://inside./x",
            "http://inside:/x",
            "http:/inside/x",
            "http:\\\\inside\\x",
            "\u{1}file:///secret/x",
            "fi\tle:///secret/x",
        ],
        |uri| read(&bed, &mut host, uri),
    )
    .check();
}

#[test]
fn an_allowed_resource_is_not_left_by_dots() {
    let (bed, mut host) = resources(
        "  - {scope: mcp_resource, allow: [{pattern: 'a:file:///open/*'}, {pattern: 'a:http://fine/*'}]}\n",
    );
    attack(
        CLASS,
        "dots or a user name lead out of what an allow pattern names",
    )
    .expect(Seen::Refused)
    .open()
    .tries(
        [
            "file:///open/../secret/x",
            "file:///open/%2e%2e/secret/x",
            "callgate://a/file:///open/..%2fsecret/x",
            "file:///open/..\\secret/x",
            "http://fine/../../x\\..",
            "http://fine\\@evil.com/x",
        ],
        |uri| read(&bed, &mut host, uri),
    )
    .check();
}
