//! Last known definitions: what a server listed when it was last reached, so that a gateway can
//! answer lists at once when it starts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use callgate_gate::{Digest, ServerName, Tool};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Launch;

/// The file of one server.
#[derive(Debug, Serialize, Deserialize)]
struct File {
    /// Which configuration they belong to: another command is another server.
    launch: String,
    capabilities: Box<RawValue>,
    instructions: Option<Box<RawValue>>,
    tools: Vec<Box<RawValue>>,
    extras: Vec<String>,
}

/// What a server said when it was last reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Definitions {
    pub(crate) capabilities: String,
    pub(crate) instructions: Option<String>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) extras: Vec<Bytes>,
}

impl Definitions {
    /// Reads what is known; nothing, where that belongs to another configuration or is damaged.
    pub(crate) fn load(folder: &Path, server: &ServerName, launch: &Launch) -> Option<Self> {
        let file: File = serde_json::from_slice(&fs::read(path(folder, server)).ok()?).ok()?;
        if file.launch != mark(launch) {
            return None;
        }
        let tool =
            |raw: &RawValue| Tool::from_descriptor(server, Bytes::from(raw.get().to_owned())).ok();
        Some(Self {
            capabilities: file.capabilities.get().to_owned(),
            instructions: file.instructions.map(|text| text.get().to_owned()),
            tools: file.tools.iter().filter_map(|raw| tool(raw)).collect(),
            extras: file.extras.into_iter().map(Bytes::from).collect(),
        })
    }

    /// Keeps what a server said. It is a convenience: a failure is logged and nothing else.
    pub(crate) fn save(&self, folder: &Path, server: &ServerName, launch: &Launch) {
        if let Err(error) = self.write(folder, server, launch) {
            tracing::debug!(server = %server, error = %error, "definitions were not kept");
        }
    }

    fn write(&self, folder: &Path, server: &ServerName, launch: &Launch) -> std::io::Result<()> {
        let raw = |text: &str| RawValue::from_string(text.to_owned());
        let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
        let tools: Result<Vec<_>, _> = self
            .tools
            .iter()
            .map(|tool| raw(&text(&tool.descriptor)))
            .collect();
        let file = File {
            launch: mark(launch),
            capabilities: raw(&self.capabilities)?,
            instructions: self.instructions.as_deref().map(raw).transpose()?,
            tools: tools?,
            extras: self.extras.iter().map(text).collect(),
        };
        fs::create_dir_all(folder)?;
        let fresh = folder.join(format!("{server}.{}.new", std::process::id()));
        fs::write(&fresh, serde_json::to_vec(&file)?)?;
        fs::rename(&fresh, path(folder, server))
    }
}

fn path(folder: &Path, server: &ServerName) -> PathBuf {
    folder.join(format!("{server}.json"))
}

/// A digest over how the server is reached; secrets in it stay secret.
pub(crate) fn mark(launch: &Launch) -> String {
    Digest::of(format!("{launch:?}").as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_come_back_byte_for_byte_and_only_for_the_same_launch() {
        let folder = tempfile::tempdir().unwrap();
        let server = ServerName::new("s").unwrap();
        let launch = |command: &str| Launch::Stdio {
            command: command.to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
        };
        let raw = r#"{"name":"a", "x":123456789012345678901234567890, "y":"\u0041"}"#;
        let known = Definitions {
            capabilities: r#"{"tools":{ }}"#.to_owned(),
            instructions: Some(r#""be kind""#.to_owned()),
            tools: vec![
                Tool::from_descriptor(&server, Bytes::from_static(raw.as_bytes())).unwrap(),
            ],
            extras: vec![Bytes::from_static(br#""_meta":{"k":1}"#)],
        };
        known.save(folder.path(), &server, &launch("one"));
        assert_eq!(
            Definitions::load(folder.path(), &server, &launch("one")),
            Some(known)
        );
        assert_eq!(
            Definitions::load(folder.path(), &server, &launch("two")),
            None
        );
    }
}
