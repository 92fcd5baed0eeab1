//! HTTP towards servers: the headers that every request carries, and the reading of replies.

mod client;
mod reply;
mod status;

pub(crate) use callgate_outbound::{HttpFailed, read_body};
pub(crate) use client::{Answered, Carried, HttpClient, effect_of_failure};
pub(crate) use reply::{Events, Next};
pub(crate) use status::{describe_status, effect_of};
