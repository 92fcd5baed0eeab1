//! A recorded call is forwarded once.

use callgate_call::{Exchange, Provider};
use callgate_gate::Permit;
use callgate_record::Recorded;

async fn twice(provider: &dyn Provider, recorded: Recorded<Permit>, exchange: Exchange) {
    let _ = provider.forward(recorded, exchange.clone()).await;
    let _ = provider.forward(recorded, exchange).await;
}

fn main() {
    let _ = twice;
}
