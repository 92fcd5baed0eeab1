//! The hosts that an address can mean. Browsers, RFC 3986, the parsers of Python and Go, and shells read some addresses
//! differently: every host that one of them would contact is found, and ambiguous addresses are refused.

use std::net::{Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use crate::visible::is_visible;

/// Longer addresses are refused as ambiguous.
const MAX_ADDRESS_BYTES: usize = 8192;
/// The most addresses that one text may list.
const MAX_LISTED: usize = 64;
/// The deepest nesting of schemes, as in `view-source:https:…`.
const MAX_NESTED: usize = 4;
/// Schemes that browsers accept with any number of slashes.
const WEB_SCHEMES: [&str; 5] = ["http", "https", "ws", "wss", "ftp"];
/// Schemes of local files, with the aliases that some libraries accept.
const FILE_SCHEMES: [&str; 4] = ["file", "local_file", "local-file", "netdoc"];
/// Letters that IDNA 2003 replaces and IDNA 2008 keeps.
const DEVIATIONS: [(char, &str); 5] = [
    ('ß', "ss"),
    ('ẞ', "ss"),
    ('ς', "σ"),
    ('\u{200c}', ""),
    ('\u{200d}', ""),
];

/// An address that parsers read differently, or without a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its host is ambiguous")]
pub struct AmbiguousHost;

/// Every host that an address can mean: lower case, in ASCII, without a trailing dot, IPv6 in brackets.
pub fn hosts(address: &str) -> Result<Vec<String>, AmbiguousHost> {
    if address.len() > MAX_ADDRESS_BYTES {
        return Err(AmbiguousHost);
    }
    let mut found = Vec::new();
    // Some tools accept several addresses in one argument and contact each of them.
    for one in listed(trimmed(address))? {
        read(one, MAX_NESTED, &mut found)?;
    }
    Ok(found)
}

/// Whether some parser takes a text for an address.
pub(super) fn is_address(text: &str) -> bool {
    // Some parsers normalise full-width letters to ASCII.
    let is_wide = |c: char| matches!(c, '\u{ff01}'..='\u{ff5e}');
    let narrow = |c: char| match is_wide(c) {
        true => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
        false => c,
    };
    is_address_within(text, MAX_NESTED)
        || (text.contains(is_wide)
            && is_address_within(&text.chars().map(narrow).collect::<String>(), MAX_NESTED))
}

/// Whether a text is a URL with two slashes behind its scheme.
pub(super) fn is_url(text: &str) -> bool {
    scheme(text).is_some_and(|(_, rest)| slashes(rest).0 >= 2)
}

/// The scheme of a URL in lower case, and the text after its colon. Parsers drop invisible characters before a scheme,
/// and tabs and line breaks inside it.
pub(super) fn scheme(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = trimmed(text).split_once(':')?;
    let kept = scheme.chars().filter(|c| !is_dropped(*c));
    let scheme: String = kept.map(|c| c.to_ascii_lowercase()).collect();
    let mut chars = scheme.chars();
    let is_scheme = chars.next().is_some_and(|c| c.is_ascii_alphabetic())
        && chars.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_'));
    is_scheme.then_some((scheme, rest))
}

/// Whether a scheme names local files.
pub(super) fn is_file_scheme(scheme: &str) -> bool {
    FILE_SCHEMES.contains(&scheme)
}

/// Whether browsers accept a scheme with any number of slashes.
pub(super) fn is_web_scheme(scheme: &str) -> bool {
    WEB_SCHEMES.contains(&scheme)
}

/// An address without the characters that parsers strip from both ends.
pub(super) fn trimmed(text: &str) -> &str {
    text.trim_matches(|c: char| c.is_whitespace() || !is_visible(c))
}

/// The number of leading slashes of either kind, and the text after them.
pub(super) fn slashes(text: &str) -> (usize, &str) {
    let is_slash = |c: char| matches!(c, '/' | '\\');
    let behind = text.trim_start_matches(|c| is_slash(c) || is_dropped(c));
    let before = &text[..text.len() - behind.len()];
    (before.chars().filter(|c| is_slash(*c)).count(), behind)
}

fn is_dropped(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r')
}

fn is_address_within(text: &str, depth: usize) -> bool {
    let text = trimmed(text);
    if depth == 0 || text.parse::<Ipv6Addr>().is_ok() {
        return true;
    }
    let Some((scheme, rest)) = scheme(text) else {
        return is_address_without_scheme(text);
    };
    let (count, behind) = slashes(rest);
    let follows = behind.starts_with(|c: char| !c.is_whitespace());
    if is_web_scheme(&scheme) || is_file_scheme(&scheme) {
        return follows && (count > 0 || !rest.starts_with(char::is_whitespace));
    }
    // One letter and backslashes are a Windows drive, not a scheme.
    let has_authority = count >= 2 && (scheme.len() > 1 || rest.starts_with("//"));
    let is_named = scheme.contains('.') || scheme == "localhost";
    has_authority
        || (is_named && is_port(rest))
        || (count == 0 && rest.contains(':') && is_address_within(rest, depth - 1))
}

fn is_address_without_scheme(text: &str) -> bool {
    let (count, behind) = slashes(text);
    let authority = behind.split(['/', '\\', '?', '#']).next();
    let authority = authority.unwrap_or_default();
    if count >= 2 {
        return !authority.is_empty() && !authority.contains(char::is_whitespace);
    }
    if count == 1 {
        return false;
    }
    let host = without_port(authority);
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let inner = inner.and_then(|inner| inner.split('%').next());
    let is_number = host.parse::<Ipv4Addr>().is_ok()
        || inner.is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok());
    let lower = host.to_ascii_lowercase();
    is_number || lower == "localhost" || lower.ends_with(".localhost") || copied(text).is_some()
}

/// The host in `user@host:path`, the scp syntax of ssh and git.
fn copied(text: &str) -> Option<&str> {
    let (user, rest) = text.split_once('@')?;
    let (host, _) = rest.split_once(':')?;
    let is_user = !user.is_empty() && !user.contains(['/', ':', '\\']);
    let is_host = !host.is_empty() && !host.contains(['/', '@', '\\']);
    let is_word = |text: &str| !text.contains(char::is_whitespace);
    (is_user && is_host && is_word(user) && is_word(host)).then_some(host)
}

/// Whether the text after a colon is only a port.
fn is_port(rest: &str) -> bool {
    let port = rest.split(['/', '?', '#']).next().unwrap_or_default();
    port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit()) && !port.is_empty()
}

fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        Some(_) | None => authority,
    }
}

/// The addresses in a text: the first, and each that follows a space or a separator.
fn listed(text: &str) -> Result<Vec<&str>, AmbiguousHost> {
    let is_separator = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '|');
    let mut all = Vec::new();
    let mut start = 0;
    for (at, separator) in text.char_indices().filter(|(_, c)| is_separator(*c)) {
        let next = at + separator.len_utf8();
        let rest = text[next..].split(is_separator).next().unwrap_or_default();
        if at > start && scheme(&text[start..at]).is_some() && is_address(rest) {
            all.push(&text[start..at]);
            start = next;
        }
        // Refused and not cut: an address beyond the limit would be contacted without a check.
        if all.len() == MAX_LISTED {
            return Err(AmbiguousHost);
        }
    }
    all.push(&text[start..]);
    Ok(all)
}

fn read(text: &str, depth: usize, found: &mut Vec<String>) -> Result<(), AmbiguousHost> {
    if depth == 0 {
        return Err(AmbiguousHost);
    }
    let text = trimmed(text);
    if text.parse::<Ipv6Addr>().is_ok() {
        return read_host(text, found);
    }
    let Some((scheme, rest)) = scheme(text) else {
        if text.contains("://") {
            return Err(AmbiguousHost);
        }
        let (count, behind) = slashes(text);
        return match (count, copied(text)) {
            (0, Some(host)) if !is_port(&text[text.find(':').map_or(0, |at| at + 1)..]) => {
                read_host(host, found)
            }
            (0, _) => read_authority(text, found),
            (1, _) => Err(AmbiguousHost),
            (_, _) => read_authority(behind, found),
        };
    };
    if is_file_scheme(&scheme) {
        return Err(AmbiguousHost);
    }
    let (count, behind) = slashes(rest);
    if is_web_scheme(&scheme) {
        // `http:80` is a scheme to browsers, and host `http` with port 80 to others.
        if count == 0 && is_port(rest) {
            read_host(&scheme, found)?;
        }
        return read_authority(behind, found);
    }
    match count {
        2 => read_authority(behind, found),
        0 if is_port(rest) || rest.is_empty() => read_authority(text, found),
        0 if rest.contains(':') => read(rest, depth - 1, found),
        _ => Err(AmbiguousHost),
    }
}

/// Reads the authority and the rest of an address, after its slashes.
fn read_authority(text: &str, found: &mut Vec<String>) -> Result<(), AmbiguousHost> {
    let end = text.find(['/', '?', '#']).unwrap_or(text.len());
    let (authority, tail) = text.split_at(end);
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == '\\' || c == '%';
    // Parsers disagree about all of these: `\` ends a host only in browsers, `%` is decoded by some,
    // and with two `@` some split at the first and some at the last.
    if authority.chars().any(odd) || authority.matches('@').count() > 1 {
        return Err(AmbiguousHost);
    }
    let host = authority
        .split_once('@')
        .map_or(authority, |(_, host)| host);
    read_host(host, found)?;
    // Some parsers look for the `@` before `?` and `#`: `https://good.com#@evil.com/` contacts evil.com.
    let end = tail.find('/').unwrap_or(tail.len());
    match tail[..end].rsplit_once('@') {
        Some((_, host)) => {
            let host = host.split(['?', '#']).next().unwrap_or_default();
            read_host(host, found)
        }
        None => Ok(()),
    }
}

/// Reads a host with or without a port.
fn read_host(text: &str, found: &mut Vec<String>) -> Result<(), AmbiguousHost> {
    // Many tools accept an IPv6 address without brackets.
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        add_ipv6(address, found);
        return Ok(());
    }
    match parsed(text)? {
        Host::Domain(domain) => {
            add_domain(&domain, found)?;
            // `straße.de` is strasse.de to IDNA 2003 resolvers and a domain of its own to newer ones.
            if text.contains(DEVIATIONS.map(|(letter, _)| letter)) {
                let older = DEVIATIONS
                    .iter()
                    .fold(text.to_owned(), |text, (letter, plain)| {
                        text.replace(*letter, plain)
                    });
                if let Host::Domain(domain) = parsed(&older)? {
                    add_domain(&domain, found)?;
                }
            }
        }
        Host::Ipv4(address) => {
            add(address.to_string(), found);
            // Most parsers read leading zeros as octal, some as decimal: both hosts count.
            if let Some(decimal) = decimal(without_port(text)) {
                add(decimal.to_string(), found);
            }
        }
        Host::Ipv6(address) => add_ipv6(address, found),
    }
    Ok(())
}

/// The host as browsers parse it.
fn parsed(text: &str) -> Result<Host<String>, AmbiguousHost> {
    let url = Url::parse(&format!("http://{text}/")).map_err(|_| AmbiguousHost)?;
    url.host().map(|host| host.to_owned()).ok_or(AmbiguousHost)
}

fn add_domain(domain: &str, found: &mut Vec<String>) -> Result<(), AmbiguousHost> {
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    let is_label = |label: &str| {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        !label.is_empty() && label.chars().all(is_letter)
    };
    if !domain.split('.').all(is_label) {
        return Err(AmbiguousHost);
    }
    add(domain.to_owned(), found);
    Ok(())
}

fn add_ipv6(address: Ipv6Addr, found: &mut Vec<String>) {
    add(format!("[{address}]"), found);
    // Without this, `[::ffff:127.0.0.1]` would evade a rule on 127.0.0.1.
    for inner in embedded_ipv4(address) {
        add(inner.to_string(), found);
    }
}

fn add(host: String, found: &mut Vec<String>) {
    if !found.contains(&host) {
        found.push(host);
    }
}

/// Four decimal numbers, with leading zeros ignored.
fn decimal(text: &str) -> Option<Ipv4Addr> {
    let parts = text.trim_end_matches('.').split('.');
    let parts: Option<Vec<u8>> = parts.map(|part| part.parse().ok()).collect();
    let parts: [u8; 4] = parts?.try_into().ok()?;
    Some(parts.into())
}

/// The IPv4 addresses embedded in an IPv6 address, which translators and tunnels contact.
pub fn embedded_ipv4(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let parts = address.segments();
    let at = |high: usize| {
        let [a, b] = parts[high].to_be_bytes();
        let [c, d] = parts[high + 1].to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match parts {
        // The unspecified and the loopback address embed nothing.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => Vec::new(),
        // Compatible, mapped and translated addresses.
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => vec![at(6)],
        // NAT64, well-known and local.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] | [0x64, 0xff9b, 1, ..] => vec![at(6)],
        // 6to4.
        [0x2002, ..] => vec![at(1)],
        // Teredo: the server, and the client with its bits inverted.
        [0x2001, 0, ..] => vec![at(2), Ipv4Addr::from(!u32::from(at(6)))],
        // ISATAP.
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => vec![at(6)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_extracted_from_addresses() {
        let cases: [(&str, &[&str]); 41] = [
            ("x.com", &["x.com"]),
            ("X.COM.", &["x.com"]),
            ("https://X.com:8443/a?b#c", &["x.com"]),
            ("https://user:pw@x.com/", &["x.com"]),
            ("https://x.com@evil.com/", &["evil.com"]),
            ("https://good.com#@evil.com/", &["good.com", "evil.com"]),
            ("https://good.com?@evil.com", &["good.com", "evil.com"]),
            ("https://x.com/?mail=a@b.com", &["x.com"]),
            ("ssh://git@x.com:22/a", &["x.com"]),
            ("git@x.com:a/b.git", &["x.com"]),
            ("x.com:80", &["x.com"]),
            ("https:evil.com", &["evil.com"]),
            ("http:/127.0.0.1", &["127.0.0.1"]),
            ("https:\\\\evil.com", &["evil.com"]),
            ("https:///evil.com", &["evil.com"]),
            ("//evil.com/x", &["evil.com"]),
            ("\\\\evil.com", &["evil.com"]),
            ("\u{1}https://x.com", &["x.com"]),
            ("ht\ntps://x.com", &["x.com"]),
            ("view-source:https://x.com", &["x.com"]),
            ("http:80", &["http", "0.0.0.80"]),
            ("http://0x7f.1/", &["127.0.0.1"]),
            ("2130706433", &["127.0.0.1"]),
            ("0177.0.0.1", &["127.0.0.1", "177.0.0.1"]),
            ("010.0.0.1:80", &["8.0.0.1", "10.0.0.1"]),
            ("127.0.0.1.", &["127.0.0.1"]),
            ("[::1]:80", &["[::1]"]),
            ("::1", &["[::1]"]),
            ("fe80::1", &["[fe80::1]"]),
            ("[::ffff:127.0.0.1]", &["[::ffff:127.0.0.1]", "127.0.0.1"]),
            ("[64:ff9b::7f00:1]", &["[64:ff9b::7f00:1]", "127.0.0.1"]),
            ("[2002:7f00:1::]", &["[2002:7f00:1::]", "127.0.0.1"]),
            (
                "[2001:0:1:2:3:4:80ff:fffe]",
                &["[2001:0:1:2:3:4:80ff:fffe]", "0.1.0.2", "127.0.0.1"],
            ),
            ("bücher.de", &["xn--bcher-kva.de"]),
            ("faß.de", &["xn--fa-hia.de", "fass.de"]),
            ("https://аpple.com/", &["xn--pple-43d.com"]),
            ("x。com", &["x.com"]),
            ("ev\u{ad}il.com", &["evil.com"]),
            ("https://a.com/ https://b.com", &["a.com", "b.com"]),
            ("https://a.com/,https://b.com", &["a.com", "b.com"]),
            ("https://a.com/x y", &["a.com"]),
        ];
        for (address, expected) in cases {
            let expected: Vec<String> = expected.iter().map(|&host| host.to_owned()).collect();
            assert_eq!(hosts(address), Ok(expected), "{address:?}");
        }
    }

    #[test]
    fn ambiguous_addresses_are_refused() {
        for address in [
            "",
            ".",
            "http://",
            "/x",
            "http://evil.com\\@good.com/",
            "http://good.com\t.evil.com/",
            "http://a@b@c/",
            "http://good.com%2eevil.com/",
            "http://good.com evil.com/",
            "http://good.com,evil.com/",
            "http://.evil.com/",
            "http://evil..com/",
            "http://[::1%25lo]/",
            "file:///etc/passwd",
            "\u{1}fi\tle:/etc/passwd",
            "file://host/share",
            "jar:file:///x",
            "javascript:alert(1)",
            "about:blank",
            "foo:///x",
            "1x://good.com",
        ] {
            assert_eq!(hosts(address), Err(AmbiguousHost), "{address:?}");
        }
    }

    #[test]
    fn texts_that_begin_like_addresses_are_recognised() {
        for text in [
            "https://x",
            "https:x",
            "http:/x",
            "\u{1}FILE:/x",
            "//x.com",
            "\\\\x.com",
            "127.0.0.1",
            "127.0.0.1:80",
            "[::1]",
            "::1",
            "localhost:80",
            "x.com:443/a",
            "git@x.com:a",
            "custom://x",
            "feed:https://x",
            "ｈttps：／／x",
        ] {
            assert!(is_address(text), "{text:?}");
        }
        for text in [
            "",
            "x.com",
            "plain words",
            "// a comment",
            "/etc/passwd",
            "note: https is good",
            "http: the protocol",
            "a@b.com",
            "C:\\Users",
            "[ ] a task",
            "12:30",
            "1.2.3",
        ] {
            assert!(!is_address(text), "{text:?}");
        }
    }
}
