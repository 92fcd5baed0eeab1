//! What a tool's arguments mean in a scope: the paths, hosts, commands or texts in them, wherever
//! they stand. What could be one is taken for one, and arguments beyond a limit are not judged.

use std::borrow::Cow;

use callgate_wire::{Json, JsonKind, Strictness, words};

use super::{address, carried, path};

/// How many values are looked at.
const MAX_VALUES: usize = 10_000;
/// How many paths, hosts, commands or texts a call may have.
const MAX_SUBJECTS: usize = 256;
/// How deep values are looked for.
const MAX_DEPTH: usize = 64;

/// Words in a key that say that a path stands there.
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
/// Last words of keys that hold a text, not a path; only what is wholly a path counts there.
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

/// What a tool does to files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Action {
    /// Looks.
    Read,
    /// Changes or makes.
    Write,
    /// Takes away.
    Delete,
}

/// Arguments that are too much to be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum TooMuch {
    /// Too many values.
    #[error("the arguments have more than {MAX_VALUES} values")]
    Values,
    /// Too many things to judge.
    #[error("the arguments name more than {MAX_SUBJECTS} things")]
    Subjects,
    /// Too deep.
    #[error("the arguments nest deeper than {MAX_DEPTH}")]
    Deep,
}

/// What is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sought {
    /// Paths.
    Paths,
    /// Hosts.
    Hosts,
    /// Commands.
    Commands,
    /// Texts.
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
        words(name).filter_map(action).max()
    }
}

/// Everything of the sought kind in the arguments, as it is written there.
pub(super) fn project(arguments: Option<Json<'_>>, sought: Sought) -> Result<Vec<String>, TooMuch> {
    let mut walk = Walk {
        sought,
        values: 0,
        found: Vec::new(),
    };
    if let Some(arguments) = arguments {
        walk.value(arguments, None, 0)?;
    }
    Ok(walk.found)
}

struct Walk {
    sought: Sought,
    values: usize,
    found: Vec<String>,
}

impl Walk {
    /// Looks at a value that stands under `key`, or in an array under it.
    fn value(&mut self, value: Json<'_>, key: Option<&str>, depth: usize) -> Result<(), TooMuch> {
        self.values += 1;
        if self.values > MAX_VALUES {
            return Err(TooMuch::Values);
        }
        if depth > MAX_DEPTH {
            return Err(TooMuch::Deep);
        }
        match value.kind() {
            JsonKind::Object => {
                if self.sought == Sought::Commands {
                    self.command_lines(value)?;
                }
                for (name, value) in value.members() {
                    self.member(name, value, key, depth)?;
                }
            }
            JsonKind::Array => {
                if is_one_of(key, &COMMAND_KEYS) && self.sought == Sought::Commands {
                    self.add(joined(value))?;
                }
                for element in value.elements() {
                    self.value(element, key, depth + 1)?;
                }
            }
            JsonKind::String => self.string(&value.as_str().unwrap_or_default(), key, depth)?,
            JsonKind::Number | JsonKind::Bool => {
                let can_be = match self.sought {
                    Sought::Paths => false,
                    // A number is an address in another base.
                    Sought::Hosts => value.kind() == JsonKind::Number,
                    Sought::Commands | Sought::Texts => true,
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
    ) -> Result<(), TooMuch> {
        let name = name.as_str().unwrap_or_default();
        // Some servers take a map from paths or addresses to something.
        let is_subject = match self.sought {
            Sought::Paths => looks_like_path(&name),
            Sought::Hosts => address::is_address(&name),
            Sought::Commands | Sought::Texts => false,
        };
        if is_subject {
            self.add(name.clone().into_owned())?;
        }
        // What stands inside a value of a known key belongs to it, whatever it is called there.
        let known = is_key(&name, self.sought);
        let outer = outer.filter(|outer| !known && is_key(outer, self.sought));
        self.value(value, Some(outer.unwrap_or(&name)), depth + 1)
    }

    /// A command whose arguments stand beside it is one line.
    fn command_lines(&mut self, object: Json<'_>) -> Result<(), TooMuch> {
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

    /// Looks at a string, and at what it carries.
    fn string(&mut self, text: &str, key: Option<&str>, depth: usize) -> Result<(), TooMuch> {
        if self.is_sought(text, key) {
            self.add(text.to_owned())?;
        }
        let is_carried: fn(&str) -> bool = match self.sought {
            Sought::Paths => |value| !is_other_url(value) && looks_like_path(value),
            Sought::Hosts => address::is_address,
            Sought::Commands | Sought::Texts => return Ok(()),
        };
        let is_command = is_one_of(key, &COMMAND_KEYS) || is_one_of(key, &COMMAND_ARGUMENT_KEYS);
        // What a URL carries goes to its host, and what a longer text carries is only talked about.
        if address::is_url(text) || (is_text_key(key) && !text.starts_with('-')) {
            return Ok(());
        }
        // Some servers take their arguments as JSON in a string.
        if text.trim_start().starts_with(['{', '['])
            && let Ok(inner) = Json::validate(text.as_bytes(), Strictness::Full)
        {
            return self.value(inner, key, depth + 1);
        }
        let values = carried::carried(text, is_command).map_err(|_| TooMuch::Subjects)?;
        for value in values.into_iter().filter(|value| is_carried(value)) {
            self.add(value)?;
        }
        Ok(())
    }

    fn is_sought(&self, text: &str, key: Option<&str>) -> bool {
        match self.sought {
            Sought::Paths => is_path(text, key),
            Sought::Hosts => {
                address::is_address(text)
                    || (is_host_key(key) && !address::trimmed(text).is_empty())
            }
            Sought::Commands => is_one_of(key, &COMMAND_KEYS),
            Sought::Texts => is_one_of(key, &DATA_KEYS),
        }
    }

    fn add(&mut self, text: String) -> Result<(), TooMuch> {
        if self.found.contains(&text) {
            return Ok(());
        }
        if self.found.len() == MAX_SUBJECTS {
            return Err(TooMuch::Subjects);
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

/// Whether a key says what stands under it, in any case: some servers fold it.
fn is_one_of(key: Option<&str>, keys: &[&str]) -> bool {
    key.is_some_and(|key| keys.iter().any(|known| known.eq_ignore_ascii_case(key)))
}

fn is_key(name: &str, sought: Sought) -> bool {
    match sought {
        Sought::Paths => true,
        Sought::Hosts => is_host_key(Some(name)),
        Sought::Commands => is_one_of(Some(name), &COMMAND_KEYS),
        Sought::Texts => is_one_of(Some(name), &DATA_KEYS),
    }
}

/// Whether a command stands under a key, or beside it.
pub(crate) fn is_command_key(key: &str) -> bool {
    is_one_of(Some(key), &COMMAND_KEYS) || is_one_of(Some(key), &COMMAND_ARGUMENT_KEYS)
}

/// Whether a word of a key says that a path stands under it.
pub(crate) fn is_path_key(key: &str) -> bool {
    words(key).any(|word| PATH_WORDS.contains(&&*word))
}

/// Whether a string is taken for a path, by where it stands and by what it looks like.
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

/// Whether a key says that a text stands under it.
fn is_text_key(key: Option<&str>) -> bool {
    let Some(key) = key else {
        return false;
    };
    let last = words(key).last();
    last.is_some_and(|word| TEXT_WORDS.contains(&&*word)) && !is_path_key(key)
}

/// Whether a key says that an address stands under it: `url`, `base_url`, `hostName`.
fn is_host_key(key: Option<&str>) -> bool {
    let words: Vec<_> = words(key.unwrap_or_default()).collect();
    let is_known = |word: &str| HOST_WORDS.contains(&word);
    words.last().is_some_and(|word| is_known(word)) || is_known(&words.concat())
}

/// Whether a string anywhere looks like a path, in any of its spellings.
fn looks_like_path(text: &str) -> bool {
    if text.len() > path::MAX_PATH_BYTES {
        return text.starts_with(['/', '\\', '~', '.']) && !text.contains('\n');
    }
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

/// Whether a text is a path and nothing but: one word, from a root.
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

/// A URL with a host is not a path, unless it climbs like one or some reader finds a path of this machine in it.
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

    fn found(text: &str, sought: Sought) -> Vec<String> {
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
            assert_eq!(found(text, Sought::Paths), expected, "{text}");
        }
    }

    #[test]
    fn hosts_commands_and_texts_are_found_in_arguments() {
        let hosts = r#"{"url":"https://a","request":{"Host":"b"},"urls":["https://c"],"x":"d"}"#;
        assert_eq!(found(hosts, Sought::Hosts), ["https://a", "b", "https://c"]);
        let hosts = r#"{"base_url":"a","hostName":"b","url":{"c":"d"},"url_type":"e","proxy":true,"host":7,"uri":" ","//f":1}"#;
        assert_eq!(found(hosts, Sought::Hosts), ["a", "b", "d", "7", "//f"]);
        let hosts = r#"{"args":["-v","--url=https://a","-xhttps://b"],"command":"curl 'https://c/?d=https://e'","f":"https://g/?h=https://i"}"#;
        assert_eq!(
            found(hosts, Sought::Hosts),
            [
                "https://a",
                "https://b",
                "https://c/?d=https://e",
                "https://g/?h=https://i"
            ]
        );
        let commands = r#"{"command":"rm","args":["-rf","/"],"Cmd":["a","b"],"x":"y"}"#;
        assert_eq!(
            found(commands, Sought::Commands),
            ["rm -rf /", "a b -rf /", "rm", "a b", "a", "b"]
        );
        let texts = r#"{"content":"a","data":{"x":["b",3]},"other":"c"}"#;
        assert_eq!(found(texts, Sought::Texts), ["a", "b", "3"]);
    }

    #[test]
    fn arguments_too_large_or_deep_to_judge_are_errors() {
        let json = |text: &str| {
            let json = Json::validate(text.as_bytes(), Strictness::Full).expect("it is JSON");
            project(Some(json), Sought::Paths)
        };
        let many: Vec<String> = (0..300).map(|n| format!("\"/{n}\"")).collect();
        assert_eq!(
            json(&format!("[{}]", many.join(","))),
            Err(TooMuch::Subjects)
        );
        assert_eq!(
            json(&format!("[{}0]", "0,".repeat(10_001))),
            Err(TooMuch::Values)
        );
        let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
        assert_eq!(json(&deep), Err(TooMuch::Deep));
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
