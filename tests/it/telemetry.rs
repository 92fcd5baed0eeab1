//! What others learn about the gateway: metrics, spans, log lines, health.

pub(crate) mod collector;
mod health;
mod logs;
mod metrics;
#[cfg(feature = "otlp")]
mod traces;
