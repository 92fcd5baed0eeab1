//! The messages, by their numbers.

use std::collections::HashMap;

use prost::Message;

/// `plugin.v1.GetInfoResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct Info {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version.
    #[prost(string, tag = "2")]
    pub version: String,
    /// What it is for.
    #[prost(string, tag = "3")]
    pub description: String,
    /// What it can do.
    #[prost(string, repeated, tag = "4")]
    pub capabilities: Vec<String>,
}

/// `plugin.v1.InitRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct Init {
    /// JSON documents by name.
    #[prost(map = "string, bytes", tag = "1")]
    pub config: HashMap<String, Vec<u8>>,
}

/// `plugin.v1.ListOperationsResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct Operations {
    /// All of them.
    #[prost(message, repeated, tag = "1")]
    pub operations: Vec<Operation>,
}

/// `plugin.v1.OperationSchema`.
#[derive(Clone, PartialEq, Message)]
pub struct Operation {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// What it does.
    #[prost(string, tag = "2")]
    pub description: String,
    /// What it takes.
    #[prost(message, repeated, tag = "3")]
    pub inputs: Vec<Input>,
    /// What it gives.
    #[prost(message, repeated, tag = "4")]
    pub outputs: Vec<Output>,
}

/// `plugin.v1.InputSchema`.
#[derive(Clone, PartialEq, Message)]
pub struct Input {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its type.
    #[prost(string, tag = "2")]
    pub r#type: String,
    /// Whether it must be there.
    #[prost(bool, tag = "3")]
    pub required: bool,
    /// What counts when it is not.
    #[prost(string, tag = "4")]
    pub default: String,
    /// What it is for.
    #[prost(string, tag = "5")]
    pub description: String,
    /// What must hold for it.
    #[prost(string, tag = "6")]
    pub validation: String,
}

/// `plugin.v1.OutputSchema`.
#[derive(Clone, PartialEq, Message)]
pub struct Output {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its type.
    #[prost(string, tag = "2")]
    pub r#type: String,
    /// What it is.
    #[prost(string, tag = "3")]
    pub description: String,
}

/// `plugin.v1.ExecuteRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct Execute {
    /// The operation.
    #[prost(string, tag = "1")]
    pub operation: String,
    /// JSON documents by name.
    #[prost(map = "string, bytes", tag = "2")]
    pub inputs: HashMap<String, Vec<u8>>,
}

/// `plugin.v1.ExecuteResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct Executed {
    /// Whether it worked.
    #[prost(bool, tag = "1")]
    pub success: bool,
    /// For people.
    #[prost(string, tag = "2")]
    pub output: String,
    /// JSON documents by name.
    #[prost(map = "string, bytes", tag = "3")]
    pub data: HashMap<String, Vec<u8>>,
    /// Why it did not work.
    #[prost(string, tag = "4")]
    pub error: String,
}

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct HealthCheck {
    /// Whose health.
    #[prost(string, tag = "1")]
    pub service: String,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, Message)]
pub struct Health {
    /// 1 is serving, 2 is not.
    #[prost(int32, tag = "1")]
    pub status: i32,
}

/// A message without members.
#[derive(Clone, PartialEq, Message)]
pub struct Nothing {}
