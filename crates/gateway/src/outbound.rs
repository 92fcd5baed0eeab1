//! Short requests of the gateway's own: batches of spans to a collector, messages to webhooks.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Response};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};

use callgate_config::Failed;

/// The answers to such requests are short.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Why a request has no answer.
pub(crate) type Unanswered = Box<dyn std::error::Error + Send + Sync>;

/// A client that trusts what the system trusts. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Outbound {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Outbound {
    pub(crate) fn new() -> Result<Self, Failed> {
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        let tls = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(provider)
            .map_err(|error| Failed::system(format!("the system's certificates: {error}")))?;
        let connector = tls.https_or_http().enable_http1().build();
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
        })
    }

    /// Sends a request and reads its answer. Whoever calls sets the deadline.
    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, Unanswered> {
        let response = self.client.request(request.map(Full::new)).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}
