//! What arguments mean, for the naive evaluator. It knows the keys that its cases use: paths stand
//! under `path`, `Path`, `paths`, `source`, `destination` and in keys that say nothing; texts under
//! `content`; commands under `command`; addresses under `url` and `host`.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;

use serde_json::Value;

/// Everything in the arguments that is taken for a path.
pub fn paths(arguments: &Value) -> Vec<String> {
    let mut found = Vec::new();
    strings(arguments, "", &mut |key, text| {
        if key == "command" {
            let words = text.split_whitespace().filter(|word| word.starts_with('/'));
            for word in words {
                if !found.contains(&word.to_owned()) {
                    found.push(word.to_owned());
                }
            }
            return;
        }
        let is_key = matches!(
            key.to_lowercase().as_str(),
            "path" | "paths" | "source" | "destination"
        );
        let is_content = key == "content";
        let plain = !text.contains(char::is_whitespace);
        let is_address = text.contains("://");
        let decoded = decoded(text);
        let from_root = decoded.starts_with('/');
        let climbs = decoded.split('/').any(|part| part == "..");
        let looks =
            from_root || decoded.starts_with('~') || climbs || plain && decoded.contains('/');
        let taken = if is_key {
            !text.is_empty()
        } else if is_content {
            plain && (from_root || decoded.starts_with("~/") || decoded.starts_with("../"))
        } else {
            looks
        };
        let option = text
            .strip_prefix("--")
            .and_then(|text| text.split_once('='));
        let carried = option.map(|(_, value)| value);
        let taken = taken.then_some(text).into_iter().chain(carried);
        for text in taken.filter(|_| !is_address) {
            if !found.contains(&text.to_owned()) {
                found.push(text.to_owned());
            }
        }
    });
    found
}

/// The strings under some keys.
pub fn under(arguments: &Value, keys: &[&str]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    strings(arguments, "", &mut |key, text| {
        let known = keys.contains(&key.to_lowercase().as_str());
        if known && !found.contains(&text.to_owned()) {
            found.push(text.to_owned());
        }
    });
    found
}

/// The addresses: what stands under their keys, and whatever begins like a URL.
pub fn addresses(arguments: &Value) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    strings(arguments, "", &mut |key, text| {
        let known = matches!(
            key.to_lowercase().as_str(),
            "url" | "host" | "hostname" | "domain"
        );
        let is_address =
            text.contains("://") || text.starts_with("//") || text.starts_with("https:");
        if (known || is_address) && !found.contains(&text.to_owned()) {
            found.push(text.to_owned());
        }
    });
    found
}

/// The hosts that an address can mean; `None` when it is unclear.
pub fn hosts(address: &str) -> Option<Vec<String>> {
    let web = address
        .strip_prefix("https:")
        .or(address.strip_prefix("http:"));
    let rest = web.unwrap_or(address).trim_start_matches('/');
    let authority = rest.split(['/', '?', '#']).next()?;
    if authority.contains(['\\', ' ', '%']) || authority.matches('@').count() > 1 {
        return None;
    }
    let host = authority.rsplit('@').next()?;
    if let Some(address) = host.strip_prefix('[') {
        let address: Ipv6Addr = address.strip_suffix(']')?.parse().ok()?;
        let inner = address.to_ipv4_mapped().map(|inner| inner.to_string());
        return Some([format!("[{address}]")].into_iter().chain(inner).collect());
    }
    let host = host.split(':').next()?.trim_end_matches('.').to_lowercase();
    (!host.is_empty()).then(|| vec![host])
}

/// Whether a host is of a domain or of a range that has a name.
pub fn is_in(domain: &str, host: &str) -> bool {
    match domain {
        "private" => host.starts_with("10."),
        _ => super::wild(domain, host),
    }
}

/// Every reading of a path, absolute; `None` when one of them climbs out.
pub fn readings(path: &str, folder: &str, home: &str) -> Option<Vec<String>> {
    let mut all = vec![absolute(path, folder, home)?];
    let mut newest = path.to_owned();
    for _ in 0..4 {
        let next = decoded_once(&newest);
        if next == newest {
            break;
        }
        all.push(absolute(&next, folder, home)?);
        newest = next;
    }
    Some(all)
}

/// Where a path really is, when these folders are links.
pub fn real(path: &str, links: &BTreeMap<String, String>) -> String {
    for (from, to) in links {
        if path == from {
            return to.clone();
        }
        if let Some(rest) = path.strip_prefix(&format!("{from}/")) {
            return format!("{to}/{rest}");
        }
    }
    path.to_owned()
}

/// Whether a path pattern matches an absolute path.
pub fn glob(pattern: &str, path: &str, folder: &str, home: &str) -> bool {
    let whole = match pattern {
        "**" => "/**".to_owned(),
        _ if pattern.starts_with("**/") => format!("/{pattern}"),
        _ => absolute(pattern, folder, home).expect("patterns of cases do not climb"),
    };
    let parts: Vec<&str> = whole.split('/').skip(1).collect();
    let path: Vec<&str> = path
        .split('/')
        .skip(1)
        .filter(|part| !part.is_empty())
        .collect();
    segments(&parts, &path)
}

/// What the verb in a tool's name does to files.
pub fn action(tool: &str) -> Option<&'static str> {
    let tool = tool.to_lowercase();
    let words: Vec<&str> = tool.split('_').collect();
    let has = |verbs: &[&str]| words.iter().any(|word| verbs.contains(word));
    if has(&["delete", "remove", "unlink", "rm"]) {
        return Some("delete");
    }
    if has(&["write", "edit", "create", "append", "save", "copy", "move"]) {
        return Some("write");
    }
    has(&[
        "read", "list", "get", "stat", "find", "search", "glob", "grep",
    ])
    .then_some("read")
}

fn segments(pattern: &[&str], path: &[&str]) -> bool {
    match (pattern, path) {
        ([], _) => path.is_empty(),
        // A folder and everything below it.
        (["**"], _) => true,
        (["**", rest @ ..], _) => (0..=path.len()).any(|skipped| segments(rest, &path[skipped..])),
        ([first, pattern @ ..], [part, path @ ..]) => {
            super::wild(first, part) && segments(pattern, path)
        }
        (_, []) => false,
    }
}

/// A path from the root, without `.` and `..`; `None` when it climbs out.
pub fn absolute(path: &str, folder: &str, home: &str) -> Option<String> {
    let (start, rest) = match path.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => (home, rest),
        Some(_) => return None,
        None if path.starts_with('/') => ("", path),
        None => (folder, path),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in rest.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    let whole = parts
        .iter()
        .fold(start.to_owned(), |whole, part| format!("{whole}/{part}"));
    Some(if whole.is_empty() { "/".into() } else { whole })
}

fn decoded(text: &str) -> String {
    let mut text = text.to_owned();
    for _ in 0..4 {
        text = decoded_once(&text);
    }
    text
}

/// The only encodings that cases use.
fn decoded_once(text: &str) -> String {
    text.replace("%2F", "/")
        .replace("%2e", ".")
        .replace("%25", "%")
}

/// Every string with the key it stands under.
fn strings(value: &Value, key: &str, each: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::String(text) => each(key, text),
        Value::Array(elements) => elements
            .iter()
            .for_each(|element| strings(element, key, each)),
        Value::Object(members) => members
            .iter()
            .for_each(|(key, value)| strings(value, key, each)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
