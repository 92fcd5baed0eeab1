//! Saved definitions: what a server listed when it was last connected, so that a gateway can answer lists
//! as soon as it starts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use bytes::Bytes;
use callgate_gate::{Digest, Item, ItemKind, Items, ServerName, Tool};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{FleetOptions, Launch, lists::OtherLists};

/// The file of one server.
#[derive(Debug, Serialize, Deserialize)]
struct DefinitionsFile {
    /// A digest of the launch configuration: another command is another server.
    launch: String,
    capabilities: Box<RawValue>,
    instructions: Option<Box<RawValue>>,
    tools: Vec<Box<RawValue>>,
    extras: Vec<String>,
    #[serde(default)]
    prompts: StoredList,
    #[serde(default)]
    resources: StoredList,
    #[serde(default)]
    templates: StoredList,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct StoredList {
    items: Vec<Box<RawValue>>,
    extras: Vec<String>,
}

impl DefinitionsFile {
    fn read(folder: &Path, server: &ServerName) -> Option<Self> {
        serde_json::from_slice(&fs::read(path(folder, server)).ok()?).ok()
    }

    fn tools(&self, server: &ServerName) -> Vec<Tool> {
        let tool =
            |raw: &RawValue| Tool::from_descriptor(server, Bytes::from(raw.get().to_owned())).ok();
        // An entry that cannot be read is dropped; the server lists it again when it connects.
        self.tools.iter().filter_map(|raw| tool(raw)).collect()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Definitions {
    pub(crate) capabilities: String,
    pub(crate) instructions: Option<String>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) extras: Vec<Bytes>,
    pub(crate) others: OtherLists,
}

impl Definitions {
    /// Loads saved definitions; `None` if the file belongs to another configuration or is damaged.
    pub(crate) fn load(folder: &Path, server: &ServerName, launch: &Launch) -> Option<Self> {
        let file = DefinitionsFile::read(folder, server)?;
        // Hosts must not see tools that the configured server never listed.
        if file.launch != launch_digest(launch) {
            return None;
        }
        Some(Self {
            tools: file.tools(server),
            capabilities: file.capabilities.get().to_owned(),
            instructions: file.instructions.map(|text| text.get().to_owned()),
            extras: file.extras.into_iter().map(Bytes::from).collect(),
            others: OtherLists {
                prompts: file.prompts.read(ItemKind::Prompt, server),
                resources: file.resources.read(ItemKind::Resource, server),
                templates: file.templates.read(ItemKind::Template, server),
            },
        })
    }

    /// Saves the definitions. Only the next start depends on them, so a failure is only logged.
    pub(crate) fn save(&self, folder: &Path, server: &ServerName, launch: &Launch) {
        if let Err(error) = self.write(folder, server, launch) {
            crate::log::definitions_not_saved(server, &error);
        }
    }

    fn write(&self, folder: &Path, server: &ServerName, launch: &Launch) -> std::io::Result<()> {
        let tools: Result<Vec<_>, _> = self
            .tools
            .iter()
            .map(|tool| raw(&text(&tool.descriptor)))
            .collect();
        let file = DefinitionsFile {
            launch: launch_digest(launch),
            capabilities: raw(&self.capabilities)?,
            instructions: self.instructions.as_deref().map(raw).transpose()?,
            tools: tools?,
            extras: self.extras.iter().map(text).collect(),
            prompts: StoredList::of(&self.others.prompts)?,
            resources: StoredList::of(&self.others.resources)?,
            templates: StoredList::of(&self.others.templates)?,
        };
        fs::create_dir_all(folder)?;
        // Under a name of this process and then renamed: another gateway may read or save at the same time.
        let fresh = folder.join(format!("{server}.{}.new", std::process::id()));
        fs::write(&fresh, serde_json::to_vec(&file)?)?;
        fs::rename(&fresh, path(folder, server))
    }
}

/// The tools that the server of this name listed when a gateway with this data folder was last connected to
/// it, whatever its launch configuration was.
pub fn saved_tools(options: &FleetOptions, server: &ServerName) -> Option<Vec<Tool>> {
    let folder = options.definitions_dir.as_deref()?;
    Some(DefinitionsFile::read(folder, server)?.tools(server))
}

impl StoredList {
    fn of(list: &Items) -> serde_json::Result<Self> {
        let items = list.items.iter().map(|item| raw(&text(&item.descriptor)));
        Ok(Self {
            items: items.collect::<Result<_, _>>()?,
            extras: list.extras.iter().map(text).collect(),
        })
    }

    fn read(self, kind: ItemKind, server: &ServerName) -> Items {
        let item = |raw: &RawValue| {
            Item::from_descriptor(kind, server, Bytes::from(raw.get().to_owned())).ok()
        };
        Items {
            items: self.items.iter().filter_map(|raw| item(raw)).collect(),
            extras: self.extras.into_iter().map(Bytes::from).collect(),
        }
    }
}

fn raw(text: &str) -> serde_json::Result<Box<RawValue>> {
    RawValue::from_string(text.to_owned())
}

fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn path(folder: &Path, server: &ServerName) -> PathBuf {
    folder.join(format!("{server}.json"))
}

/// A digest of the launch configuration, which may contain secrets and so is not stored itself.
pub(crate) fn launch_digest(launch: &Launch) -> String {
    Digest::of(format!("{launch:?}").as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_definitions_are_returned_unchanged_for_the_same_launch() {
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
            others: OtherLists {
                resources: Items {
                    items: vec![
                        Item::from_descriptor(
                            ItemKind::Resource,
                            &server,
                            Bytes::from_static(br#"{"uri":"a:\/\/b", "n":1.0}"#),
                        )
                        .unwrap(),
                    ],
                    extras: vec![Bytes::from_static(br#""x":-0"#)],
                },
                ..OtherLists::default()
            },
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
