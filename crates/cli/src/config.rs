//! The configuration: the file as written ([`model`]), found and read ([`load`]), and turned
//! into what the gateway runs on ([`Settings`]).

mod accepted;
mod approvals;
mod checked;
mod complaint;
mod foreign;
mod governing;
mod guard;
mod launch;
mod load;
mod loosened;
mod model;
mod policies;
mod project;
mod protected;
mod reference;
mod settings;
mod show;

pub(crate) use approvals::{Webhook, WebhookFormat};
pub(crate) use load::{Origin, Source, Untrusted, again, load, manifest_of};
pub(crate) use loosened::{loosened, lowered};
pub(crate) use model::{Auth, Config, Durability, Limits, OnFailure, OpenRoute, PluginEntry, Span};
pub(crate) use policies::{PolicyFile, ground};
pub(crate) use reference::{page, schema};
pub(crate) use settings::Settings;
pub(crate) use show::{effective, text};

use std::path::Path;

use crate::{args::Gateway, exit::Failed, folders::CONFIG_FILE};
use load::Found;

/// What `callgate config show` prints for a file with this content, or what it says is wrong.
pub fn shown_config(content: &[u8]) -> Result<String, String> {
    let shown = || {
        let data_dir = Path::new("data");
        let found = load::of_content(Path::new(CONFIG_FILE), content, data_dir)?;
        let settings = Settings::new(found, &Gateway::default(), data_dir)?;
        text(&effective(&settings, None)?)
    };
    shown().map_err(|failed: Failed| failed.message().to_owned())
}
