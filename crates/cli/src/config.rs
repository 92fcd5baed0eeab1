//! The configuration: the file as written ([`model`]), found and read ([`load`]), and turned
//! into what the gateway runs on ([`Settings`]).

mod checked;
mod complaint;
mod foreign;
mod launch;
mod load;
mod model;
mod policies;
mod project;
mod reference;
mod settings;
mod show;

pub(crate) use load::{Origin, Source, again, load};
pub(crate) use model::{Auth, Config, Durability, Limits, OnFailure, OpenRoute};
pub(crate) use policies::{PolicyFile, ground};
pub(crate) use reference::{page, schema};
pub(crate) use settings::Settings;
pub(crate) use show::effective;

use load::Found;
