//! What each agent prints and where it is told of its tool server, as the real ones do.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// Which agent is faked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Claude,
    Gemini,
    Codex,
    OpenCode,
}

fn print(event: &Value) {
    println!("{event}");
}

impl Role {
    pub(super) fn of(name: &str) -> Result<Self> {
        match name {
            "claude" => Ok(Self::Claude),
            "gemini" => Ok(Self::Gemini),
            "codex" => Ok(Self::Codex),
            "opencode" => Ok(Self::OpenCode),
            other => bail!("unknown agent `{other}`"),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude-code",
            Self::Gemini => "gemini-cli-mcp-client",
            Self::Codex => "codex-mcp-client",
            Self::OpenCode => "opencode",
        }
    }

    /// Answers to questions outside of tasks.
    pub(super) fn about_itself(self, args: &[String], version: &str) -> Option<String> {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        match (self, args.as_slice()) {
            (Self::Claude, ["--version"]) => Some(format!("{version} (Claude Code)")),
            (Self::Codex, ["--version"]) => Some(format!("codex-cli {version}")),
            (Self::Gemini | Self::OpenCode, ["--version"]) => Some(version.to_owned()),
            (Self::Codex, ["debug", "models", "--bundled"]) => Some(
                json!({"models": [{"slug": "m", "shell_type": "default", "kept": 1}]}).to_string(),
            ),
            _ => None,
        }
    }

    /// The command of the tool server.
    pub(super) fn server(self, argv: &[String]) -> Result<Vec<String>> {
        match self {
            Self::Claude => {
                let at = argv.iter().position(|arg| arg == "--mcp-config");
                let file = at.and_then(|at| argv.get(at + 1)).context("--mcp-config")?;
                of_entry(&read(Path::new(file))?["mcpServers"]["callgate"])
            }
            Self::Gemini => {
                let home = std::env::var("GEMINI_CLI_HOME").context("$GEMINI_CLI_HOME")?;
                let settings = read(&Path::new(&home).join(".gemini/settings.json"))?;
                of_entry(&settings["mcpServers"]["callgate"])
            }
            Self::Codex => {
                let setting = |key: &str| {
                    let prefix = format!("mcp_servers.callgate.{key}=");
                    let found = argv.iter().find_map(|arg| arg.strip_prefix(&prefix));
                    let text = found.with_context(|| format!("no {key}"))?;
                    anyhow::Ok(serde_json::from_str::<Value>(text)?)
                };
                of_entry(&json!({"command": setting("command")?, "args": setting("args")?}))
            }
            Self::OpenCode => {
                let config = std::env::var("OPENCODE_CONFIG_CONTENT").context("the variable")?;
                let config: Value = serde_json::from_str(&config)?;
                words(&config["mcp"]["callgate"]["command"])
            }
        }
    }

    pub(super) fn began(self) {
        match self {
            Self::Claude => print(&json!({"type": "system", "subtype": "init", "tools": []})),
            Self::Gemini => print(&json!({"type": "init", "session_id": "s", "model": "m"})),
            Self::Codex => print(&json!({"type": "turn.started"})),
            Self::OpenCode => print(&json!({"type": "step_start", "part": {}})),
        }
    }

    pub(super) fn call(self, tool: &str, arguments: &Value) {
        match self {
            Self::Claude => self.used(&format!("mcp__callgate__{tool}"), arguments),
            Self::Gemini => self.used(&format!("mcp_callgate_{tool}"), arguments),
            Self::OpenCode => self.used(&format!("callgate_{tool}"), arguments),
            Self::Codex => print(
                &json!({"type": "item.completed", "item": {"id": "i", "type": "mcp_tool_call", "server": "callgate", "tool": tool, "arguments": arguments}}),
            ),
        }
    }

    pub(super) fn native(self, tool: &str, arguments: &Value) {
        match self {
            Self::Codex => print(
                &json!({"type": "item.completed", "item": {"id": "i", "type": "command_execution", "command": arguments["command"], "exit_code": 0}}),
            ),
            Self::Claude | Self::Gemini | Self::OpenCode => self.used(tool, arguments),
        }
    }

    /// A tool of its own that the model asked for and did not get.
    pub(super) fn native_refused(self, tool: &str, arguments: &Value) {
        match self {
            Self::Claude => {
                self.used(tool, arguments);
                let told = format!(
                    "<tool_use_error>Error: No such tool available: {tool}</tool_use_error>"
                );
                print(
                    &json!({"type": "user", "message": {"content": [{"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": told}]}}),
                );
            }
            Self::Gemini => {
                self.used(tool, arguments);
                print(
                    &json!({"type": "tool_result", "tool_id": "t", "status": "error", "error": {"type": "tool_not_registered", "message": "no such tool"}}),
                );
            }
            Self::Codex => print(
                &json!({"type": "item.completed", "item": {"id": "i", "type": "command_execution", "command": arguments["command"], "status": "declined"}}),
            ),
            Self::OpenCode => print(
                &json!({"type": "tool_use", "part": {"tool": "invalid", "state": {"status": "completed", "input": {"tool": tool, "error": "no such tool"}}}}),
            ),
        }
    }

    fn used(self, tool: &str, arguments: &Value) {
        match self {
            Self::Claude => print(
                &json!({"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "t", "name": tool, "input": arguments}]}}),
            ),
            Self::Gemini => print(
                &json!({"type": "tool_use", "tool_name": tool, "tool_id": "t", "parameters": arguments}),
            ),
            Self::OpenCode => print(
                &json!({"type": "tool_use", "part": {"tool": tool, "state": {"status": "completed", "input": arguments}}}),
            ),
            Self::Codex => {}
        }
    }

    pub(super) fn done(self, text: &str) {
        match self {
            Self::Claude => {
                print(
                    &json!({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}),
                );
                print(
                    &json!({"type": "result", "subtype": "success", "is_error": false, "result": text, "total_cost_usd": 0.25, "usage": {"input_tokens": 100, "output_tokens": 20}}),
                );
            }
            Self::Gemini => {
                let (first, second) = text.split_at(text.len() / 2);
                for piece in [first, second] {
                    print(
                        &json!({"type": "message", "role": "assistant", "content": piece, "delta": true}),
                    );
                }
                print(
                    &json!({"type": "result", "status": "success", "stats": {"input_tokens": 100, "output_tokens": 20}}),
                );
            }
            Self::Codex => {
                print(
                    &json!({"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": text}}),
                );
                print(
                    &json!({"type": "turn.completed", "usage": {"input_tokens": 100, "output_tokens": 20}}),
                );
            }
            Self::OpenCode => {
                print(&json!({"type": "text", "part": {"text": text}}));
                print(
                    &json!({"type": "step_finish", "part": {"reason": "stop", "cost": 0.25, "tokens": {"input": 100, "output": 20}}}),
                );
            }
        }
    }

    pub(super) fn failed(self, why: &str) {
        match self {
            Self::Claude => print(
                &json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "result": why}),
            ),
            Self::Gemini => {
                print(&json!({"type": "result", "status": "error", "error": {"message": why}}))
            }
            Self::Codex => print(&json!({"type": "turn.failed", "error": {"message": why}})),
            Self::OpenCode => print(
                &json!({"type": "error", "error": {"name": "APIError", "data": {"message": why}}}),
            ),
        }
    }
}

fn read(file: &Path) -> Result<Value> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    Ok(serde_json::from_str(&text)?)
}

fn of_entry(entry: &Value) -> Result<Vec<String>> {
    let command = entry["command"].as_str().context("a command")?.to_owned();
    let args = words(&entry["args"])?;
    Ok(std::iter::once(command).chain(args).collect())
}

fn words(array: &Value) -> Result<Vec<String>> {
    let words = array.as_array().context("an array")?.iter();
    let text = |word: &Value| word.as_str().map(str::to_owned).context("a text");
    words.map(text).collect()
}
