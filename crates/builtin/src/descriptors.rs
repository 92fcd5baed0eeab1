//! Table: how the six tools are listed.
//!
//! `readOnlyHint: false` without a destructive hint: the default policy lets them pass. The size in
//! `_meta` keeps Claude Code from cutting results at 50,000 characters.

use bytes::Bytes;
use callgate_gate::{BuiltinTool, ServerName, Tool, ToolSource};

/// How a tool is listed.
fn descriptor(tool: BuiltinTool) -> &'static str {
    match tool {
        BuiltinTool::Bash => {
            r#"{"name":"Bash","description":"Runs a command with bash and answers with its exit code, stdout and stderr. The command and everything it started end with the call. Long output keeps its head and its tail.","inputSchema":{"type":"object","properties":{"command":{"type":"string","description":"The command line."},"cwd":{"type":"string","description":"The folder to run it in; the working folder when left out."},"timeout_seconds":{"type":"integer","minimum":1,"description":"After so many seconds the command is killed; 120 when left out."}},"required":["command"]},"annotations":{"readOnlyHint":false},"_meta":{"anthropic/maxResultSizeChars":500000}}"#
        }
        BuiltinTool::Edit => {
            r#"{"name":"Edit","description":"Replaces a text in a file, literally. The old text must occur exactly once unless replace_all is true.","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"The file."},"old":{"type":"string","description":"The text to replace, as it stands in the file."},"new":{"type":"string","description":"The text to put there."},"replace_all":{"type":"boolean","description":"Whether to replace every occurrence; false when left out."}},"required":["path","old","new"]},"annotations":{"readOnlyHint":false},"_meta":{"anthropic/maxResultSizeChars":500000}}"#
        }
        BuiltinTool::Glob => {
            r#"{"name":"Glob","description":"Finds files by a pattern such as src/**/*.rs, newest first. What ignore files name is left out.","inputSchema":{"type":"object","properties":{"pattern":{"type":"string","description":"The pattern; * stays inside a folder and ** crosses folders."},"cwd":{"type":"string","description":"The folder to look in; the working folder when left out."}},"required":["pattern"]},"annotations":{"readOnlyHint":true},"_meta":{"anthropic/maxResultSizeChars":500000}}"#
        }
        BuiltinTool::Grep => {
            r#"{"name":"Grep","description":"Searches files for a regular expression, as ripgrep does, and answers file:line:text. Binary files and what ignore files name are left out.","inputSchema":{"type":"object","properties":{"pattern":{"type":"string","description":"The regular expression."},"path":{"type":"string","description":"The file or folder to search; the working folder when left out."},"glob":{"type":"string","description":"Only files whose names match, such as *.rs."},"output_mode":{"type":"string","enum":["content","files_with_matches","count"],"description":"Matching lines, names of files, or numbers of matching lines; content when left out."},"case_insensitive":{"type":"boolean","description":"Whether case does not matter; false when left out."},"context":{"type":"integer","minimum":0,"description":"How many lines to show around each match; 0 when left out."}},"required":["pattern"]},"annotations":{"readOnlyHint":true},"_meta":{"anthropic/maxResultSizeChars":500000}}"#
        }
        BuiltinTool::Read => {
            r#"{"name":"Read","description":"Reads a text file, or some lines of it. At most 5 MiB are answered at once; then it says where to go on.","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"The file."},"offset":{"type":"integer","minimum":1,"description":"The first line to read, counted from 1."},"limit":{"type":"integer","minimum":1,"description":"How many lines to read; all when left out."}},"required":["path"]},"annotations":{"readOnlyHint":true},"_meta":{"anthropic/maxResultSizeChars":500000}}"#
        }
        BuiltinTool::Write => {
            r#"{"name":"Write","description":"Writes a file whole. Folders that are missing are made; a file that is there is replaced at once and keeps its mode.","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"The file."},"content":{"type":"string","description":"What to write."}},"required":["path","content"]},"annotations":{"readOnlyHint":false},"_meta":{"anthropic/maxResultSizeChars":500000}}"#
        }
    }
}

/// The tools as the catalog has them.
pub(crate) fn tools() -> Vec<Tool> {
    let server = ServerName::builtin();
    BuiltinTool::ALL
        .into_iter()
        .map(|tool| {
            let descriptor = Bytes::from_static(descriptor(tool).as_bytes());
            Tool::from_descriptor(&server, descriptor)
                .expect("our own descriptors are objects with names")
                .made_by(ToolSource::Builtin)
        })
        .collect()
}
