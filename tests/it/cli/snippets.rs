//! The snippets that `connect --print` gives for each host.

use expect_test::{Expect, expect};

use crate::setup::Bed;
use crate::shell::{named, normalised, run};

/// What is to be pasted for a host, and what is said about where it goes.
fn check_connect(args: &[&str], expected: &Expect) {
    let bed = Bed::new("listen: 127.0.0.1:7999\nauth: {token: t0ken, admin_token: other}\n");
    let ran = run(named(&bed, ["connect", "--print"]).args(args));
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    let both = format!("{}---\n{}", ran.stderr, ran.stdout);
    expected.assert_eq(&normalised(&bed, &both));
}

#[test]
fn every_host_gets_its_stdio_snippet() {
    check_connect(
        &["claude"],
        &expect![[r#"
        run this, for Claude Code:
        ---
        claude mcp add callgate -- $CALLGATE stdio --config $DIR/callgate.yaml --data-dir $DIR/data
    "#]],
    );
    check_connect(
        &["cursor"],
        &expect![[r#"
        add this to ~/.cursor/mcp.json:
        ---
        {
          "mcpServers": {
            "callgate": {
              "command": "$CALLGATE",
              "args": [
                "stdio",
                "--config",
                "$DIR/callgate.yaml",
                "--data-dir",
                "$DIR/data"
              ]
            }
          }
        }
    "#]],
    );
    check_connect(
        &["codex"],
        &expect![[r#"
        add this to ~/.codex/config.toml:
        ---
        [mcp_servers.callgate]
        command = "$CALLGATE"
        args = ["stdio","--config","$DIR/callgate.yaml","--data-dir","$DIR/data"]
    "#]],
    );
    check_connect(
        &["vscode"],
        &expect![[r#"
        add this to .vscode/mcp.json:
        ---
        {
          "servers": {
            "callgate": {
              "type": "stdio",
              "command": "$CALLGATE",
              "args": [
                "stdio",
                "--config",
                "$DIR/callgate.yaml",
                "--data-dir",
                "$DIR/data"
              ]
            }
          }
        }
    "#]],
    );
    check_connect(
        &["gemini"],
        &expect![[r#"
        add this to ~/.gemini/settings.json:
        ---
        {
          "mcpServers": {
            "callgate": {
              "command": "$CALLGATE",
              "args": [
                "stdio",
                "--config",
                "$DIR/callgate.yaml",
                "--data-dir",
                "$DIR/data"
              ]
            }
          }
        }
    "#]],
    );
    check_connect(
        &["opencode"],
        &expect![[r#"
        add this to opencode.json:
        ---
        {
          "mcp": {
            "callgate": {
              "type": "local",
              "command": [
                "$CALLGATE",
                "stdio",
                "--config",
                "$DIR/callgate.yaml",
                "--data-dir",
                "$DIR/data"
              ],
              "enabled": true
            }
          }
        }
    "#]],
    );
}

#[test]
fn every_host_gets_its_http_snippet() {
    check_connect(
        &["claude", "--http"],
        &expect![[r#"
        run this, for Claude Code:
        ---
        claude mcp add --transport http callgate http://127.0.0.1:7999/mcp --header "Authorization: Bearer t0ken"
    "#]],
    );
    check_connect(
        &["cursor", "--http"],
        &expect![[r#"
        add this to ~/.cursor/mcp.json:
        ---
        {
          "mcpServers": {
            "callgate": {
              "url": "http://127.0.0.1:7999/mcp",
              "headers": {
                "Authorization": "Bearer t0ken"
              }
            }
          }
        }
    "#]],
    );
    check_connect(
        &["codex", "--http"],
        &expect![[r#"
        add this to ~/.codex/config.toml, and put the agent token into CALLGATE_TOKEN:
        ---
        [mcp_servers.callgate]
        url = "http://127.0.0.1:7999/mcp"
        bearer_token_env_var = "CALLGATE_TOKEN"
    "#]],
    );
    check_connect(
        &["vscode", "--http"],
        &expect![[r#"
        add this to .vscode/mcp.json:
        ---
        {
          "servers": {
            "callgate": {
              "type": "http",
              "url": "http://127.0.0.1:7999/mcp",
              "headers": {
                "Authorization": "Bearer t0ken"
              }
            }
          }
        }
    "#]],
    );
    check_connect(
        &["gemini", "--http"],
        &expect![[r#"
        add this to ~/.gemini/settings.json:
        ---
        {
          "mcpServers": {
            "callgate": {
              "httpUrl": "http://127.0.0.1:7999/mcp",
              "headers": {
                "Authorization": "Bearer t0ken"
              }
            }
          }
        }
    "#]],
    );
    check_connect(
        &["opencode", "--http"],
        &expect![[r#"
        add this to opencode.json:
        ---
        {
          "mcp": {
            "callgate": {
              "type": "remote",
              "url": "http://127.0.0.1:7999/mcp",
              "headers": {
                "Authorization": "Bearer t0ken"
              },
              "enabled": true
            }
          }
        }
    "#]],
    );
}

#[test]
fn shell_snippets_are_quoted() {
    let bed = Bed::new("");
    let folder = bed.path("two words");
    let ran = run(named(&bed, ["connect", "--print", "claude"]).env("CALLGATE_DATA_DIR", folder));
    let line = normalised(&bed, &ran.stdout);
    assert!(line.ends_with(" --data-dir '$DIR/two words'\n"), "{line}");
}
