//! Table: the descriptors of the six tools.
//!
//! `readOnlyHint: false` comes without `destructiveHint`, so the default policy allows the call. The size in
//! `_meta` keeps Claude Code from cutting results at 50,000 characters.

use bytes::Bytes;
use callgate_gate::{BuiltinTool, ServerName, Tool, ToolSource};
use serde_json::{Value, json};

fn descriptor(tool: BuiltinTool) -> &'static str {
    match tool {
        BuiltinTool::Bash => {
            r#"{"name":"Bash","description":"Runs a command with bash and returns its exit code, stdout and stderr. The command and every process it started end with the call. Long output keeps its beginning and its end.","inputSchema":{"type":"object","properties":{"command":{"type":"string","description":"The command line."},"cwd":{"type":"string","description":"The folder to run it in; defaults to the working folder."},"timeout_seconds":{"type":"integer","minimum":1,"description":"The command is killed after this many seconds; defaults to 120."}},"required":["command"]},"annotations":{"readOnlyHint":false},"_meta":{"anthropic/maxResultSizeChars":500000}}"#
        }
        BuiltinTool::Edit => {
            r#"{"name":"Edit","description":"Replaces literal text in a file. The old text must occur exactly once unless replace_all is true. A line feed also matches the CRLF of a file, which keeps its line ends.","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"The file."},"old":{"type":"string","description":"The text to replace, exactly as in the file."},"new":{"type":"string","description":"The replacement text."},"replace_all":{"type":"boolean","description":"Whether to replace every occurrence; defaults to false."}},"required":["path","old","new"]},"annotations":{"readOnlyHint":false},"_meta":{"anthropic/maxResultSizeChars":500000}}"#
        }
        BuiltinTool::Glob => {
            r#"{"name":"Glob","description":"Finds files by a pattern such as src/**/*.rs, newest first. Files matched by ignore files are skipped.","inputSchema":{"type":"object","properties":{"pattern":{"type":"string","description":"The pattern; * stays inside a folder and ** crosses folders."},"cwd":{"type":"string","description":"The folder to search; defaults to the working folder."}},"required":["pattern"]},"annotations":{"readOnlyHint":true},"_meta":{"anthropic/maxResultSizeChars":500000}}"#
        }
        BuiltinTool::Grep => {
            r#"{"name":"Grep","description":"Searches files for a regular expression, as ripgrep does, and returns file:line:text. Binary files and files matched by ignore files are skipped.","inputSchema":{"type":"object","properties":{"pattern":{"type":"string","description":"The regular expression."},"path":{"type":"string","description":"The file or folder to search; defaults to the working folder."},"glob":{"type":"string","description":"Search only files that match this glob, such as *.rs."},"output_mode":{"type":"string","enum":["content","files_with_matches","count"],"description":"Matching lines, file names, or the number of matching lines per file; defaults to content."},"case_insensitive":{"type":"boolean","description":"Whether to ignore case; defaults to false."},"context":{"type":"integer","minimum":0,"description":"Lines to show before and after each match; defaults to 0."}},"required":["pattern"]},"annotations":{"readOnlyHint":true},"_meta":{"anthropic/maxResultSizeChars":500000}}"#
        }
        BuiltinTool::Read => {
            r#"{"name":"Read","description":"Reads a text file, or some lines of it. Returns at most 256 KiB at once, then tells you the offset to continue from.","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"The file."},"offset":{"type":"integer","minimum":1,"description":"The first line to read, counted from 1."},"limit":{"type":"integer","minimum":1,"description":"How many lines to read; defaults to all."}},"required":["path"]},"annotations":{"readOnlyHint":true},"_meta":{"anthropic/maxResultSizeChars":500000}}"#
        }
        BuiltinTool::Write => {
            r#"{"name":"Write","description":"Writes a whole file. Missing folders are created; an existing file is replaced atomically and keeps its mode.","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"The file."},"content":{"type":"string","description":"The content of the file."}},"required":["path","content"]},"annotations":{"readOnlyHint":false},"_meta":{"anthropic/maxResultSizeChars":500000}}"#
        }
    }
}

/// The tools as catalog entries, with both spellings of their arguments if asked for.
pub(crate) fn tools(both_spellings: bool) -> Vec<Tool> {
    let server = ServerName::builtin();
    BuiltinTool::ALL
        .into_iter()
        .map(|tool| {
            let descriptor = match both_spellings {
                false => Bytes::from_static(descriptor(tool).as_bytes()),
                true => Bytes::from(with_both_spellings(tool)),
            };
            Tool::from_descriptor(&server, descriptor)
                .expect("our own descriptors are objects with names")
                .made_by(ToolSource::Builtin)
        })
        .collect()
}

/// A descriptor whose schema allows both spellings of each argument. It requires neither, because a schema for models can
/// hardly say that one of two is enough; the tool itself says what is missing.
fn with_both_spellings(tool: BuiltinTool) -> String {
    let mut descriptor: Value =
        serde_json::from_str(descriptor(tool)).expect("our own descriptors are JSON");
    let schema = &mut descriptor["inputSchema"];
    for argument in tool.arguments() {
        let Some(other) = argument.other else {
            continue;
        };
        let mut same = schema["properties"][argument.name].clone();
        same["description"] = json!(format!(
            "The same as `{}`; give one of them.",
            argument.name
        ));
        schema["properties"][other] = same;
        if let Some(required) = schema["required"].as_array_mut() {
            required.retain(|name| name != argument.name);
        }
    }
    descriptor.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_spellings_of_an_argument_are_allowed_and_neither_is_required() {
        let edit = with_both_spellings(BuiltinTool::Edit);
        let edit: Value = serde_json::from_str(&edit).unwrap();
        let schema = &edit["inputSchema"];
        assert_eq!(schema["required"], json!([]));
        for name in [
            "path",
            "file_path",
            "old",
            "old_string",
            "new",
            "new_string",
        ] {
            assert_eq!(schema["properties"][name]["type"], "string", "{name}");
        }
        let write = with_both_spellings(BuiltinTool::Write);
        let write: Value = serde_json::from_str(&write).unwrap();
        assert_eq!(write["inputSchema"]["required"], json!(["content"]));
        let names = |tools: Vec<Tool>| -> Vec<String> {
            tools.iter().map(|tool| tool.name.to_string()).collect()
        };
        assert_eq!(names(tools(true)), names(tools(false)));
    }
}
