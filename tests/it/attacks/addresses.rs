//! URLs and hosts that different parsers read differently.

mod places;
mod ranges;
mod resources;

use callgate_testkit::StdioHost;
use serde_json::json;

use super::{CANNED, Seen, attack, attempt, can, plain_tool, write};
use crate::setup::Bed;

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
fn urls_with_missing_or_extra_slashes_are_judged() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(
        CLASS,
        "a URL has more, fewer or other slashes than it should",
    )
    .expect(Seen::Refused)
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
fn numeric_hosts_with_missing_slashes_are_judged() {
    let (bed, mut host) = network(&but("127.0.0.1"));
    attack(CLASS, "a numeric host stands behind too few slashes")
        .expect(Seen::Refused)
        .tries(
            ["http:/127.0.0.1", "http:127.0.0.1:80", "http:\\127.0.0.1/x"],
            |address| fetched(&bed, &mut host, address),
        )
        .check();
}

#[test]
fn urls_without_a_scheme_are_judged() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(CLASS, "a URL leaves out its scheme")
        .expect(Seen::Refused)
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
fn numeric_spellings_of_ipv4_addresses_are_judged() {
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
fn ipv4_addresses_inside_ipv6_ones_are_judged() {
    let (bed, mut host) = network(&but("127.0.0.1"));
    attack(CLASS, "an IPv6 address carries an IPv4 one")
        .expect(Seen::Refused)
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
fn percent_encoded_hosts_are_refused() {
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
fn unicode_spellings_of_a_host_are_folded() {
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
fn dots_and_ports_do_not_change_the_host() {
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
fn hosts_of_ssh_git_and_nested_addresses_are_judged() {
    let (bed, mut host) = network(NOT_EVIL);
    attack(
        CLASS,
        "an address that only ssh, git or a nested scheme reads",
    )
    .expect(Seen::Refused)
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
fn file_urls_do_not_count_as_network_addresses() {
    let (bed, mut host) = network("allow: [{domains: ['*']}, {when: 'true'}]");
    attack(CLASS, "a `file:` URL where hosts are judged")
        .expect(Seen::Refused)
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

#[test]
fn lookalikes_of_an_allowed_domain_are_refused() {
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
