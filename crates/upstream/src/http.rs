//! HTTP towards servers: one pooled client, the headers that every request carries, and the
//! reading of replies.

mod client;
mod connections;
mod connector;
mod reply;
mod status;

pub(crate) use client::{Carried, HttpClient, HttpFailed};
pub(crate) use connections::Answered;
pub(crate) use reply::{Events, Next, read_body};
pub(crate) use status::{describe_status, effect_of};
