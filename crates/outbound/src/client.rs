//! The client: TLS, connect limits and the form of requests.

use std::{sync::Arc, time::Duration};

use bytes::{Buf, Bytes};
use http::{HeaderValue, Request, Response, Uri, header, uri::Scheme};
use http_body_util::Full;
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};

use crate::{
    HttpError, ResponseBody,
    connections::{Connections, TlsConnector},
};

/// The limit for connecting, without TLS.
const CONNECT_DEADLINE: Duration = Duration::from_secs(10);
/// The interval of TCP keep-alive probes. A stream may be quiet for hours, and without probes a lost peer would go
/// unnoticed.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// A client for one server. Clones share its connections.
#[derive(Debug)]
pub struct Client<D: Buf + Send + 'static = Bytes> {
    connections: Connections<D>,
    /// Why certificates cannot be verified; `None` when they can.
    no_roots: Option<Arc<str>>,
}

impl<D: Buf + Send + 'static> Client<D> {
    /// A client that trusts the system's certificates. A system without any, such as a small
    /// container, can still reach `http` URLs. Reading the certificates takes time: make further clients with
    /// [`Client::for_another_server`].
    pub fn new() -> Result<Self, HttpError> {
        let provider = provider();
        let native = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider.clone());
        match native {
            Ok(tls) => Ok(Self::over(
                tls.https_or_http().enable_http1().wrap_connector(tcp()),
                None,
            )),
            Err(error) => Self::without_roots(provider, &error.to_string()),
        }
    }

    /// A client for `http` URLs. It reads no certificates, so it starts at once.
    pub fn without_tls() -> Result<Self, HttpError> {
        Self::without_roots(provider(), "this client was built without TLS")
    }

    pub fn for_another_server(&self) -> Self {
        Self {
            connections: self.connections.for_another_server(),
            no_roots: self.no_roots.clone(),
        }
    }

    /// Fails if the certificate of the server at `url` cannot be checked. [`Client::send`] does this for every request; a
    /// program that wants to know at its start asks here.
    pub fn can_verify_certificates(&self, url: &Uri) -> Result<(), HttpError> {
        match &self.no_roots {
            Some(why) if url.scheme() == Some(&Scheme::HTTPS) => {
                Err(HttpError::NoRoots(why.to_string()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Sends a request to the server at `server`. The request is in origin form and has its `Host`.
    pub async fn send(
        &self,
        server: &Uri,
        request: Request<Full<D>>,
    ) -> Result<Response<ResponseBody<D>>, HttpError> {
        self.can_verify_certificates(server)?;
        self.connections.send(server, request).await
    }

    /// Sends a request to the server that its own URL names.
    pub async fn send_to_url(
        &self,
        mut request: Request<Full<D>>,
    ) -> Result<Response<ResponseBody<D>>, HttpError> {
        let server = request.uri().clone();
        let host = host_of(&server)?;
        request.headers_mut().entry(header::HOST).or_insert(host);
        *request.uri_mut() = origin_form(&server);
        self.send(&server, request).await
    }

    fn without_roots(provider: Arc<CryptoProvider>, why: &str) -> Result<Self, HttpError> {
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| HttpError::NoRoots(error.to_string()))?
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let tls = HttpsConnectorBuilder::new().with_tls_config(config);
        let connector = tls.https_or_http().enable_http1().wrap_connector(tcp());
        Ok(Self::over(connector, Some(why.into())))
    }

    fn over(connector: TlsConnector, no_roots: Option<Arc<str>>) -> Self {
        Self {
            connections: Connections::new(connector),
            no_roots,
        }
    }
}

// Not derived: a derive would require `D: Clone`.
impl<D: Buf + Send + 'static> Clone for Client<D> {
    fn clone(&self) -> Self {
        Self {
            connections: self.connections.clone(),
            no_roots: self.no_roots.clone(),
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn tcp() -> HttpConnector {
    let mut http = HttpConnector::new();
    // With Nagle's algorithm, a small message would wait for the acknowledgement of the one before.
    http.set_nodelay(true);
    // The TLS connector on top passes `https` URLs through this one.
    http.enforce_http(false);
    http.set_connect_timeout(Some(CONNECT_DEADLINE));
    http.set_keepalive(Some(KEEPALIVE));
    http
}

/// The `Host` of a URL: without a user, and without the scheme's usual port.
fn host_of(url: &Uri) -> Result<HeaderValue, HttpError> {
    // A URL may contain a secret, so errors do not show it.
    let bad = |why: &str| HttpError::BadRequest(format!("its URL {why}"));
    let usual = match url.scheme_str() {
        Some("http") => 80,
        Some("https") => 443,
        Some(_) | None => return Err(bad("is neither http nor https")),
    };
    let host = url.host().ok_or_else(|| bad("has no host"))?;
    let host = match url.port_u16().filter(|port| *port != usual) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    HeaderValue::from_str(&host).map_err(|error| bad(&error.to_string()))
}

fn origin_form(url: &Uri) -> Uri {
    url.path_and_query()
        .map_or_else(Uri::default, |path| Uri::from(path.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split_into_host_and_path() {
        let cases = [
            ("http://a.example", "a.example", "/"),
            ("http://a.example:80/x?y=1", "a.example", "/x?y=1"),
            ("https://a.example:443/", "a.example", "/"),
            ("https://a.example:80/", "a.example:80", "/"),
            ("http://user:word@a.example:8080/x", "a.example:8080", "/x"),
            ("http://[::1]:4318/v1", "[::1]:4318", "/v1"),
        ];
        for (url, host, path) in cases {
            let url: Uri = url.parse().unwrap();
            assert_eq!(host_of(&url).unwrap(), host, "{url}");
            assert_eq!(origin_form(&url), path, "{url}");
        }
        for url in ["/path", "ftp://a.example/", "a.example:80"] {
            assert!(host_of(&url.parse().unwrap()).is_err(), "{url}");
        }
    }

    #[test]
    fn a_client_without_tls_refuses_https() {
        let client = Client::<Bytes>::without_tls().unwrap();
        assert!(
            client
                .can_verify_certificates(&Uri::from_static("http://a.example"))
                .is_ok()
        );
        assert!(matches!(
            client.can_verify_certificates(&Uri::from_static("https://a.example")),
            Err(HttpError::NoRoots(_))
        ));
    }
}
