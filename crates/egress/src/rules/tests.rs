use proptest::{prelude::*, proptest};

use super::*;

fn rules(written: &[&str]) -> DestinationRules {
    DestinationRules::parse(written).expect("they are destinations")
}

fn to(text: &str) -> Destination {
    Destination::from_authority(text, None).expect("it is a destination")
}

fn is_admitted(rules: &DestinationRules, destination: &str, address: &str) -> bool {
    let address = crate::address::canonical(address.parse().expect("an address"));
    rules.admits(&to(destination), address)
}

#[test]
fn names_are_listed_with_their_ports() {
    let listed = rules(&[
        "API.example.com.",
        "db.internal:5432",
        "*.wild.example",
        "b\u{fc}cher.example:*",
    ]);
    for destination in [
        "api.example.com:443",
        "api.example.com:80",
        "Api.Example.Com.:443",
        "db.internal:5432",
        "a.wild.example:443",
        "a.b.wild.example:80",
        "xn--bcher-kva.example:8443",
    ] {
        assert!(listed.lists(&to(destination)), "{destination}");
    }
    for destination in [
        "api.example.com:8443",
        "example.com:443",
        "x.api.example.com:443",
        "xapi.example.com:443",
        "api.example.com.evil.example:443",
        "db.internal:443",
        "wild.example:443",
        "evilwild.example:443",
        "a.wild.example:22",
        "bucher.example:443",
        "localhost:443",
    ] {
        assert!(!listed.lists(&to(destination)), "{destination}");
    }
}

#[test]
fn names_lead_to_public_addresses_unless_host_and_port_are_listed() {
    let listed = rules(&[
        "api.example.com",
        "db.internal:5432",
        "*.wild.example",
        "*:8080",
    ]);
    let not_public = [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.1.1",
        "169.254.169.254",
        "fd00::1",
        "64:ff9b::7f00:1",
        "192.0.2.1",
    ];
    for destination in [
        "api.example.com:443",
        "a.wild.example:443",
        "any.example:8080",
        "db.internal:8080",
    ] {
        assert!(
            is_admitted(&listed, destination, "8.8.8.8"),
            "{destination}"
        );
        assert!(
            is_admitted(&listed, destination, "2606:4700::1111"),
            "{destination}"
        );
        for address in not_public {
            assert!(
                !is_admitted(&listed, destination, address),
                "{destination} at {address}"
            );
        }
    }
    for address in ["8.8.8.8", "127.0.0.1", "10.0.0.1", "fd00::1"] {
        assert!(
            is_admitted(&listed, "db.internal:5432", address),
            "{address}"
        );
    }
    for address in [
        "169.254.1.1",
        "169.254.169.254",
        "fd00:ec2::254",
        "64:ff9b::7f00:1",
        "192.0.2.1",
    ] {
        assert!(
            !is_admitted(&listed, "db.internal:5432", address),
            "{address}"
        );
    }
}

#[test]
fn an_address_or_range_beside_a_name_lets_the_name_lead_there() {
    let listed = rules(&["*.corp.example", "10.0.0.0/8", "192.168.7.7", "metadata"]);
    assert!(is_admitted(&listed, "a.corp.example:443", "10.1.2.3"));
    assert!(is_admitted(&listed, "a.corp.example:443", "192.168.7.7"));
    assert!(is_admitted(&listed, "a.corp.example:80", "169.254.169.254"));
    assert!(!is_admitted(&listed, "a.corp.example:443", "192.168.7.8"));
    assert!(!is_admitted(&listed, "a.corp.example:8443", "10.1.2.3"));
    // An unlisted name is refused without a lookup, wherever it leads.
    assert!(!listed.lists(&to("other.example:443")));
    assert!(!is_admitted(&listed, "other.example:443", "10.1.2.3"));
}

#[test]
fn addresses_are_admitted_where_they_are_listed_whatever_their_spelling() {
    let listed = rules(&["127.0.0.1:3000", "[::1]:3000", "10.0.0.0/8:5432"]);
    for destination in [
        "127.0.0.1:3000",
        "127.1:3000",
        "2130706433:3000",
        "0x7f000001:3000",
        "[::ffff:127.0.0.1]:3000",
        "[::ffff:7f00:1]:3000",
        "[::1]:3000",
        "[0:0:0:0:0:0:0:1]:3000",
        "10.200.0.1:5432",
    ] {
        assert!(admits_itself(&listed, destination), "{destination}");
    }
    for destination in [
        "127.0.0.1:80",
        "127.0.0.2:3000",
        "[::2]:3000",
        "[64:ff9b::7f00:1]:3000",
        "[::127.0.0.1]:3000",
        "11.0.0.1:5432",
        "10.0.0.1:80",
        "8.8.8.8:443",
    ] {
        assert!(!admits_itself(&listed, destination), "{destination}");
    }
    let listed = rules(&["fd12::/16", "[fd13::/16]:5432"]);
    assert!(admits_itself(&listed, "[fd12::9]:443"));
    assert!(admits_itself(&listed, "[fd13::9]:5432"));
    assert!(!admits_itself(&listed, "[fd14::9]:443"));
}

fn admits_itself(rules: &DestinationRules, destination: &str) -> bool {
    let destination = to(destination);
    let Host::Address(address) = destination.host else {
        panic!("{destination} is not an address");
    };
    rules.admits(&destination, address)
}

#[test]
fn a_star_lists_public_hosts_only() {
    let listed = rules(&["*"]);
    assert!(admits_itself(&listed, "8.8.8.8:443"));
    assert!(is_admitted(&listed, "any.example:443", "8.8.8.8"));
    assert!(!is_admitted(&listed, "localhost:80", "127.0.0.1"));
    for destination in [
        "127.0.0.1:80",
        "10.0.0.1:80",
        "169.254.169.254:80",
        "[fd00::1]:80",
        "224.0.0.1:80",
    ] {
        assert!(!admits_itself(&listed, destination), "{destination}");
    }
}

#[test]
fn words_list_their_range_and_its_names_only() {
    let listed = rules(&["loopback:*"]);
    assert!(admits_itself(&listed, "127.0.0.1:9999"));
    assert!(admits_itself(&listed, "[::1]:9999"));
    assert!(is_admitted(&listed, "localhost:9999", "127.0.0.1"));
    assert!(!is_admitted(&listed, "localhost:9999", "8.8.8.8"));
    assert!(!admits_itself(&listed, "10.0.0.1:9999"));
    let listed = rules(&["private", "link_local"]);
    assert!(admits_itself(&listed, "10.0.0.1:80"));
    assert!(admits_itself(&listed, "169.254.1.1:80"));
    for metadata in [
        "169.254.169.254:80",
        "100.100.100.200:80",
        "[fd00:ec2::254]:80",
    ] {
        assert!(!admits_itself(&listed, metadata), "{metadata}");
        assert!(admits_itself(&rules(&["metadata"]), metadata), "{metadata}");
    }
}

#[test]
fn networks_list_the_kind_of_address_they_consist_of() {
    let listed = rules(&["100.0.0.0/8"]);
    assert!(admits_itself(&listed, "100.1.1.1:80"), "public");
    assert!(
        !admits_itself(&listed, "100.64.0.1:80"),
        "carrier-grade NAT inside a public network"
    );
    assert!(admits_itself(&rules(&["100.64.0.0/10"]), "100.64.0.1:80"));
    assert!(!admits_itself(
        &rules(&["100.64.0.0/10"]),
        "100.100.100.200:80"
    ));
    assert!(!admits_itself(
        &rules(&["169.254.0.0/16"]),
        "169.254.169.254:80"
    ));
    assert!(admits_itself(
        &rules(&["169.254.169.254/32"]),
        "169.254.169.254:80"
    ));
    assert!(admits_itself(&rules(&["198.18.0.0/15"]), "198.19.0.1:80"));
}

#[test]
fn names_of_this_machine_and_of_metadata_services_may_be_listed_without_a_port() {
    assert!(is_admitted(
        &rules(&["localhost"]),
        "localhost:80",
        "127.0.0.1"
    ));
    let listed = rules(&["metadata.google.internal"]);
    assert!(is_admitted(
        &listed,
        "metadata.google.internal:80",
        "169.254.169.254"
    ));
    assert!(!is_admitted(
        &listed,
        "metadata.google.internal:80",
        "127.0.0.1"
    ));
}

#[test]
fn exact_destinations_have_a_host_and_a_port() {
    let listed = rules(&[
        "a.example",
        "a.example:443",
        "b.example:5432",
        "[::1]:80",
        "127.0.0.1",
        "c.example:*",
        "*.d.example",
        "*",
        "10.0.0.0/8",
        "loopback:1",
    ]);
    let shown: Vec<String> = listed.exact().iter().map(Destination::to_string).collect();
    let expected = [
        "a.example:443",
        "a.example:80",
        "b.example:5432",
        "[::1]:80",
        "127.0.0.1:443",
        "127.0.0.1:80",
    ];
    assert_eq!(shown, expected);
    assert_eq!(rules(&[]).exact(), []);
    assert!(rules(&[]).is_empty() && !listed.is_empty());
}

#[test]
fn entries_that_are_not_destinations_are_refused_with_what_to_write() {
    let cases = [
        ("", "it is empty", "write a host"),
        (
            "https://api.example.com/v1",
            "it is a URL",
            "write `api.example.com:443`",
        ),
        ("http://[::1]:8080/", "it is a URL", "write `[::1]:8080`"),
        ("foo://bar", "it is a URL", "write a host"),
        (
            "api.example.com/v1",
            "it has a path",
            "write `api.example.com`",
        ),
        (
            "me@host.example",
            "it has a user name",
            "write `host.example`",
        ),
        (
            "a.example:http",
            "`http` is not a port",
            "a number from 1 to 65535",
        ),
        ("a.example:0", "`0` is not a port", "a number"),
        ("a.example:65536", "`65536` is not a port", "a number"),
        ("a.example:", "`` is not a port", "a number"),
        ("api.*.com", "a `*` can only stand", "`*.example.com`"),
        ("*example.com", "a `*` can only stand", "`*.example.com`"),
        ("*.*.com", "a `*` can only stand", "`*.example.com`"),
        ("10.0.0.*", "an address cannot have a `*`", "`10.0.0.0/24`"),
        (
            "*.10.0.0.1",
            "an address cannot have a `*`",
            "`10.0.0.0/24`",
        ),
        ("loopbak", "it is almost `loopback`", "write `loopback`"),
        (
            "link-local:80",
            "it is almost `link_local`",
            "write `link_local`",
        ),
        (
            "0177.0.0.1",
            "it can be read as `127.0.0.1` or `177.0.0.1`",
            "the one that is meant",
        ),
        (
            "fa\u{df}.example",
            "it can be read as `xn--fa-hia.example` or `fass.example`",
            "the one",
        ),
        (
            "0x7f.1",
            "an unusual form of an address",
            "write `127.0.0.1`",
        ),
        (
            "[::ffff:10.0.0.1]:80",
            "an unusual form of an address",
            "write `10.0.0.1`",
        ),
        (
            "::ffff:10.0.0.0/104",
            "an unusual form of an address",
            "write `10.0.0.0`",
        ),
        (
            "10.0.0.0/33",
            "`33` is not the length of a prefix",
            "up to 32",
        ),
        ("10.0.0.0/", "`` is not the length of a prefix", "up to 32"),
        (
            "10.0.0.0/+8",
            "`+8` is not the length of a prefix",
            "up to 32",
        ),
        (
            "0.0.0.0/0",
            "the network is too large",
            "`*` for every public host",
        ),
        ("::/0", "the network is too large", "/7 or smaller"),
        (
            "10.1.2.3/8",
            "the address has bits behind its prefix",
            "write `10.0.0.0/8`",
        ),
        ("a b", "neither a host name nor an address", "write a host"),
        ("a..b", "neither a host name nor an address", "write a host"),
        ("[::1", "neither a host name nor an address", "write a host"),
        (
            "a:b:80",
            "neither a host name nor an address",
            "write a host",
        ),
    ];
    for (written, fault, help) in cases {
        let bad = DestinationRules::parse(["good.example", written]).expect_err(written);
        let message = bad.to_string();
        assert!(
            message.starts_with(&format!("`{written}` is not a destination: ")),
            "{message}"
        );
        assert!(message.contains(fault), "{written}: {message}");
        assert!(bad.help().contains(help), "{written}: {}", bad.help());
    }
}

proptest! {
    #[test]
    fn no_text_crashes_the_reader(text in "[*a-z0-9.:/@\\[\\]%-]{0,24}|\\PC{0,16}") {
        let _ = DestinationRules::parse([&text]);
        let _ = Destination::from_authority(&text, Some(80));
    }

    #[test]
    fn only_listed_addresses_are_admitted(bits: u32, listed: u32, prefix in 8_u8..=32) {
        let listed = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0) & listed;
        let network = format!("{}/{prefix}", std::net::Ipv4Addr::from(listed));
        let is_inside = bits >> (32 - u32::from(prefix)) == listed >> (32 - u32::from(prefix));
        let address = std::net::Ipv4Addr::from(bits);
        let admitted = admits_itself(&rules(&[&network]), &format!("{address}:80"));
        prop_assert!(!admitted || is_inside, "{address} by {network}");
    }
}
