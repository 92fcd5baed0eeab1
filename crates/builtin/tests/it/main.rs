//! The built-in tools through their provider, with real files and real commands.

mod bash;
mod changing;
mod confinement;
mod fixture;
mod glob;
mod grep;
mod listing;
mod protected;
mod reading;
