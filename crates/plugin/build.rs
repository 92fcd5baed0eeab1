//! Compiles the protocol files with `protox`, so building needs no `protoc`.

use std::error::Error;

const PROTOS: [&str; 3] = [
    "proto/plugin.proto",
    "proto/handshake.proto",
    "proto/health.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    let compiled = protox::compile(PROTOS, ["proto"])?;
    tonic_prost_build::configure().compile_fds(compiled)?;
    println!("cargo::rerun-if-changed=proto");
    Ok(())
}
