//! The proxy's own answers. Each says what was refused and why, because the client is a program whose user must be able to
//! mend it.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{Either, Full};

use crate::{
    Destination, Failure, Refusal, connect::Unreached, forward::ForwardedBody, target::NoTarget,
};

pub(crate) type AnswerBody = Either<ForwardedBody, Full<Bytes>>;

/// The whole answer for a connection beyond the limit, which has no request yet.
pub(crate) const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: text/plain\r\nconnection: close\r\ncontent-length: 50\r\n\r\n\
    callgate: too many connections through this proxy\n";

/// The answer to a `CONNECT` whose tunnel is open.
pub(crate) fn tunnel_opened() -> Response<AnswerBody> {
    Response::new(Either::Right(Full::default()))
}

pub(crate) fn no_target(why: NoTarget) -> Response<AnswerBody> {
    let mut response = text(StatusCode::BAD_REQUEST, &format!("callgate: {why}\n"));
    // What follows on the connection may be a second reading of this request.
    close(&mut response);
    response
}

pub(crate) fn no_password() -> Response<AnswerBody> {
    let mut response = text(
        StatusCode::PROXY_AUTHENTICATION_REQUIRED,
        "callgate: this proxy needs its password\n",
    );
    let challenge = HeaderValue::from_static("Basic realm=\"callgate\"");
    response
        .headers_mut()
        .insert(header::PROXY_AUTHENTICATE, challenge);
    close(&mut response);
    response
}

pub(crate) fn unreached(destination: &Destination, why: Unreached) -> Response<AnswerBody> {
    let (status, why) = match why {
        Unreached::Refused(refusal) => (StatusCode::FORBIDDEN, refused(refusal)),
        Unreached::Failed(failure) => failed(failure),
    };
    text(status, &format!("callgate: `{destination}` {why}\n"))
}

/// The destination's answer is not one that can be passed on.
pub(crate) fn not_http(destination: &Destination) -> Response<AnswerBody> {
    let why = format!("callgate: `{destination}` gave no valid HTTP answer\n");
    text(StatusCode::BAD_GATEWAY, &why)
}

fn refused(refusal: Refusal) -> String {
    match refusal {
        Refusal::NotListed => "is not in the list `net` of this box".to_owned(),
        Refusal::Address(kind) => format!(
            "leads to an address ({kind}) that is not in the list `net` of this box\n\
             help: list the address, or the host with its port"
        ),
        Refusal::AmbiguousHost => NoTarget::AmbiguousHost.to_string(),
        Refusal::BadRequest => NoTarget::NotForAProxy.to_string(),
        Refusal::NoPassword => "needs the password of the proxy".to_owned(),
        Refusal::TooManyConnections => "cannot be reached: too many connections".to_owned(),
    }
}

fn failed(failure: Failure) -> (StatusCode, String) {
    match failure {
        Failure::NameNotFound => (StatusCode::BAD_GATEWAY, "has no address".to_owned()),
        Failure::NoAnswer => (
            StatusCode::GATEWAY_TIMEOUT,
            "did not answer in time".to_owned(),
        ),
        Failure::NotConnected => (StatusCode::BAD_GATEWAY, "cannot be reached".to_owned()),
    }
}

fn text(status: StatusCode, text: &str) -> Response<AnswerBody> {
    let mut response = Response::new(Either::Right(Full::from(text.to_owned())));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

fn close(response: &mut Response<AnswerBody>) {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_beyond_the_limit_has_its_length() {
        let answer = std::str::from_utf8(TOO_MANY).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let declared = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        assert_eq!(declared, Some(body.len().to_string().as_str()));
    }
}
