//! The address of an HTTP server: its effective URL and its configured headers.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use url::{Host, Url};

/// Headers that belong to the protocol and cannot be configured.
const OWN_HEADERS: [&str; 9] = [
    "accept",
    "content-type",
    "content-length",
    "host",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "last-event-id",
];

/// An HTTP server's address and headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// The URL, with the rule about `https` applied.
    pub url: Uri,
    /// Headers for every request.
    pub headers: HeaderMap,
    named: Arc<RequestParts>,
}

/// The parts of the URL that a request sends.
#[derive(Debug, PartialEq, Eq)]
struct RequestParts {
    place: Uri,
    host: HeaderValue,
}

/// Why a server cannot be reached as configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// The text is not a URL.
    #[error("`{0}` is not a URL; write it like `https://example.com/mcp`")]
    NotAUrl(String),
    /// Only `http` and `https` are supported.
    #[error("`{0}` is neither http nor https")]
    Scheme(String),
    /// Credentials in a URL end up in logs.
    #[error("the URL has a user or password in it; use `headers` instead")]
    Credentials,
    /// A header that cannot be sent.
    #[error("header `{0}` cannot be sent as it is written")]
    Header(String),
    /// A header that the gateway sets itself.
    #[error("header `{0}` is set by the gateway itself")]
    OwnHeader(String),
}

impl Endpoint {
    /// Takes a URL and headers as configured. `http` becomes `https`, except towards loopback
    /// or where the operator declares the network private (`insecure_http`).
    pub fn new(
        url: &str,
        headers: &[(String, String)],
        insecure_http: bool,
    ) -> Result<Self, EndpointError> {
        let not_a_url = || EndpointError::NotAUrl(url.to_owned());
        let mut parsed = Url::parse(url).map_err(|_| not_a_url())?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(EndpointError::Credentials);
        }
        match parsed.scheme() {
            "https" => {}
            "http" if insecure_http || is_loopback(&parsed) => {}
            // Plain http to another machine would send the configured tokens in clear text.
            "http" => parsed.set_scheme("https").map_err(|()| not_a_url())?,
            _ => return Err(EndpointError::Scheme(url.to_owned())),
        }
        parsed.set_fragment(None);
        let (url, named) = parts(&parsed).ok_or_else(not_a_url)?;
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let wrong = || EndpointError::Header(name.clone());
            let key = HeaderName::try_from(name.as_str()).map_err(|_| wrong())?;
            // A configured value would contradict the request's framing, version or session.
            if OWN_HEADERS.contains(&key.as_str()) {
                return Err(EndpointError::OwnHeader(name.clone()));
            }
            let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| wrong())?;
            // Headers usually hold tokens: sensitive values are left out of debug output and HPACK tables.
            value.set_sensitive(true);
            map.append(key, value);
        }
        Ok(Self {
            url,
            headers: map,
            named,
        })
    }

    /// The path and query, as a request line has them.
    pub fn place(&self) -> &Uri {
        &self.named.place
    }

    /// The host and port, as the `Host` header has them.
    pub fn host(&self) -> &HeaderValue {
        &self.named.host
    }

    /// Another address of the same server, absolute or relative. Another origin is refused: the configured
    /// headers hold credentials that must not go there.
    pub fn sibling(&self, reference: &str) -> Option<Self> {
        let base = Url::parse(&self.url.to_string()).ok()?;
        let joined = base.join(reference).ok()?;
        // The reference comes from the server, which could name a collector of credentials.
        if joined.origin() != base.origin() {
            return None;
        }
        let (url, named) = parts(&joined)?;
        Some(Self {
            url,
            headers: self.headers.clone(),
            named,
        })
    }
}

/// A URL, and the parts of it that a request sends.
fn parts(url: &Url) -> Option<(Uri, Arc<RequestParts>)> {
    let whole: Uri = url.as_str().parse().ok()?;
    let place = Uri::from(whole.path_and_query()?.clone());
    // A parsed URL omits the scheme's default port, as a `Host` header should.
    let host = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str()?),
        None => url.host_str()?.to_owned(),
    };
    let host = HeaderValue::try_from(host).ok()?;
    Some((whole, Arc::new(RequestParts { place, host })))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(url: &str, insecure: bool) -> Result<String, EndpointError> {
        Endpoint::new(url, &[], insecure).map(|endpoint| endpoint.url.to_string())
    }

    #[test]
    fn http_urls_become_https_except_on_loopback_or_if_insecure() {
        let cases = [
            (
                "https://example.com/mcp",
                false,
                Ok("https://example.com/mcp"),
            ),
            (
                "http://example.com/mcp",
                false,
                Ok("https://example.com/mcp"),
            ),
            (
                "http://example.com:8080/mcp",
                false,
                Ok("https://example.com:8080/mcp"),
            ),
            ("http://example.com/mcp", true, Ok("http://example.com/mcp")),
            (
                "http://localhost:3000/mcp",
                false,
                Ok("http://localhost:3000/mcp"),
            ),
            (
                "http://127.0.0.1/mcp?x=1#part",
                false,
                Ok("http://127.0.0.1/mcp?x=1"),
            ),
            ("http://[::1]:1/", false, Ok("http://[::1]:1/")),
            (
                "http://localhost.example.com/",
                false,
                Ok("https://localhost.example.com/"),
            ),
            (
                "ftp://example.com/",
                false,
                Err(EndpointError::Scheme("ftp://example.com/".into())),
            ),
            (
                "https://u:p@example.com/",
                false,
                Err(EndpointError::Credentials),
            ),
            (
                "nonsense",
                false,
                Err(EndpointError::NotAUrl("nonsense".into())),
            ),
        ];
        for (url, insecure, expected) in cases {
            assert_eq!(used(url, insecure), expected.map(str::to_owned), "{url}");
        }
    }

    #[test]
    fn invalid_and_reserved_headers_are_refused() {
        let with = |name: &str, value: &str| {
            Endpoint::new(
                "https://e.com/",
                &[(name.to_owned(), value.to_owned())],
                false,
            )
        };
        assert!(with("Authorization", "Bearer x").is_ok());
        assert_eq!(
            with("Bad Name", "x"),
            Err(EndpointError::Header("Bad Name".into()))
        );
        assert_eq!(with("X", "a\nb"), Err(EndpointError::Header("X".into())));
        assert_eq!(
            with("Mcp-Session-Id", "x"),
            Err(EndpointError::OwnHeader("Mcp-Session-Id".into()))
        );
    }

    #[test]
    fn a_sibling_on_another_origin_is_refused() {
        let endpoint = Endpoint::new("https://e.com/sse", &[], false).unwrap();
        assert_eq!(
            endpoint.sibling("/messages?id=1").unwrap().url,
            "https://e.com/messages?id=1"
        );
        assert!(endpoint.sibling("https://evil.com/messages").is_none());
        assert!(endpoint.sibling("http://e.com/messages").is_none());
    }
}
