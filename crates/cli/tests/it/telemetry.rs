//! What others learn about the gateway: metrics, spans, log lines, health.

mod collector;
mod health;
mod logs;
mod metrics;
mod traces;
