//! The product as its users meet it: the real binary against real processes.

mod evidence;
mod setup;

mod activity;
mod cli;
mod closed_socket;
mod full_disk;
mod kill9;
mod lossless;
mod processes;
mod protocol;
mod shell;
mod talk;
mod trust;
mod upstreams;
