//! MCP requests over HTTP: methods and headers.

use callgate_gate::Endpoint;
use callgate_outbound::{Client, HttpError};
use callgate_record::Effect;
use callgate_wire::Pieces;
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;

/// Headers of a request beside the configured ones; reserved to avoid growing the map.
const USUAL_HEADERS: usize = 6;
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A client for one HTTP server.
#[derive(Debug, Clone)]
pub(crate) struct HttpClient(Client<Pieces>);

pub(crate) type ResponseBody = callgate_outbound::ResponseBody<Pieces>;

/// Headers of a request besides the endpoint's own.
#[derive(Debug, Default)]
pub(crate) struct RequestHeaders<'a> {
    pub(crate) session: Option<&'a HeaderValue>,
    pub(crate) version: Option<&'a HeaderValue>,
    pub(crate) last_event_id: Option<&'a str>,
    /// Values of the message that stateless HTTP repeats in headers.
    pub(crate) repeated: &'a [(String, String)],
}

/// The possible effect of a request that got no response.
pub(crate) fn effect_of_failure(failed: &HttpError) -> Effect {
    match failed {
        HttpError::BadRequest(_) | HttpError::NotConnected(_) | HttpError::NoRoots(_) => {
            Effect::None
        }
        // The request may have been written before the connection failed.
        HttpError::Broke(_) | HttpError::NotHttp(_) => Effect::Unknown,
    }
}

impl HttpClient {
    /// A client that trusts the system's certificates.
    pub(crate) fn new() -> Result<Self, HttpError> {
        Client::new().map(Self)
    }

    /// A client for another server: it shares the certificates but no connections.
    pub(crate) fn for_another_server(&self) -> Self {
        Self(self.0.for_another_server())
    }

    pub(crate) async fn post(
        &self,
        endpoint: &Endpoint,
        carried: &RequestHeaders<'_>,
        message: Pieces,
    ) -> Result<Response<ResponseBody>, HttpError> {
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
        carried: &RequestHeaders<'_>,
    ) -> Result<Response<ResponseBody>, HttpError> {
        let mut request = request(Method::GET, endpoint, carried, Full::default());
        let headers = request.headers_mut();
        headers.insert(
            header::ACCEPT,
            HeaderValue::from_static("text/event-stream"),
        );
        self.send(endpoint, request).await
    }

    pub(crate) async fn get(
        &self,
        endpoint: &Endpoint,
        carried: &RequestHeaders<'_>,
    ) -> Result<Response<ResponseBody>, HttpError> {
        let request = request(Method::GET, endpoint, carried, Full::default());
        self.send(endpoint, request).await
    }

    pub(crate) async fn delete(
        &self,
        endpoint: &Endpoint,
        carried: &RequestHeaders<'_>,
    ) -> Result<StatusCode, HttpError> {
        let request = request(Method::DELETE, endpoint, carried, Full::default());
        Ok(self.send(endpoint, request).await?.status())
    }

    async fn send(
        &self,
        endpoint: &Endpoint,
        request: Request<Full<Pieces>>,
    ) -> Result<Response<ResponseBody>, HttpError> {
        self.0.send(&endpoint.url, request).await
    }
}

fn request(
    method: Method,
    endpoint: &Endpoint,
    carried: &RequestHeaders<'_>,
    body: Full<Pieces>,
) -> Request<Full<Pieces>> {
    let mut request = Request::new(body);
    *request.method_mut() = method;
    *request.uri_mut() = endpoint.place().clone();
    let headers = request.headers_mut();
    // The configured headers first: those of the protocol below overwrite them.
    *headers = endpoint.headers.clone();
    headers.reserve(USUAL_HEADERS);
    headers.insert(header::HOST, endpoint.host().clone());
    for (name, value) in [(SESSION, carried.session), (VERSION, carried.version)] {
        if let Some(value) = value {
            headers.insert(name, value.clone());
        }
    }
    let last_event_id = carried.last_event_id.map(HeaderValue::from_str);
    // The id comes from the server: one that is not a valid header value is dropped.
    if let Some(Ok(last_event_id)) = last_event_id {
        headers.insert(LAST_EVENT_ID, last_event_id);
    }
    for (name, value) in carried.repeated {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.insert(name, value);
        }
    }
    request
}
