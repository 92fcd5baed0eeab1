//! One file per subcommand.

pub(crate) mod activity;
pub(crate) mod agent;
pub(crate) mod approvals;
pub(crate) mod call;
pub(crate) mod config;
pub(crate) mod connect;
pub(crate) mod demo;
pub(crate) mod demo_server;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod lock;
pub(crate) mod mcp_serve;
pub(crate) mod overview;
pub(crate) mod policy;
pub(crate) mod scripted_model;
pub(crate) mod serve;
pub(crate) mod servers;
pub(crate) mod stdio;
pub(crate) mod token;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod warden;
pub(crate) mod workflow;
