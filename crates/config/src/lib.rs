//! `callgate.yaml`: found, trusted, read and turned into what a gateway runs on.
//!
//! [`load`] finds the file and reads it as written ([`Config`]); [`Settings::new`] checks it, applies [`Flags`] and reads the
//! files that it names: policies, the lock of accepted definitions, packs. A file that was found rather than named counts
//! only while [`trust`] covers it and everything that governs beside it, and a project's file only tightens.
//!
//! This room starts nothing and waits for nothing, so neither it nor its dependencies use tokio.

mod accepted;
mod approval_keys;
mod boxes;
mod checked;
mod complaint;
mod failed;
mod flags;
mod foreign;
mod governing;
mod guard;
mod heads;
mod launch;
mod load;
mod log;
mod loosened;
mod model;
mod plugin_dirs;
mod policies;
mod project;
mod protected;
mod reference;
mod settings;
mod show;
mod tokens;

pub mod box_edit;
pub mod folders;
pub mod pin_file;
pub mod trust;

use std::path::Path;

pub use accepted::Packs;
pub use approval_keys::{Webhook, WebhookFormat};
pub use boxes::{BoxChoice, BoxDefaults, BoxEntry, BoxKeys, PlacedText, refused_grant};
pub use failed::{Failed, Fault};
pub use flags::Flags;
pub use folders::CONFIG_FILE;
pub use guard::{FailMode, Guard};
pub use heads::{HeadPlace, HeadTarget, Heads};
pub use load::{ConfigSource, LoadedConfig, Origin, Untrusted, again, load, manifest_of};
pub use loosened::{loosened, lowered};
pub use model::{
    Auth, Code, Config, Durability, IntentForm, Limits, OnFailure, OpenRoute, PluginEntry,
    PolicyMode, SearchDetail, TimeSpan, View, Workflows,
};
pub use plugin_dirs::{FoundPlugin, PluginDirs, PluginNotFound};
pub use policies::{PolicyFile, SelectedPolicies, ground};
pub use reference::{page, schema};
pub use settings::{Settings, bytes};
pub use show::{effective, text};
pub use tokens::{TokenPair, seal_key};

/// What `callgate config show` prints for a file with this content, or what it says is wrong.
pub fn shown_config(content: &[u8]) -> Result<String, String> {
    let shown = || {
        let data_dir = Path::new("data");
        let found = load::of_content(Path::new(CONFIG_FILE), content, data_dir)?;
        let settings = Settings::new(found, &Flags::default(), data_dir)?;
        text(&effective(&settings, None)?)
    };
    shown().map_err(|failed: Failed| failed.message().to_owned())
}
