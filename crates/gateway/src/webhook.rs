//! POST requests to webhooks, signed where there is a secret.

use std::time::Duration;

use bytes::Bytes;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::{Method, Request, header};
use jiff::Timestamp;
use sha2::Sha256;
use url::Url;

use callgate_config::Failed;

use crate::outbound::Outbound;

/// The deadline of one request.
const DEADLINE: Duration = Duration::from_secs(5);

/// A webhook and its client.
#[derive(Debug)]
pub(crate) struct Hook {
    outbound: Outbound,
    url: Url,
    secret: Option<String>,
}

/// What a request is about.
#[derive(Debug)]
pub(crate) struct Delivery<'a> {
    pub(crate) event: &'static str,
    /// The same in each request about the same thing.
    pub(crate) id: &'a str,
    pub(crate) body: &'a Bytes,
}

impl Hook {
    pub(crate) fn new(
        outbound: &Outbound,
        url: Url,
        secret: Option<String>,
    ) -> Result<Self, Failed> {
        Ok(Self {
            outbound: outbound.to(&url)?,
            url,
            secret,
        })
    }

    /// The host alone: the path of a webhook is often a secret.
    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Sends one request; the reason if the webhook did not accept it.
    pub(crate) async fn post(&self, delivery: Delivery<'_>) -> Result<(), String> {
        let timestamp = Timestamp::now().as_second().to_string();
        let body = delivery.body;
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(self.url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header("X-Callgate-Event", delivery.event)
            .header("X-Callgate-Delivery", delivery.id)
            .header("X-Callgate-Timestamp", &timestamp);
        if let Some(secret) = &self.secret {
            request = request.header("X-Callgate-Signature", signature(secret, &timestamp, body));
        }
        let request = request
            .body(body.clone())
            .map_err(|error| error.to_string())?;
        match tokio::time::timeout(DEADLINE, self.outbound.send(request)).await {
            Ok(Ok(response)) if response.status().is_success() => Ok(()),
            Ok(Ok(response)) => Err(format!("the webhook answered {}", response.status())),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("the webhook did not answer within {DEADLINE:?}")),
        }
    }
}

/// HMAC-SHA-256 over the time and the body, so that the body cannot be changed and an old message cannot be
/// replayed as a new one.
fn signature(secret: &str, timestamp: &str, body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes());
    let mac = mac.expect("HMAC takes a key of any length");
    let mac = mac
        .chain_update(timestamp)
        .chain_update(".")
        .chain_update(body);
    let hex = mac.finalize().into_bytes();
    let hex: String = hex.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_covers_time_and_body() {
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac key
        let expected = "sha256=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae";
        let made = signature("key", "1700000000", b"{}");
        assert_eq!(made, expected);
        assert_ne!(made, signature("key", "1700000001", b"{}"));
        assert_ne!(made, signature("key", "1700000000", b"{ }"));
        assert_ne!(made, signature("other", "1700000000", b"{}"));
    }
}
