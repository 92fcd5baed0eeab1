//! Paths that reach denied locations.

use std::os::unix::fs::symlink;

use callgate_testkit::StdioHost;
use serde_json::json;

use super::{CANNED, Seen, attack, attempt, can, plain_tool, write};
use crate::setup::Bed;

const CLASS: &str = "paths";

/// A gateway whose tool `s:use` may use every path but `DIR/secret`, and one whose `s:use` may use `DIR/work` alone.
fn gateway(deny: bool) -> (Bed, StdioHost) {
    let server = CANNED.replace("'@dir@/ledger']", "'@dir@/ledger'], cwd: '@dir@/work'");
    let bed = Bed::new(&format!(
        "servers:\n{server}policy: policy.yaml\npins: 'off'\n"
    ));
    write(&bed.path("work/a.txt"), "a");
    write(&bed.path("secret/b.txt"), "b");
    let rules = match deny {
        true => "deny: [{paths: ['@dir@/secret/**']}], allow: [{paths: ['**']}, {when: 'true'}]",
        false => "allow: [{paths: ['@dir@/work/**']}, {when: 'true', action: read}]",
    };
    let rules = bed.filled_in(rules);
    write(
        &bed.path("policy.yaml"),
        &format!(
            "version: '1'\nrules:\n  - {{scope: mcp_tool, allow: [{{pattern: '*:*'}}]}}\n  - {{scope: filesystem, {rules}}}\n\
             tool_scope_map: [{{pattern: 's:*', scope: filesystem}}]\n"
        ),
    );
    can(&bed, &[plain_tool("use")]);
    let host = bed.stdio_ready();
    (bed, host)
}

/// Each spelling with the folder filled in, as the value of `key`.
fn tried(bed: &Bed, host: &mut StdioHost, key: &str, spelling: &str) -> Seen {
    let value = bed.filled_in(spelling);
    attempt(bed, host, "s:use", &json!({ key: value }).to_string())
}

#[test]
fn file_urls_in_every_spelling_are_judged_as_paths() {
    let (bed, mut host) = gateway(true);
    attack(CLASS, "a `file:` URL that one reader does not take for one")
        .expect(Seen::Refused)
        .tries(
            [
                "\u{1}file://@dir@/secret/b.txt",
                "fi\tle://@dir@/secret/b.txt",
                "file:\\\\@dir@/secret/b.txt",
                "FILE:@dir@/secret/b.txt",
                "file://localhost@dir@/secret/b.txt",
                "file:///@dir@/secret/b.txt",
                "fil\ne:@dir@/secret/b.txt",
                " \u{0}file://@dir@/secret/b.txt",
                "\u{feff}file://@dir@/secret/b.txt",
                "file://@dir@/secret/b.txt?x",
                "file://@dir@/secret/b.txt#x",
                "%66ile://@dir@/secret/b.txt",
                "url:file://@dir@/secret/b.txt",
                "local_file://@dir@/secret/b.txt",
                "netdoc:@dir@/secret/b.txt",
                "view-source:file://@dir@/secret/b.txt",
                "other://@dir@/secret/b.txt",
            ],
            |spelling| tried(&bed, &mut host, "path", spelling),
        )
        .check();
}

#[test]
fn file_urls_are_judged_under_any_key() {
    let (bed, mut host) = gateway(true);
    attack(CLASS, "a `file:` URL under a key that says nothing")
        .expect(Seen::Refused)
        .tries(
            [
                "\u{1}file://@dir@/secret/b.txt",
                "fi\tle://@dir@/secret/b.txt",
                "file:@dir@/secret/b.txt",
                "File:\\\\\\@dir@/secret/b.txt",
                "url:file://@dir@/secret/b.txt",
            ],
            |spelling| tried(&bed, &mut host, "x", spelling),
        )
        .check();
}

#[test]
fn paths_inside_options_are_judged() {
    let (bed, mut host) = gateway(false);
    attack(CLASS, "an option in an argument carries a path")
        .expect(Seen::Refused)
        .tries(
            [
                "--output=@dir@/secret/b.txt",
                "-o@dir@/secret/b.txt",
                "of=@dir@/secret/b.txt",
                "@@dir@/secret/b.txt",
                "file=@@dir@/secret/b.txt",
                "--mount=type=bind,src=@dir@/secret,dst=/x",
                "-xzf@dir@/secret/b.txt",
                "--output @dir@/secret/b.txt",
                "-I../secret",
                "--out=..%2fsecret",
                "--out=~/x",
                "--out:@dir@/secret/b.txt",
                "--out='@dir@/secret/b.txt'",
            ],
            |spelling| {
                let value = bed.filled_in(spelling);
                let arguments = json!({"args": ["-v", value]}).to_string();
                attempt(&bed, &mut host, "s:use", &arguments)
            },
        )
        .check();
}

#[test]
fn options_under_a_path_key_are_judged_by_the_path_they_carry() {
    let (bed, mut host) = gateway(false);
    attack(CLASS, "an option stands where a path is expected")
        .expect(Seen::Refused)
        .tries(
            [
                "--output=@dir@/secret/b.txt",
                "-o@dir@/secret/b.txt",
                "x=@dir@/secret",
                "a.txt:@dir@/secret/b.txt",
                "a.txt,@dir@/secret/b.txt",
            ],
            |spelling| tried(&bed, &mut host, "path", spelling),
        )
        .check();
}

#[test]
fn every_path_of_a_list_in_a_string_is_judged() {
    let (bed, mut host) = gateway(false);
    attack(CLASS, "a list of paths in one string")
        .expect(Seen::Refused)
        .tries(
            [
                "@dir@/work/a.txt:@dir@/secret/b.txt",
                "@dir@/work/a.txt,@dir@/secret/b.txt",
                "@dir@/work/a.txt;@dir@/secret/b.txt",
                "@dir@/work:@dir@/secret:ro",
            ],
            |spelling| tried(&bed, &mut host, "volume", spelling),
        )
        .check();
}

#[test]
fn words_of_a_command_are_judged_as_paths() {
    let (bed, mut host) = gateway(true);
    attack(CLASS, "a path among the words of a command")
        .expect(Seen::Refused)
        .tries(
            [
                "cat @dir@/secret/b.txt",
                "cat<@dir@/secret/b.txt",
                "cat '@dir@/secret/b.txt'",
                "cp a b; cat @dir@/secret/b.txt",
                "tar --file=@dir@/secret/b.txt",
                "curl -F x=@@dir@/secret/b.txt h",
                "cat \"@dir@/secret\"/b.txt",
            ],
            |spelling| tried(&bed, &mut host, "command", spelling),
        )
        .check();
}

#[test]
fn encoded_paths_are_decoded_before_judging() {
    let (bed, mut host) = gateway(true);
    let encoded = |text: &str| text.replace('/', "%2f").replace("secret", "%73ecret");
    let once = encoded(&bed.filled_in("@dir@/secret/b.txt"));
    let twice = once.replace('%', "%25");
    let slashes = bed.filled_in("@dir@/secret/b.txt").replace('/', "\\");
    attack(CLASS, "a path is encoded")
        .expect(Seen::Refused)
        .tries([once, twice, slashes], |spelling| {
            tried(&bed, &mut host, "path", spelling)
        })
        .check();
}

#[test]
fn overlong_encodings_are_refused() {
    let (bed, mut host) = gateway(false);
    attack(
        CLASS,
        "a path in an encoding that only sloppy decoders read",
    )
    .expect(Seen::Refused)
    .tries(
        [
            "a/%c0%ae%c0%ae/%c0%ae%c0%ae/secret/b.txt",
            "a%c0%af..%c0%afx",
            "%e0%80%af@dir@/secret",
            "a/%c1%9c../x",
        ],
        |spelling| tried(&bed, &mut host, "path", spelling),
    )
    .check();
}

#[test]
fn paths_with_dot_dot_are_refused() {
    let (bed, mut host) = gateway(false);
    attack(CLASS, "a relative path climbs out of its folder")
        .expect(Seen::Refused)
        .tries(
            [
                "../secret/b.txt",
                "a/../../secret/b.txt",
                "..%2fsecret/b.txt",
                "..\\secret\\b.txt",
                "．．/secret/b.txt",
            ],
            |spelling| tried(&bed, &mut host, "path", spelling),
        )
        .check();
}

#[test]
fn links_are_judged_by_their_target() {
    let (bed, mut host) = gateway(true);
    symlink(bed.path("secret"), bed.path("work/link")).expect("the bed is writable");
    symlink(bed.path("secret/b.txt"), bed.path("work/file")).expect("the bed is writable");
    attack(CLASS, "a link leads to a refused path")
        .expect(Seen::Refused)
        .tries(
            [
                "link/b.txt",
                "file",
                "./link/../link/b.txt",
                "%6cink/b.txt",
                "/proc/self/root@dir@/secret/b.txt",
                "/proc/thread-self/root@dir@/secret/b.txt",
            ],
            |spelling| tried(&bed, &mut host, "path", spelling),
        )
        .check();
}

#[test]
fn paths_starting_with_a_variable_are_refused() {
    let (bed, mut host) = gateway(false);
    attack(
        CLASS,
        "a path begins with a variable that a server may expand",
    )
    .expect(Seen::Refused)
    .tries(
        [
            "$OLDPWD/secret/b.txt",
            "${PWD}/secret/b.txt",
            "$XDG_CONFIG_HOME/x",
            "$HOME/x",
            "~root/x",
            "~+/x",
            "${HOME:-/etc}/x",
            "$(pwd)/x",
            "`pwd`/x",
        ],
        |spelling| tried(&bed, &mut host, "path", spelling),
    )
    .check();
}

#[test]
fn paths_are_judged_anywhere_in_arguments() {
    let (bed, mut host) = gateway(true);
    let there = bed.filled_in("@dir@/secret/b.txt");
    let arguments = [
        json!({"edits": [{"file": "a"}, {"file": there}]}),
        json!({"files": {there.clone(): "text"}}),
        json!({"a": {"b": [[{"c": there}]]}}),
        json!({"path": "a.txt", "Path": there}),
        json!({"content": there}),
    ];
    attack(CLASS, "a path stands at an unusual place of the arguments")
        .expect(Seen::Refused)
        .tries(arguments, |arguments| {
            attempt(&bed, &mut host, "s:use", &arguments.to_string())
        })
        .check();
}
