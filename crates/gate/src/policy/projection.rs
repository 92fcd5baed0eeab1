//! Finds the subjects of a scope in a tool's arguments: paths, hosts, commands or texts, at any depth. Whatever could be
//! a subject counts as one, and arguments beyond a limit are refused.

use std::borrow::Cow;

use callgate_wire::{Json, JsonKind, Strictness, words};

use super::{address, carried, path};

/// The most values in a call's arguments.
const MAX_VALUES: usize = 10_000;
/// The most subjects of one call.
const MAX_SUBJECTS: usize = 256;
/// The deepest nesting of arguments.
const MAX_DEPTH: usize = 64;

/// Words in a key that mark its value as a path.
const PATH_WORDS: [&str; 35] = [
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filenames",
    "filepath",
    "filepaths",
    "dir",
    "dirs",
    "directory",
    "directories",
    "folder",
    "folders",
    "source",
    "sources",
    "src",
    "destination",
    "destinations",
    "dest",
    "dst",
    "target",
    "targets",
    "from",
    "to",
    "root",
    "roots",
    "cwd",
    "location",
    "uri",
    "uris",
    "link",
    "links",
    "pathname",
    "name",
];
/// Last words of keys that hold text; only a value that is entirely a path counts there.
const TEXT_WORDS: [&str; 15] = [
    "content",
    "contents",
    "text",
    "data",
    "value",
    "values",
    "body",
    "string",
    "str",
    "message",
    "description",
    "code",
    "patch",
    "diff",
    "regex",
];
const COMMAND_KEYS: [&str; 3] = ["command", "cmd", "script"];
const COMMAND_ARGUMENT_KEYS: [&str; 2] = ["args", "arguments"];
/// Last words of keys that hold an address.
const HOST_WORDS: [&str; 19] = [
    "domain",
    "domains",
    "endpoint",
    "endpoints",
    "host",
    "hostname",
    "hostnames",
    "hosts",
    "href",
    "origin",
    "origins",
    "proxy",
    "uri",
    "uris",
    "url",
    "urls",
    "webhook",
    "website",
    "site",
];
const DATA_KEYS: [&str; 4] = ["value", "content", "text", "data"];

/// The action of a tool on files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Action {
    Read,
    Write,
    Delete,
}

/// A limit that the arguments exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum LimitExceeded {
    #[error("the arguments have more than {MAX_VALUES} values")]
    Values,
    /// Too many things to judge.
    #[error("the arguments name more than {MAX_SUBJECTS} paths, hosts, commands or texts")]
    Subjects,
    #[error("the arguments nest deeper than {MAX_DEPTH} levels")]
    Deep,
    /// A text that no two readers need read alike.
    #[error("a text in the arguments has half of a surrogate pair")]
    Unreadable,
}

impl LimitExceeded {
    /// The last part of the id of the rule that denies such a call.
    pub(super) fn rule(self) -> &'static str {
        match self {
            Self::Values | Self::Subjects | Self::Deep => "arguments_too_large",
            Self::Unreadable => "arguments_unreadable",
        }
    }
}

/// The kind of subject to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SubjectKind {
    Paths,
    Hosts,
    Commands,
    Texts,
}

impl Action {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Delete => "delete",
        }
    }

    /// The action of a tool by the verb in its name; the strongest where there are several.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let action = |word: Cow<'_, str>| match &*word {
            "read" | "list" | "get" | "stat" | "find" | "search" | "glob" | "grep" => {
                Some(Self::Read)
            }
            "write" | "edit" | "create" | "append" | "save" | "copy" | "move" => Some(Self::Write),
            "delete" | "remove" | "unlink" | "rm" => Some(Self::Delete),
            _ => None,
        };
        // The strongest, so that `read_and_delete` is matched by rules on `delete`.
        words(name).filter_map(action).max()
    }
}

/// Every subject of a kind in the arguments, as written.
pub(super) fn project(
    arguments: Option<Json<'_>>,
    sought: SubjectKind,
) -> Result<Vec<String>, LimitExceeded> {
    let mut walk = SubjectSearch {
        sought,
        values: 0,
        found: Vec::new(),
    };
    if let Some(arguments) = arguments {
        walk.value(arguments, None, 0)?;
    }
    Ok(walk.found)
}

struct SubjectSearch {
    sought: SubjectKind,
    values: usize,
    found: Vec<String>,
}

impl SubjectSearch {
    /// Visits a value under `key`, or in an array under it.
    fn value(
        &mut self,
        value: Json<'_>,
        key: Option<&str>,
        depth: usize,
    ) -> Result<(), LimitExceeded> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(LimitExceeded::Values);
        }
        if depth > MAX_DEPTH {
            return Err(LimitExceeded::Deep);
        }
        match value.kind() {
            JsonKind::Object => {
                if self.sought == SubjectKind::Commands {
                    self.command_lines(value)?;
                }
                for (name, value) in value.members() {
                    self.member(name, value, key, depth)?;
                }
            }
            JsonKind::Array => {
                // `["rm", "-rf", "/"]` must match the same rules as `rm -rf /`.
                if is_one_of(key, &COMMAND_KEYS) && self.sought == SubjectKind::Commands {
                    self.add(joined(value))?;
                }
                for element in value.elements() {
                    self.value(element, key, depth + 1)?;
                }
            }
            JsonKind::String => {
                let text = value.as_str().ok_or(LimitExceeded::Unreadable)?;
                self.string(&text, key, depth)?;
            }
            JsonKind::Number | JsonKind::Bool => {
                let can_be = match self.sought {
                    SubjectKind::Paths => false,
                    // 2130706433 is 127.0.0.1 to most resolvers.
                    SubjectKind::Hosts => value.kind() == JsonKind::Number,
                    SubjectKind::Commands | SubjectKind::Texts => true,
                };
                if can_be && self.is_sought(value.as_text(), key) {
                    self.add(value.as_text().to_owned())?;
                }
            }
            JsonKind::Null => {}
        }
        Ok(())
    }

    fn member(
        &mut self,
        name: Json<'_>,
        value: Json<'_>,
        outer: Option<&str>,
        depth: usize,
    ) -> Result<(), LimitExceeded> {
        let name = name.as_str().unwrap_or_default();
        // Some servers take maps keyed by path or address.
        let is_subject = match self.sought {
            SubjectKind::Paths => looks_like_path(&name),
            SubjectKind::Hosts => address::is_address(&name),
            SubjectKind::Commands | SubjectKind::Texts => false,
        };
        if is_subject {
            self.add(name.clone().into_owned())?;
        }
        // Values nested in a known key belong to it, whatever their own keys are.
        let known = is_key(&name, self.sought);
        let outer = outer.filter(|outer| !known && is_key(outer, self.sought));
        self.value(value, Some(outer.unwrap_or(&name)), depth + 1)
    }

    /// Joins a command with the arguments beside it into one line.
    fn command_lines(&mut self, object: Json<'_>) -> Result<(), LimitExceeded> {
        let named = |keys: &'static [&'static str]| {
            object.members().filter_map(move |(name, value)| {
                let name = name.as_str().unwrap_or_default();
                is_one_of(Some(&name), keys).then_some(value)
            })
        };
        for arguments in named(&COMMAND_ARGUMENT_KEYS) {
            for command in named(&COMMAND_KEYS) {
                let line = format!("{} {}", joined(command), joined(arguments));
                self.add(line)?;
            }
        }
        Ok(())
    }

    /// Checks a string, and the values inside it.
    fn string(&mut self, text: &str, key: Option<&str>, depth: usize) -> Result<(), LimitExceeded> {
        if self.is_sought(text, key) {
            self.add(text.to_owned())?;
        }
        let is_carried: fn(&str) -> bool = match self.sought {
            SubjectKind::Paths => |value| !is_other_url(value) && looks_like_path(value),
            SubjectKind::Hosts => address::is_address,
            SubjectKind::Commands | SubjectKind::Texts => return Ok(()),
        };
        let is_command = is_one_of(key, &COMMAND_KEYS) || is_one_of(key, &COMMAND_ARGUMENT_KEYS);
        // Values inside a URL go to its host, and paths inside prose are only mentioned.
        // An option is not prose, even under `text`.
        if address::is_url(text) || (is_text_key(key) && !text.starts_with('-')) {
            return Ok(());
        }
        // Some servers accept their arguments as JSON in a string.
        if text.trim_start().starts_with(['{', '['])
            && let Ok(inner) = Json::validate(text.as_bytes(), Strictness::Full)
        {
            return self.value(inner, key, depth + 1);
        }
        let values = carried::carried(text, is_command).map_err(|_| LimitExceeded::Subjects)?;
        for value in values.into_iter().filter(|value| is_carried(value)) {
            self.add(value)?;
        }
        Ok(())
    }

    fn is_sought(&self, text: &str, key: Option<&str>) -> bool {
        match self.sought {
            SubjectKind::Paths => is_path(text, key),
            SubjectKind::Hosts => {
                address::is_address(text)
                    || (is_host_key(key) && !address::trimmed(text).is_empty())
            }
            SubjectKind::Commands => is_one_of(key, &COMMAND_KEYS),
            SubjectKind::Texts => is_one_of(key, &DATA_KEYS),
        }
    }

    fn add(&mut self, text: String) -> Result<(), LimitExceeded> {
        if self.found.contains(&text) {
            return Ok(());
        }
        // An error and not a cut: the subject after the limit could be the denied one.
        if self.found.len() == MAX_SUBJECTS {
            return Err(LimitExceeded::Subjects);
        }
        self.found.push(text);
        Ok(())
    }
}

/// A string, or the strings of an array with spaces between them.
fn joined(value: Json<'_>) -> String {
    if let Some(text) = value.as_str() {
        return text.into_owned();
    }
    let text = |element: Json<'_>| match element.as_str() {
        Some(text) => text.into_owned(),
        None => element.as_text().to_owned(),
    };
    value.elements().map(text).collect::<Vec<_>>().join(" ")
}

/// Whether a key is one of `keys`, ignoring case: some servers fold it.
fn is_one_of(key: Option<&str>, keys: &[&str]) -> bool {
    key.is_some_and(|key| keys.iter().any(|known| known.eq_ignore_ascii_case(key)))
}

fn is_key(name: &str, sought: SubjectKind) -> bool {
    match sought {
        SubjectKind::Paths => true,
        SubjectKind::Hosts => is_host_key(Some(name)),
        SubjectKind::Commands => is_one_of(Some(name), &COMMAND_KEYS),
        SubjectKind::Texts => is_one_of(Some(name), &DATA_KEYS),
    }
}

/// Whether a key holds a command or its arguments.
pub(crate) fn is_command_key(key: &str) -> bool {
    is_one_of(Some(key), &COMMAND_KEYS) || is_one_of(Some(key), &COMMAND_ARGUMENT_KEYS)
}

/// Whether a word of a key marks its value as a path.
pub(crate) fn is_path_key(key: &str) -> bool {
    words(key).any(|word| PATH_WORDS.contains(&&*word))
}

/// Whether a string counts as a path, by its key and its form.
fn is_path(text: &str, key: Option<&str>) -> bool {
    if text.is_empty() || is_other_url(text) {
        return false;
    }
    if key.is_some_and(is_path_key) {
        return true;
    }
    if is_text_key(key) {
        is_wholly_path(text)
    } else {
        looks_like_path(text)
    }
}

/// Whether a key marks its value as text.
fn is_text_key(key: Option<&str>) -> bool {
    let Some(key) = key else {
        return false;
    };
    let last = words(key).last();
    last.is_some_and(|word| TEXT_WORDS.contains(&&*word)) && !is_path_key(key)
}

/// Whether a key marks its value as an address: `url`, `base_url`, `hostName`.
fn is_host_key(key: Option<&str>) -> bool {
    let words: Vec<_> = words(key.unwrap_or_default()).collect();
    let is_known = |word: &str| HOST_WORDS.contains(&word);
    words.last().is_some_and(|word| is_known(word)) || is_known(&words.concat())
}

/// Whether a string looks like a path, in any of its readings.
fn looks_like_path(text: &str) -> bool {
    // No system call opens a longer path, and decoding megabytes for every string would be slow.
    if text.len() > path::MAX_PATH_BYTES {
        return text.starts_with(['/', '\\', '~', '.']) && !text.contains('\n');
    }
    // A text that cannot be read clearly counts as a path: the path rules then refuse it by name, instead of
    // never seeing it.
    let Ok(spellings) = path::spellings(text) else {
        return true;
    };
    spellings.iter().any(|text| {
        let starts = text.starts_with(['/', '\\', '~'])
            || text.starts_with("$HOME")
            || text.starts_with("${HOME}");
        let climbs = text.split(['/', '\\']).any(|part| part == "..");
        let is_plain = !text.contains(char::is_whitespace) && text.contains(['/', '\\']);
        starts || climbs || text == "." || is_plain && !is_other_url(text)
    })
}

/// Whether a text is entirely a path: one word, from a root.
fn is_wholly_path(text: &str) -> bool {
    let Ok(spellings) = path::spellings(text) else {
        return !text.contains(char::is_whitespace);
    };
    spellings.iter().any(|text| {
        let from_a_root =
            text.starts_with('/') || text.starts_with("~/") || text.starts_with("../");
        let odd = |c: char| c.is_whitespace() || "*<>|;\"'`(){}=,".contains(c);
        from_a_root && !text.starts_with("//") && !text.contains(odd)
    })
}

/// Whether a text is a URL and not a path. A URL with `..`, or one that some reader opens as a local file, is a path.
fn is_other_url(text: &str) -> bool {
    address::is_url(text)
        && path::spellings(text).is_ok_and(|spellings| {
            let climbs = |text: &String| text.split(['/', '\\']).any(|part| part == "..");
            !spellings.iter().any(climbs) && !spellings.iter().any(|text| path::is_file_url(text))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, sought: SubjectKind) -> Vec<String> {
        let json = Json::validate(text.as_bytes(), Strictness::Full).expect("it is JSON");
        project(Some(json), sought).expect("it is within the limits")
    }

    #[test]
    fn paths_are_found_anywhere_in_arguments() {
        let cases: [(&str, &[&str]); 22] = [
            (r#"{"path":"/etc/passwd"}"#, &["/etc/passwd"]),
            (r#"{"Path":"a","path":"b"}"#, &["a", "b"]),
            (r#"{"paths":["a",["b"],{"x":"c/d"}]}"#, &["a", "b", "c/d"]),
            (r#"{"source":"a","destination":"b"}"#, &["a", "b"]),
            (r#"{"from":"a","to":"b"}"#, &["a", "b"]),
            (r#"{"filePath":"a","new_file":"b"}"#, &["a", "b"]),
            (r#"{"edits":[{"target":"x"}]}"#, &["x"]),
            (
                r#"{"x":"/etc/passwd","y":"~/.ssh","z":"../x"}"#,
                &["/etc/passwd", "~/.ssh", "../x"],
            ),
            (r#"{"x":"%2Fetc%2Fpasswd"}"#, &["%2Fetc%2Fpasswd"]),
            (r#"{"x":"..%2Fa b"}"#, &["..%2Fa b"]),
            (r#"{"x":"plain words","n":3,"b":true}"#, &[]),
            (r#"{"content":"// a comment\nx/y"}"#, &[]),
            (r#"{"content":"/etc/passwd"}"#, &["/etc/passwd"]),
            (r#"{"/etc/passwd":"text"}"#, &["/etc/passwd"]),
            (
                r#"{"args":["--output=/x","-o/y"]}"#,
                &["--output=/x", "/x", "-o/y", "/y"],
            ),
            (r#"{"command":"cat /x y"}"#, &["/x"]),
            (r#"{"content":"a=/x"}"#, &[]),
            (r#"{"input":"{\"a\":\"/x\"}"}"#, &[r#"{"a":"/x"}"#, "/x"]),
            (r#"{"content":"{\"a\":\"/x\"}"}"#, &[]),
            (r#"{"x":"\u0001file:/x"}"#, &["\u{1}file:/x", "/x"]),
            (r#"{"uri":"file:///etc/passwd"}"#, &["file:///etc/passwd"]),
            (
                r#"{"x":"https://a.b/c","uri":"https://a.b/../../etc"}"#,
                &["https://a.b/../../etc"],
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(found(text, SubjectKind::Paths), expected, "{text}");
        }
    }

    #[test]
    fn hosts_commands_and_texts_are_found_in_arguments() {
        let hosts = r#"{"url":"https://a","request":{"Host":"b"},"urls":["https://c"],"x":"d"}"#;
        assert_eq!(
            found(hosts, SubjectKind::Hosts),
            ["https://a", "b", "https://c"]
        );
        let hosts = r#"{"base_url":"a","hostName":"b","url":{"c":"d"},"url_type":"e","proxy":true,"host":7,"uri":" ","//f":1}"#;
        assert_eq!(
            found(hosts, SubjectKind::Hosts),
            ["a", "b", "d", "7", "//f"]
        );
        let hosts = r#"{"args":["-v","--url=https://a","-xhttps://b"],"command":"curl 'https://c/?d=https://e'","f":"https://g/?h=https://i"}"#;
        assert_eq!(
            found(hosts, SubjectKind::Hosts),
            [
                "https://a",
                "https://b",
                "https://c/?d=https://e",
                "https://g/?h=https://i"
            ]
        );
        let commands = r#"{"command":"rm","args":["-rf","/"],"Cmd":["a","b"],"x":"y"}"#;
        assert_eq!(
            found(commands, SubjectKind::Commands),
            ["rm -rf /", "a b -rf /", "rm", "a b", "a", "b"]
        );
        let texts = r#"{"content":"a","data":{"x":["b",3]},"other":"c"}"#;
        assert_eq!(found(texts, SubjectKind::Texts), ["a", "b", "3"]);
    }

    #[test]
    fn arguments_too_large_or_deep_to_judge_are_errors() {
        let json = |text: &str| {
            let json = Json::validate(text.as_bytes(), Strictness::Full).expect("it is JSON");
            project(Some(json), SubjectKind::Paths)
        };
        let many: Vec<String> = (0..300).map(|n| format!("\"/{n}\"")).collect();
        assert_eq!(
            json(&format!("[{}]", many.join(","))),
            Err(LimitExceeded::Subjects)
        );
        assert_eq!(
            json(&format!("[{}0]", "0,".repeat(10_001))),
            Err(LimitExceeded::Values)
        );
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert_eq!(json(&deep), Err(LimitExceeded::Deep));
    }

    #[test]
    fn verbs_in_tool_names_determine_the_action() {
        let cases = [
            ("read_file", Some(Action::Read)),
            ("listDirectory", Some(Action::Read)),
            ("move_file", Some(Action::Write)),
            ("find_and_delete", Some(Action::Delete)),
            ("rm", Some(Action::Delete)),
            ("chmod", None),
        ];
        for (name, action) in cases {
            assert_eq!(Action::of_name(name), action, "{name}");
        }
    }
}
