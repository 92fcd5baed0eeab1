//! TCP connections to servers that spin for their responses before the call sleeps.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use callgate_spin::{SoleActivity, SpinningSocket};
use http::Uri;
use hyper_util::{client::legacy::connect::HttpConnector, rt::TokioIo};
use tower_service::Service;

type ConnectError = <HttpConnector as Service<Uri>>::Error;
type Connecting = dyn Future<Output = Result<TokioIo<SpinningSocket>, ConnectError>> + Send;

#[derive(Debug, Clone)]
pub(crate) struct Connector {
    http: HttpConnector,
    /// Shared by the connections to all servers: only the sole active connection may spin.
    streak: Arc<SoleActivity>,
}

impl Connector {
    pub(crate) fn new(http: HttpConnector) -> Self {
        Self {
            http,
            streak: Arc::default(),
        }
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<SpinningSocket>;
    type Error = ConnectError;
    type Future = Pin<Box<Connecting>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        self.http.poll_ready(context)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let connecting = self.http.call(server);
        let streak = self.streak.clone();
        Box::pin(async move {
            let socket = connecting.await?.into_inner();
            Ok(TokioIo::new(SpinningSocket::new(socket, streak)))
        })
    }
}
