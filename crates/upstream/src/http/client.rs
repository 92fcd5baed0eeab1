//! The HTTP client: requests to a server over connections that are used again.

use std::{sync::Arc, time::Duration};

use callgate_record::Effect;
use callgate_wire::Pieces;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header, uri::Scheme};
use http_body_util::Full;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};

use callgate_gate::Endpoint;

use super::{
    connections::{Answered, Connections},
    connector::Connector,
};

/// How long a connection may take to be made.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// How long a quiet connection goes unprobed: a standing stream may be quiet for hours, and would
/// not notice that the other side is gone.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// How many headers a request has beside the configured ones.
const USUAL_HEADERS: usize = 6;
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A client for one HTTP server.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient {
    connections: Connections,
    /// Why no certificate can be checked, where that is so.
    no_roots: Option<Arc<str>>,
}

/// Why a request has no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpFailed {
    /// No connection: nothing was sent.
    #[error("cannot connect: {0}")]
    NotConnected(String),
    /// The connection broke; whether the request arrived is not known.
    #[error("the connection broke: {0}")]
    Broke(String),
    /// What came back is not HTTP.
    #[error("the answer is not HTTP: {0}")]
    NotHttp(String),
    /// The trusted certificates of the system cannot be read.
    #[error("the system's certificates cannot be read: {0}")]
    NoRoots(String),
}

/// What a request carries besides the endpoint's own headers.
#[derive(Debug, Default)]
pub(crate) struct Carried<'a> {
    pub(crate) session: Option<&'a str>,
    pub(crate) version: Option<&'a str>,
    pub(crate) last_event_id: Option<&'a str>,
    /// What of the message stands in headers, too.
    pub(crate) repeated: &'a [(String, String)],
}

impl HttpFailed {
    /// What the request can have done.
    pub(crate) fn effect(&self) -> Effect {
        match self {
            Self::NotConnected(_) | Self::NoRoots(_) => Effect::None,
            Self::Broke(_) | Self::NotHttp(_) => Effect::Unknown,
        }
    }
}

impl HttpClient {
    /// A client that trusts what the system trusts. A system without certificates, as small
    /// containers are, can still reach what needs none.
    pub(crate) fn new() -> Result<Self, HttpFailed> {
        let mut http = HttpConnector::new();
        // Small messages must not wait for the acknowledgement of the one before.
        http.set_nodelay(true);
        http.enforce_http(false);
        http.set_connect_timeout(Some(CONNECT_DEADLINE));
        http.set_keepalive(Some(KEEPALIVE));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let native = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider.clone());
        let (tls, no_roots) = match native {
            Ok(tls) => (tls, None),
            Err(error) => {
                let config = trusting_nobody(provider)?;
                let tls = HttpsConnectorBuilder::new().with_tls_config(config);
                (tls, Some(error.to_string().into()))
            }
        };
        let connector = tls
            .https_or_http()
            .enable_http1()
            .wrap_connector(Connector::new(http));
        Ok(Self {
            connections: Connections::new(connector),
            no_roots,
        })
    }

    /// A client for another server.
    pub(crate) fn of_another(&self) -> Self {
        Self {
            connections: self.connections.of_another(),
            no_roots: self.no_roots.clone(),
        }
    }

    /// POSTs a message.
    pub(crate) async fn post(
        &self,
        endpoint: &Endpoint,
        carried: &Carried<'_>,
        message: Pieces,
    ) -> Result<Response<Answered>, HttpFailed> {
        let mut request = request(Method::POST, endpoint, carried, Full::new(message));
        let headers = request.headers_mut();
        headers.insert(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        );
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        self.send(endpoint, request).await
    }

    /// Opens a stream of events.
    pub(crate) async fn listen(
        &self,
        endpoint: &Endpoint,
        carried: &Carried<'_>,
    ) -> Result<Response<Answered>, HttpFailed> {
        let mut request = request(Method::GET, endpoint, carried, Full::default());
        let headers = request.headers_mut();
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("text/event-stream"),
        );
        self.send(endpoint, request).await
    }

    /// GETs what is there.
    pub(crate) async fn get(
        &self,
        endpoint: &Endpoint,
        carried: &Carried<'_>,
    ) -> Result<Response<Answered>, HttpFailed> {
        let request = request(Method::GET, endpoint, carried, Full::default());
        self.send(endpoint, request).await
    }

    /// Ends a session.
    pub(crate) async fn delete(
        &self,
        endpoint: &Endpoint,
        carried: &Carried<'_>,
    ) -> Result<StatusCode, HttpFailed> {
        let request = request(Method::DELETE, endpoint, carried, Full::default());
        Ok(self.send(endpoint, request).await?.status())
    }

    async fn send(
        &self,
        endpoint: &Endpoint,
        request: Request<Full<Pieces>>,
    ) -> Result<Response<Answered>, HttpFailed> {
        if let Some(why) = &self.no_roots
            && endpoint.url.scheme() == Some(&Scheme::HTTPS)
        {
            return Err(HttpFailed::NoRoots(why.to_string()));
        }
        self.connections.send(&endpoint.url, request).await
    }
}

fn trusting_nobody(provider: Arc<CryptoProvider>) -> Result<ClientConfig, HttpFailed> {
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| HttpFailed::NoRoots(error.to_string()))?;
    Ok(config
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth())
}

fn request(
    method: Method,
    endpoint: &Endpoint,
    carried: &Carried<'_>,
    body: Full<Pieces>,
) -> Request<Full<Pieces>> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = endpoint.place().clone();
    let headers = request.headers_mut();
    *headers = endpoint.headers.clone();
    headers.reserve(USUAL_HEADERS);
    headers.insert(header::HOST, endpoint.host().clone());
    let own = [
        (SESSION, carried.session),
        (VERSION, carried.version),
        (LAST_EVENT_ID, carried.last_event_id),
    ];
    for (name, value) in own {
        if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
            headers.insert(name, value);
        }
    }
    for (name, value) in carried.repeated {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
    request
}
