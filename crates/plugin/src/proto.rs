//! What is generated from `proto/`.

#![allow(
    clippy::all,
    clippy::too_many_lines,
    unreachable_pub,
    missing_debug_implementations
)]

/// A plugin's own services.
pub mod v1 {
    tonic::include_proto!("plugin.v1");
}

/// What go-plugin serves beside them.
pub mod go {
    tonic::include_proto!("plugin");
}

/// The health check.
pub mod health {
    tonic::include_proto!("grpc.health.v1");
}
