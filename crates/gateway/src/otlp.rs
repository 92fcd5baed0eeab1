//! Spans to an OpenTelemetry collector: OTLP over HTTP, in batches, beside the calls.
//!
//! A collector that is slow, down or refusing costs spans and one log line, never a call.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use callgate_call::{Events, Spans, events::gateway::SpansNotExported};
use futures_util::future::BoxFuture;
use hyper::{Request, Response};
use opentelemetry::{KeyValue, global::BoxedTracer, trace::TracerProvider};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider},
};
use tokio::runtime::Handle;
use url::Url;

use callgate_config::Failed;

use crate::outbound::Outbound;

/// How often spans are sent; a full batch goes at once.
const BATCH_EVERY: Duration = Duration::from_secs(1);
/// How long a batch may take. A slow collector loses a batch rather than delaying the next ones.
const EXPORT_DEADLINE: Duration = Duration::from_secs(5);
/// How long the last batch may take when the gateway stops.
const LAST_BATCH_DEADLINE: Duration = Duration::from_secs(2);
/// The path of collectors whose address has none.
const USUAL_PATH: &str = "/v1/traces";

/// Exports spans to a collector until it is stopped.
#[derive(Debug)]
pub(crate) struct Exporter {
    provider: SdkTracerProvider,
}

impl Exporter {
    /// An exporter to the collector at `address`. It connects when the first batch is sent.
    pub(crate) fn start(address: &str, events: Events) -> Result<Self, Failed> {
        let failed = |what: String| Failed::config(format!("`telemetry.otlp`: {what}"));
        let endpoint = endpoint(address)?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Sender::new(&endpoint, events)?)
            .with_endpoint(endpoint)
            .with_timeout(EXPORT_DEADLINE)
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let resource = Resource::builder()
            .with_service_name("callgate")
            .with_attribute(version)
            .build();
        let batches = BatchConfigBuilder::default().with_scheduled_delay(BATCH_EVERY);
        let batching = BatchSpanProcessor::builder(exporter).with_batch_config(batches.build());
        let provider = SdkTracerProvider::builder()
            .with_span_processor(batching.build())
            .with_resource(resource)
            .build();
        Ok(Self { provider })
    }

    /// The spans of calls.
    pub(crate) fn spans(&self) -> Spans {
        let tracer = self.provider.tracer("callgate");
        Spans::of(BoxedTracer::new(Box::new(tracer)))
    }

    /// Sends the remaining spans and ends. Spans that the collector does not accept in time are lost.
    pub(crate) async fn stop(self) {
        let provider = self.provider;
        let stopped = tokio::task::spawn_blocking(move || {
            // A failed export was already logged when it failed.
            let _ = provider.shutdown_with_timeout(LAST_BATCH_DEADLINE);
        });
        if stopped.await.is_err() {
            crate::log::exporter_panicked();
        }
    }
}

/// Fails for an address that [`Exporter::start`] would refuse.
pub(crate) fn check(address: &str) -> Result<(), Failed> {
    endpoint(address).map(|_| ())
}

/// Checks an address, and adds the usual path where it has none.
fn endpoint(address: &str) -> Result<Url, Failed> {
    let wrong = |what: &str| {
        Failed::config(format!("`telemetry.otlp`: `{address}` {what}"))
            .help("write it like `http://127.0.0.1:4318`")
    };
    let mut url = Url::parse(address).map_err(|_| wrong("is not a URL"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("is neither http nor https"));
    }
    if matches!(url.path(), "" | "/") {
        url.set_path(USUAL_PATH);
    }
    Ok(url)
}

/// Sends batches on the gateway's runtime, because the SDK makes them on a thread without one.
#[derive(Debug)]
struct Sender {
    client: Outbound,
    runtime: Handle,
    events: Events,
    /// Whether the last batch failed: only the first failure in a row is logged.
    failing: Arc<AtomicBool>,
}

impl Sender {
    fn new(collector: &Url, events: Events) -> Result<Self, Failed> {
        Ok(Self {
            client: Outbound::new()?.to(collector)?,
            runtime: Handle::current(),
            events,
            failing: Arc::default(),
        })
    }
}

impl HttpClient for Sender {
    fn send_bytes<'me, 'sent>(
        &'me self,
        request: Request<Bytes>,
    ) -> BoxFuture<'sent, Result<Response<Bytes>, HttpError>>
    where
        'me: 'sent,
        Self: 'sent,
    {
        let client = self.client.clone();
        let sending = self.runtime.spawn(async move {
            let answer = client.send(request);
            let answered = tokio::time::timeout(EXPORT_DEADLINE, answer).await;
            match answered {
                Ok(answered) => answered.map_err(HttpError::from),
                Err(_) => {
                    Err(format!("the collector did not answer within {EXPORT_DEADLINE:?}").into())
                }
            }
        });
        Box::pin(async move {
            let answered = sending.await.unwrap_or_else(|error| Err(error.into()));
            let error = match &answered {
                Ok(response) if response.status().is_success() => None,
                Ok(response) => Some(format!("the collector answered {}", response.status())),
                Err(error) => Some(error.to_string()),
            };
            let was_failing = self.failing.swap(error.is_some(), Ordering::AcqRel);
            if let (Some(error), false) = (error, was_failing) {
                self.events.emit(SpansNotExported { error: &error });
            }
            answered
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn otlp_endpoints_without_a_path_get_the_default_one() {
        let cases = [
            ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
            ("http://127.0.0.1:4318/", "http://127.0.0.1:4318/v1/traces"),
            (
                "https://o.example/x/v1/traces",
                "https://o.example/x/v1/traces",
            ),
        ];
        for (address, expected) in cases {
            assert_eq!(
                endpoint(address).expect("it is an address").as_str(),
                expected
            );
        }
        for wrong in ["127.0.0.1:4318", "grpc://host:4317", ""] {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
    }
}
