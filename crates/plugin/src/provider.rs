//! The provider: selected operations of a plugin as tools. Takes a recorded permit, returns a reply.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use callgate_call::{Exchange, Failure, LocalProvider, Provider, Reply, TraceContext};
use callgate_gate::{Listing, Permit, ServerName, Target, Tool, ToolSource};
use callgate_record::{Effect, Recorded};
use callgate_wire::{Id, RpcError, ToolResult, message};
use futures_util::future::BoxFuture;
use serde_json::value::RawValue;
use tokio::time::timeout;
use tonic::Request;

use crate::{
    Plugin, UnsupportedSchema,
    answer::answer,
    plugin::ExecuteFailed,
    proto::v1::{ExecuteRequest, ExecuteResponse},
};

/// Selected operations of a plugin, as tools.
#[derive(Debug, Clone)]
pub struct PluginTools {
    plugin: Arc<Plugin>,
    server: ServerName,
    tools: Vec<Tool>,
}

/// Why operations cannot be tools.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ToolMappingError {
    /// The plugin has no operation of that name.
    #[error("plugin `{plugin}` has no operation `{operation}`")]
    Unknown { plugin: String, operation: String },
    /// An input has no form in JSON Schema.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedSchema),
    /// The plugin's name is not a valid server name.
    #[error("plugin name `{0}` cannot be used as a prefix of tool names")]
    Name(String),
}

impl PluginTools {
    /// Only these operations of the plugin.
    pub fn new<'a>(
        plugin: Arc<Plugin>,
        operations: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, ToolMappingError> {
        let server = ServerName::new(plugin.name())
            .map_err(|_| ToolMappingError::Name(plugin.name().to_owned()))?;
        let one = |operation: &str| tool(&plugin, &server, operation);
        let tools: Result<Vec<Tool>, _> = operations.into_iter().map(one).collect();
        Ok(Self {
            tools: tools?,
            plugin,
            server,
        })
    }

    /// All operations that can be mapped to tools, and the reasons for those that cannot.
    pub fn all(plugin: Arc<Plugin>) -> Result<(Self, Vec<ToolMappingError>), ToolMappingError> {
        let server = ServerName::new(plugin.name())
            .map_err(|_| ToolMappingError::Name(plugin.name().to_owned()))?;
        let (mut tools, mut left_out) = (Vec::new(), Vec::new());
        for operation in plugin.operations() {
            match tool(&plugin, &server, operation) {
                Ok(tool) => tools.push(tool),
                Err(error) => left_out.push(error),
            }
        }
        let tools = Self {
            tools,
            plugin,
            server,
        };
        Ok((tools, left_out))
    }

    async fn execute(
        &self,
        operation: &str,
        arguments: &Bytes,
        exchange: &Exchange,
    ) -> Result<ExecuteAnswer, Failure> {
        let Ok(inputs) = serde_json::from_slice::<BTreeMap<String, Box<RawValue>>>(arguments)
        else {
            let text = "the arguments must be an object";
            return Ok(ExecuteAnswer::Local(ToolResult::failure(text)));
        };
        let checked = serde_json::from_slice(arguments).unwrap_or_default();
        let mistakes = self.plugin.mistakes(operation, &checked);
        if !mistakes.is_empty() {
            let text = mistakes.join("; ");
            return Ok(ExecuteAnswer::Local(ToolResult::failure(text)));
        }
        let raw = |(key, value): (String, Box<RawValue>)| (key, value.get().as_bytes().to_vec());
        let request = ExecuteRequest {
            operation: operation.to_owned(),
            inputs: inputs.into_iter().map(raw).collect(),
        };
        let process = self.plugin.process().await;
        let process = process.map_err(|error| self.gone(Effect::None, error.to_string()))?;
        let limit = self.plugin.timeout();
        tokio::select! {
            done = timeout(limit, process.execute(traced(request, exchange.trace.as_ref()))) => match done {
                Ok(Ok(response)) => Ok(ExecuteAnswer::Plugin(response)),
                Ok(Err(ExecuteFailed::Gone(why))) => {
                    process.settled().await;
                    Err(self.gone(Effect::Unknown, why))
                }
                Ok(Err(ExecuteFailed::TooLarge)) => Err(Failure::TooLarge {
                    server: self.server.clone(),
                }),
                Ok(Err(ExecuteFailed::Status(text))) => {
                    Ok(ExecuteAnswer::Local(ToolResult::failure(text)))
                }
                Err(_) => Err(Failure::TimedOut {
                    server: self.server.clone(),
                    name: operation.to_owned(),
                    timeout: limit,
                    effect: Effect::Unknown,
                }),
            },
            () = exchange.cancelled.cancelled() => Err(Failure::Cancelled {
                effect: Effect::Unknown,
            }),
        }
    }

    fn gone(&self, effect: Effect, detail: String) -> Failure {
        Failure::Unavailable {
            server: self.server.clone(),
            effect,
            detail,
        }
    }
}

/// A request that carries the trace context of its call.
fn traced(request: ExecuteRequest, trace: Option<&TraceContext>) -> Request<ExecuteRequest> {
    let mut request = Request::new(request);
    let fields = trace.into_iter().flat_map(|trace| {
        [
            ("traceparent", Some(trace.parent())),
            ("tracestate", trace.state()),
        ]
    });
    for (name, value) in fields {
        // A state that cannot be a header value is left out.
        if let Some(value) = value.and_then(|value| value.parse().ok()) {
            request.metadata_mut().insert(name, value);
        }
    }
    request
}

enum ExecuteAnswer {
    Plugin(ExecuteResponse),
    Local(ToolResult),
}

fn tool(plugin: &Plugin, server: &ServerName, operation: &str) -> Result<Tool, ToolMappingError> {
    let unknown = || ToolMappingError::Unknown {
        plugin: plugin.name().to_owned(),
        operation: operation.to_owned(),
    };
    let descriptor = plugin.descriptor(operation).ok_or_else(unknown)??;
    let tool = Tool::from_descriptor(server, descriptor.to_string().into());
    Ok(tool.map_err(|_| unknown())?.made_by(ToolSource::Plugin))
}

impl Provider for PluginTools {
    fn forward(
        &self,
        call: Recorded<Permit>,
        exchange: Exchange,
    ) -> BoxFuture<'_, Result<Reply, Failure>> {
        Box::pin(async move {
            let call = call.into_call();
            let frame = &call.attempt.frame;
            let id = frame.id().cloned().unwrap_or_else(|| Id::number(0));
            let is_known = |name: &str| self.tools.iter().any(|tool| tool.name == name);
            let name = match &call.target {
                Target::Tool(tool) if is_known(&tool.name) => &tool.name,
                _ => return Reply::local(unknown(&id)),
            };
            let arguments = frame.param("arguments").map(|json| frame.share(json));
            let arguments = arguments.unwrap_or_else(|| Bytes::from_static(b"{}"));
            let answered = match self.execute(name, &arguments, &exchange).await? {
                ExecuteAnswer::Plugin(response) => answer(response),
                ExecuteAnswer::Local(answer) => answer,
            };
            Reply::local(message::result(&id, &answered.to_raw()))
        })
    }
}

impl LocalProvider for PluginTools {
    fn server(&self) -> ServerName {
        self.server.clone()
    }

    fn listing(&self) -> Listing {
        Listing {
            listed: true,
            tools: Some(self.tools.clone()),
            ..Listing::unknown(self.server.clone())
        }
    }
}

fn unknown(id: &Id) -> Bytes {
    let error = RpcError::new(RpcError::METHOD_NOT_FOUND, "unknown operation");
    message::error(Some(id), &error)
}
