//! Which destination a request is for. A request that two readers could send to different hosts is refused.

use http::{HeaderMap, Method, Request, Uri, header, uri::Scheme};

use crate::{Destination, destination::AuthorityFault, host::HostFault};

/// The port of `http` URLs.
const HTTP_PORT: u16 = 80;

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// `CONNECT host:port`
    Tunnel(Destination),
    /// `GET http://host/path`
    Http(Destination),
}

/// Why a request has no destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoTarget {
    #[error("a proxy needs an absolute URL, or `CONNECT host:port`")]
    NotForAProxy,
    #[error("the URL must begin with `http://`; use `CONNECT` for all else")]
    Scheme,
    #[error("the host cannot be read")]
    BadHost,
    #[error("the host can be read as different hosts")]
    AmbiguousHost,
    #[error("the port is missing or not a number from 1 to 65535")]
    Port,
    #[error("a request has one `Host` header")]
    Hosts,
    #[error("the `Host` header differs from the host of the request")]
    HostDiffers,
    #[error("`CONNECT` has no body")]
    TunnelWithBody,
}

impl Target {
    /// Reads a request's head.
    pub(crate) fn of<B>(request: &Request<B>) -> Result<Self, NoTarget> {
        let (uri, headers) = (request.uri(), request.headers());
        if request.method() == Method::CONNECT {
            let destination = tunnel(uri)?;
            check_host(headers, &destination, None)?;
            // The body would be read as the first bytes of the tunnel, or the other way round.
            let has_body = headers.contains_key(header::TRANSFER_ENCODING)
                || headers
                    .get_all(header::CONTENT_LENGTH)
                    .iter()
                    .any(|length| length != "0");
            return match has_body {
                true => Err(NoTarget::TunnelWithBody),
                false => Ok(Self::Tunnel(destination)),
            };
        }
        let destination = absolute(uri)?;
        check_host(headers, &destination, Some(HTTP_PORT))?;
        Ok(Self::Http(destination))
    }
}

fn tunnel(uri: &Uri) -> Result<Destination, NoTarget> {
    let authority = uri.authority().ok_or(NoTarget::NotForAProxy)?;
    if uri.scheme().is_some() || uri.path_and_query().is_some() {
        return Err(NoTarget::NotForAProxy);
    }
    read(authority.as_str(), None)
}

fn absolute(uri: &Uri) -> Result<Destination, NoTarget> {
    let authority = uri.authority().ok_or(NoTarget::NotForAProxy)?;
    match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTP => read(authority.as_str(), Some(HTTP_PORT)),
        Some(_) => Err(NoTarget::Scheme),
        None => Err(NoTarget::NotForAProxy),
    }
}

/// A missing `Host` is fine, because the request line has the host. Two, or another one, are not: a server could read those.
fn check_host(
    headers: &HeaderMap,
    destination: &Destination,
    default_port: Option<u16>,
) -> Result<(), NoTarget> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let Some(host) = hosts.next() else {
        return Ok(());
    };
    if hosts.next().is_some() {
        return Err(NoTarget::Hosts);
    }
    let host = host.to_str().map_err(|_| NoTarget::BadHost)?;
    // Some clients leave the port out of the `Host` of a CONNECT.
    let named = read(host, Some(default_port.unwrap_or(destination.port)))?;
    match named == *destination {
        true => Ok(()),
        false => Err(NoTarget::HostDiffers),
    }
}

fn read(authority: &str, default_port: Option<u16>) -> Result<Destination, NoTarget> {
    // A user name with a password would be read as a host with a bad port.
    if authority.contains('@') {
        return Err(NoTarget::BadHost);
    }
    Destination::from_authority(authority, default_port).map_err(|fault| match fault {
        AuthorityFault::Port => NoTarget::Port,
        AuthorityFault::Host(HostFault::NotAHost) => NoTarget::BadHost,
        AuthorityFault::Host(HostFault::Ambiguous(_)) => NoTarget::AmbiguousHost,
    })
}

#[cfg(test)]
mod tests {
    use proptest::{prelude::*, proptest};

    use super::*;

    type Headers = &'static [(&'static str, &'static str)];

    fn target(method: &str, uri: &str, headers: Headers) -> Result<String, NoTarget> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Target::of(&request.body(()).expect("a request")).map(|target| match target {
            Target::Tunnel(destination) => format!("tunnel to {destination}"),
            Target::Http(destination) => format!("http to {destination}"),
        })
    }

    #[test]
    fn requests_for_a_proxy_have_one_destination() {
        let cases: [(&str, &str, Headers, &str); 9] = [
            ("CONNECT", "x.example:443", &[], "tunnel to x.example:443"),
            (
                "CONNECT",
                "X.example.:443",
                &[("host", "x.example")],
                "tunnel to x.example:443",
            ),
            (
                "CONNECT",
                "[::1]:443",
                &[("host", "[::1]:443"), ("content-length", "0")],
                "tunnel to [::1]:443",
            ),
            (
                "CONNECT",
                "[::ffff:10.0.0.1]:443",
                &[],
                "tunnel to 10.0.0.1:443",
            ),
            (
                "GET",
                "http://x.example/a?b",
                &[("host", "x.example")],
                "http to x.example:80",
            ),
            (
                "GET",
                "http://x.example",
                &[("host", "X.EXAMPLE.:80")],
                "http to x.example:80",
            ),
            (
                "POST",
                "http://x.example:8080/",
                &[("host", "x.example:8080")],
                "http to x.example:8080",
            ),
            ("GET", "http://0x7f.1/", &[], "http to 127.0.0.1:80"),
            ("GET", "HTTP://x.example/", &[], "http to x.example:80"),
        ];
        for (method, uri, headers, expected) in cases {
            assert_eq!(
                target(method, uri, headers).as_deref(),
                Ok(expected),
                "{method} {uri}"
            );
        }
    }

    #[test]
    fn requests_that_can_be_read_differently_are_refused() {
        let cases: [(&str, &str, Headers, NoTarget); 17] = [
            ("CONNECT", "x.example", &[], NoTarget::Port),
            ("CONNECT", "x.example:0", &[], NoTarget::Port),
            ("CONNECT", "0177.0.0.1:443", &[], NoTarget::AmbiguousHost),
            ("CONNECT", "u@x.example:443", &[], NoTarget::BadHost),
            (
                "CONNECT",
                "http://x.example:443/",
                &[],
                NoTarget::NotForAProxy,
            ),
            ("CONNECT", "/x", &[], NoTarget::NotForAProxy),
            (
                "CONNECT",
                "x.example:443",
                &[("host", "y.example:443")],
                NoTarget::HostDiffers,
            ),
            (
                "CONNECT",
                "x.example:443",
                &[("host", "x.example:80")],
                NoTarget::HostDiffers,
            ),
            (
                "CONNECT",
                "x.example:443",
                &[("content-length", "5")],
                NoTarget::TunnelWithBody,
            ),
            (
                "CONNECT",
                "x.example:443",
                &[("transfer-encoding", "chunked")],
                NoTarget::TunnelWithBody,
            ),
            (
                "GET",
                "/path",
                &[("host", "x.example")],
                NoTarget::NotForAProxy,
            ),
            ("GET", "x.example:80", &[], NoTarget::NotForAProxy),
            ("GET", "https://x.example/", &[], NoTarget::Scheme),
            ("GET", "http://u:p@x.example/", &[], NoTarget::BadHost),
            (
                "GET",
                "http://x.example/",
                &[("host", "y.example")],
                NoTarget::HostDiffers,
            ),
            (
                "GET",
                "http://x.example/",
                &[("host", "x.example:8080")],
                NoTarget::HostDiffers,
            ),
            (
                "GET",
                "http://x.example/",
                &[("host", "x.example"), ("host", "x.example")],
                NoTarget::Hosts,
            ),
        ];
        for (method, uri, headers, expected) in cases {
            assert_eq!(
                target(method, uri, headers),
                Err(expected),
                "{method} {uri} {headers:?}"
            );
        }
    }
    proptest! {
        #[test]
        fn a_destination_reads_as_itself(
            authority in "[a-zA-Z0-9.:@%_\\[\\]-]{1,24}|\\PC{1,12}(:[0-9]{1,5})?",
            host in "[a-zA-Z0-9.:@\\[\\]-]{1,24}",
        ) {
            for (method, uri) in [("CONNECT", authority.clone()), ("GET", format!("http://{authority}/"))] {
                let request = Request::builder().method(method).uri(uri).header("host", &host);
                let Ok(request) = request.body(()) else { continue };
                let Ok(Target::Tunnel(to) | Target::Http(to)) = Target::of(&request) else { continue };
                prop_assert_eq!(Destination::from_authority(&to.to_string(), None), Ok(to.clone()));
                let named = Destination::from_authority(&host, Some(to.port));
                let named_80 = Destination::from_authority(&host, Some(HTTP_PORT));
                prop_assert!(named == Ok(to.clone()) || named_80 == Ok(to));
            }
        }
    }
}
