//! Plain HTTP: one request, one connection to its destination, one answer.
//!
//! hyper reads the client's message and writes a new one, so nothing that the client wrote between or behind its headers
//! reaches the destination. A connection to a destination is not used for a second request: with one per request, every
//! request is checked, and none is sent where an earlier one was allowed.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Uri, Version, header,
    uri::PathAndQuery,
};
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{
    Destination, End,
    client::{Open, Proxy},
};

/// The limit of an answer's head, and of the read buffer.
const BUFFER_BYTES: usize = 64 * 1024;
/// Headers that are about one connection and not about the message (RFC 9110, 7.6.1), and those between client and proxy.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// An answer's body. Dropping it before its end closes the connection that it arrives on.
#[derive(Debug)]
pub(crate) struct ForwardedBody {
    body: Incoming,
    _connection: DropGuard,
}

/// The destination gave no answer that can be passed on.
#[derive(Debug)]
pub(crate) struct NotHttp;

impl Proxy {
    /// Sends a request over a new connection and returns its answer.
    pub(crate) async fn forward(
        &self,
        request: Request<Incoming>,
        open: Open,
    ) -> Result<Response<ForwardedBody>, NotHttp> {
        let Open {
            destination,
            stream,
            reported,
        } = open;
        let Some(request) = outgoing(request, &destination) else {
            self.report_end(&reported, End::Broken);
            return Err(NotHttp);
        };
        let handshake = http1::Builder::new()
            .max_buf_size(BUFFER_BYTES)
            .preserve_header_case(true)
            .handshake(TokioIo::new(stream))
            .await;
        let Ok((mut sender, connection)) = handshake else {
            self.report_end(&reported, End::Broken);
            return Err(NotHttp);
        };
        let left = CancellationToken::new();
        let guard = left.clone().drop_guard();
        let proxy = self.clone();
        self.tasks.spawn(async move {
            let end = tokio::select! {
                biased;
                ended = connection => match ended {
                    Ok(()) => End::Finished,
                    Err(_) => End::Broken,
                },
                // The client has its answer or has left, or its connection was given up.
                () = left.cancelled() => proxy.given_up(&reported).unwrap_or(End::Finished),
                () = proxy.close.cancelled() => End::Closing,
            };
            proxy.report_end(&reported, end);
        });
        let mut response = sender.send_request(request).await.map_err(|_| NotHttp)?;
        // No upgrade was asked for, and after one the bytes would be something else than HTTP.
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(NotHttp);
        }
        strip(response.headers_mut());
        *response.version_mut() = Version::HTTP_11;
        Ok(response.map(|body| ForwardedBody {
            body,
            _connection: guard,
        }))
    }
}

/// The request for the destination; `None` if its host cannot be a header.
fn outgoing(
    mut request: Request<Incoming>,
    destination: &Destination,
) -> Option<Request<Incoming>> {
    let is_chunked = request.body().size_hint().exact().is_none();
    let headers = request.headers_mut();
    strip(headers);
    // hyper would send a `GET` without a declared body as one without any.
    if is_chunked {
        let chunked = HeaderValue::from_static("chunked");
        headers.insert(header::TRANSFER_ENCODING, chunked);
    }
    // hyper sends `100 Continue` itself when it begins to read the body.
    headers.remove(header::EXPECT);
    headers.insert(header::HOST, host(destination)?);
    let place = request.uri().path_and_query().cloned();
    let place = place.unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(place);
    *request.version_mut() = Version::HTTP_11;
    Some(request)
}

/// The `Host` of a destination of plain HTTP.
fn host(destination: &Destination) -> Option<HeaderValue> {
    let text = destination.to_string();
    let without_port = match destination.port {
        80 => text.strip_suffix(":80"),
        _ => None,
    };
    HeaderValue::from_str(without_port.unwrap_or(&text)).ok()
}

/// Removes the headers that end at the proxy, with those that `Connection` names.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

impl Body for ForwardedBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_one_connection_end_at_the_proxy() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Named"),
            ("connection", "x-also"),
            ("x-named", "1"),
            ("x-also", "1"),
            ("keep-alive", "timeout=5"),
            ("proxy-authorization", "Basic eDp5"),
            ("proxy-connection", "keep-alive"),
            ("te", "trailers"),
            ("trailer", "x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("accept", "*/*"),
        ] {
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        strip(&mut headers);
        let left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["accept"]);
    }

    #[test]
    fn the_host_is_the_destination() {
        for (authority, expected) in [
            ("x.example:80", "x.example"),
            ("x.example:8080", "x.example:8080"),
            ("[::1]:80", "[::1]"),
            ("[::80]:1", "[::80]:1"),
        ] {
            let destination = Destination::from_authority(authority, None).expect("a destination");
            assert_eq!(host(&destination).expect("in ASCII"), expected);
        }
    }
}
