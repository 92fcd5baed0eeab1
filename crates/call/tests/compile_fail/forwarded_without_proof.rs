//! A provider takes the proof and nothing less.

use callgate_call::{Exchange, Provider};
use callgate_gate::{Call, Permit};

async fn with_a_permit(provider: &dyn Provider, permit: Permit, exchange: Exchange) {
    let _ = provider.forward(permit, exchange).await;
}

async fn with_a_call(provider: &dyn Provider, call: Call, exchange: Exchange) {
    let _ = provider.forward(call, exchange).await;
}

fn main() {
    let _ = (with_a_permit, with_a_call);
}
