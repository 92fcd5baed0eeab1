//! HTTP to servers: request headers, and reading responses.

mod client;
mod reply;
mod status;

pub(crate) use callgate_outbound::{HttpError, read_body};
pub(crate) use client::{HttpClient, RequestHeaders, ResponseBody, effect_of_failure};
pub(crate) use reply::{Events, NextEvent};
pub(crate) use status::{describe_status, effect_of};
