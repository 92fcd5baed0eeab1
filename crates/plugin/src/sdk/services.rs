//! The gRPC services of a plugin: its own, and those that go-plugin requires.

use std::{collections::HashMap, sync::Arc};

use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::{Answer, Inputs, Server};
use crate::proto::{
    go::{
        ConnInfo, Empty, StdioData, StdioRequest, grpc_broker_server::GrpcBroker,
        grpc_controller_server::GrpcController, grpc_stdio_server::GrpcStdio,
    },
    health::{
        HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus,
        health_server::Health,
    },
    v1::{
        ExecuteRequest, ExecuteResponse, GetInfoRequest, GetInfoResponse, GetOperationRequest,
        GetOperationResponse, InitRequest, InitResponse, ListOperationsRequest,
        ListOperationsResponse, ShutdownRequest, ShutdownResponse,
        operation_service_server::OperationService, plugin_service_server::PluginService,
    },
};

/// All services of a plugin.
#[derive(Debug, Clone)]
pub(super) struct Services {
    pub(super) server: Arc<Server>,
    /// Fires when the host calls the controller's `Shutdown`.
    pub(super) shutdown_token: CancellationToken,
}

#[tonic::async_trait]
impl PluginService for Services {
    async fn get_info(
        &self,
        _request: Request<GetInfoRequest>,
    ) -> Result<Response<GetInfoResponse>, Status> {
        Ok(Response::new(GetInfoResponse {
            name: self.server.name.clone(),
            version: self.server.version.clone(),
            description: self.server.description.clone(),
            capabilities: vec!["operations".to_owned()],
        }))
    }

    async fn init(&self, request: Request<InitRequest>) -> Result<Response<InitResponse>, Status> {
        let config = inputs(request.into_inner().config)?;
        let configured = self.server.configured.configure(config);
        configured.map_err(Status::invalid_argument)?;
        Ok(Response::new(InitResponse {}))
    }

    async fn shutdown(
        &self,
        _request: Request<ShutdownRequest>,
    ) -> Result<Response<ShutdownResponse>, Status> {
        // The controller's `Shutdown` ends the process; the SDK has no state to clean up first.
        Ok(Response::new(ShutdownResponse {}))
    }
}

#[tonic::async_trait]
impl OperationService for Services {
    async fn list_operations(
        &self,
        _request: Request<ListOperationsRequest>,
    ) -> Result<Response<ListOperationsResponse>, Status> {
        let operations = self.server.operations.iter();
        let operations = operations
            .map(|registered| registered.schema.clone())
            .collect();
        Ok(Response::new(ListOperationsResponse { operations }))
    }

    async fn get_operation(
        &self,
        request: Request<GetOperationRequest>,
    ) -> Result<Response<GetOperationResponse>, Status> {
        let name = request.into_inner().name;
        let mut operations = self.server.operations.iter();
        let found = operations.find(|registered| registered.schema.name == name);
        let found = found.ok_or_else(|| Status::not_found("unknown operation"))?;
        Ok(Response::new(GetOperationResponse {
            operation: Some(found.schema.clone()),
        }))
    }

    async fn execute(
        &self,
        request: Request<ExecuteRequest>,
    ) -> Result<Response<ExecuteResponse>, Status> {
        let ExecuteRequest {
            operation,
            inputs: raw,
        } = request.into_inner();
        let mut operations = self.server.operations.iter();
        let found = operations.find(|registered| registered.schema.name == operation);
        let found = found.ok_or_else(|| Status::not_found("unknown operation"))?;
        let inputs = inputs(raw)?;
        let mut needed = found.schema.inputs.iter().filter(|input| input.required);
        let answer = match needed.find(|input| inputs.get(&input.name).is_none()) {
            Some(missing) => Answer::failure(format!("input `{}` is missing", missing.name)),
            None => (found.handler)(inputs).await,
        };
        let data = answer.data.into_iter();
        let data = data.map(|(key, value)| (key, value.to_string().into_bytes()));
        Ok(Response::new(ExecuteResponse {
            success: answer.error.is_none(),
            output: answer.output,
            data: data.collect(),
            error: answer.error.unwrap_or_default(),
        }))
    }
}

#[tonic::async_trait]
impl GrpcController for Services {
    async fn shutdown(&self, _request: Request<Empty>) -> Result<Response<Empty>, Status> {
        self.shutdown_token.cancel();
        Ok(Response::new(Empty {}))
    }
}

#[tonic::async_trait]
impl GrpcBroker for Services {
    type StartStreamStream = BoxStream<'static, Result<ConnInfo, Status>>;

    /// Hosts open this stream and wait. This plugin brokers no connections, so it sends nothing.
    async fn start_stream(
        &self,
        _request: Request<Streaming<ConnInfo>>,
    ) -> Result<Response<Self::StartStreamStream>, Status> {
        Ok(Response::new(until(&self.shutdown_token)))
    }
}

#[tonic::async_trait]
impl GrpcStdio for Services {
    type StreamStdioStream = BoxStream<'static, Result<StdioData, Status>>;

    /// Sends nothing: output reaches the host through the process's own stdout and stderr.
    async fn stream_stdio(
        &self,
        _request: Request<StdioRequest>,
    ) -> Result<Response<Self::StreamStdioStream>, Status> {
        Ok(Response::new(until(&self.shutdown_token)))
    }
}

#[tonic::async_trait]
impl Health for Services {
    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        match request.get_ref().service.as_str() {
            "" | "plugin" => Ok(Response::new(serving())),
            _ => Err(Status::not_found("unknown service")),
        }
    }

    async fn watch(
        &self,
        _request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let now = stream::iter([Ok(serving())]);
        Ok(Response::new(
            now.chain(until(&self.shutdown_token)).boxed(),
        ))
    }
}

fn serving() -> HealthCheckResponse {
    HealthCheckResponse {
        status: ServingStatus::Serving.into(),
    }
}

/// A stream without items that ends with the plugin.
fn until<T: Send + 'static>(
    shutdown_token: &CancellationToken,
) -> BoxStream<'static, Result<T, Status>> {
    let shutdown_token = shutdown_token.clone();
    stream::once(async move { shutdown_token.cancelled().await })
        .filter_map(|()| async { None })
        .boxed()
}

fn inputs(raw: HashMap<String, Vec<u8>>) -> Result<Inputs, Status> {
    let values = raw.into_iter().map(|(name, raw)| {
        let value = serde_json::from_slice(&raw);
        let value =
            value.map_err(|_| Status::invalid_argument(format!("`{name}` is not valid JSON")))?;
        Ok((name, value))
    });
    let values: Result<_, Status> = values.collect();
    Ok(Inputs { values: values? })
}
