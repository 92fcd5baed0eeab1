//! Short requests of the gateway's own: batches of spans to a collector, messages to webhooks.

use bytes::Bytes;
use callgate_outbound::{Client, HttpError, read_body};
use http_body_util::Full;
use hyper::{Request, Response, Uri};
use url::Url;

use callgate_config::Failed;

/// The answers to such requests are short.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unanswered {
    /// The request failed, or the response was cut off.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The answer is over the limit.
    #[error("the answer is longer than {MAX_ANSWER_BYTES} bytes")]
    TooLong,
}

/// A client for one address. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Outbound {
    client: Client,
}

impl Outbound {
    /// Reads the system's certificates.
    pub(crate) fn new() -> Result<Self, Failed> {
        let client = Client::new().map_err(untrusted)?;
        Ok(Self { client })
    }

    /// A client for another address, with the same certificates. Fails if the address needs certificates and none are
    /// installed.
    pub(crate) fn to(&self, url: &Url) -> Result<Self, Failed> {
        // The message leaves out the URL, which may contain a secret.
        let wrong = |error| Failed::config(format!("a configured URL is invalid: {error}"));
        let uri: Uri = url.as_str().parse().map_err(wrong)?;
        self.client
            .can_verify_certificates(&uri)
            .map_err(untrusted)?;
        Ok(Self {
            client: self.client.for_another_server(),
        })
    }

    /// Sends a request and reads its answer. The caller sets the deadline.
    pub(crate) async fn send(
        &self,
        request: Request<Bytes>,
    ) -> Result<Response<Bytes>, Unanswered> {
        let response = self.client.send_to_url(request.map(Full::new)).await?;
        let (head, body) = response.into_parts();
        let body = read_body(body, MAX_ANSWER_BYTES).await?;
        Ok(Response::from_parts(head, body.ok_or(Unanswered::TooLong)?))
    }
}

fn untrusted(error: HttpError) -> Failed {
    match error {
        HttpError::NoRoots(why) => {
            Failed::system(format!("cannot load the system's certificates: {why}"))
        }
        other => Failed::system(other.to_string()),
    }
}
