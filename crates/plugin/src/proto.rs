//! Code generated from `proto/`.

#![allow(
    clippy::all,
    clippy::too_many_lines,
    unreachable_pub,
    missing_debug_implementations
)]

/// The services of a plugin.
pub mod v1 {
    tonic::include_proto!("plugin.v1");
}

/// go-plugin's own services.
pub mod go {
    tonic::include_proto!("plugin");
}

pub mod health {
    tonic::include_proto!("grpc.health.v1");
}
