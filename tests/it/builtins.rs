//! The built-in tools through the real binary: what each promises, how each fails, and that no path,
//! command or argument gets out of hand.

mod confinement;
mod files;
mod random;
mod searching;
mod shell;

use callgate_testkit::{Host, StdioHost};
use serde_json::Value;

use crate::setup::Bed;
use crate::talk::request;

/// The built-in tools over one folder, and no server.
const BUILTINS: &str = "\
builtins: {enabled: true, roots: ['@dir@/desk']}
policy: allow-all
";

/// A gateway with the built-in tools and files to work on.
struct Fixture {
    bed: Bed,
    host: StdioHost,
}

impl Fixture {
    fn new() -> Self {
        Self::with(BUILTINS)
    }

    fn with(config: &str) -> Self {
        let bed = Bed::new(config);
        std::fs::create_dir(bed.path("desk")).expect("the folder is fresh");
        let host = bed.stdio_ready();
        Self { bed, host }
    }

    /// Puts a file into the root.
    fn file(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.bed.path("desk").join(name);
        let folder = path.parent().expect("it lies in a folder");
        std::fs::create_dir_all(folder).expect("the root is ours");
        std::fs::write(path, content).expect("the root is ours");
    }

    /// The content of a file in the root.
    fn content(&self, name: &str) -> String {
        self.bed.read(&format!("desk/{name}"))
    }

    /// Calls a tool and gives whether it failed, and what it said.
    fn call(&mut self, tool: &str, arguments: &Value) -> (bool, String) {
        said(&mut self.host, tool, arguments)
    }

    /// Goes through a table: a tool, its arguments, whether it fails, and what it says among other things.
    fn table(&mut self, rows: &[(&str, Value, bool, &str)]) {
        for (tool, arguments, fails, expected) in rows {
            let (failed, text) = self.call(tool, arguments);
            assert_eq!(failed, *fails, "{tool} {arguments}: {text}");
            assert!(text.contains(expected), "{tool} {arguments}: {text}");
        }
    }
}

fn said(host: &mut dyn Host, tool: &str, arguments: &Value) -> (bool, String) {
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"builtin__{tool}","arguments":{arguments}}}}}"#
    );
    let response = request(host, &line);
    let blocks = response["result"]["content"].as_array();
    let blocks = blocks.unwrap_or_else(|| panic!("no result: {response}"));
    let texts: Vec<&str> = blocks
        .iter()
        .filter_map(|block| block["text"].as_str())
        .collect();
    let failed = response["result"]["isError"] == Value::Bool(true);
    (failed, texts.join("\n"))
}
