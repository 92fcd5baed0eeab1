//! The configuration: the file as written ([`model`]), found and read ([`load`]), and turned
//! into what the gateway runs on ([`Settings`]).

mod launch;
mod load;
mod model;
mod settings;

pub(crate) use load::{Found, Origin, load};
pub(crate) use model::{Auth, Config, Durability};
pub(crate) use settings::Settings;
