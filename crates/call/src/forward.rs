//! forward: the provider does the call. This is the only place that reaches one.

use std::panic::AssertUnwindSafe;

use callgate_gate::Permit;
use callgate_record::{Effect, Recorded};
use futures_util::FutureExt;

use crate::{Exchange, Failure, Providers, Reply};

/// Hands a recorded call to its provider, unless it was cancelled by then. A provider that panics is a failed call, not a
/// lost one.
pub(crate) async fn forward(
    providers: &dyn Providers,
    call: Recorded<Permit>,
    exchange: Exchange,
) -> Result<Reply, Failure> {
    if exchange.cancelled.is_cancelled() {
        let effect = Effect::None;
        return Err(Failure::Cancelled { effect });
    }
    let server = call.call().target.server().clone();
    let Some(provider) = providers.provider(&server) else {
        let detail = "the server is not configured any more".to_owned();
        return Err(Failure::Unavailable {
            server,
            effect: Effect::None,
            detail,
        });
    };
    let forwarding = async { provider.forward(call, exchange).await };
    let forwarded = AssertUnwindSafe(forwarding).catch_unwind().await;
    forwarded.unwrap_or(Err(Failure::Broken))
}
