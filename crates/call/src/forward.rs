//! forward: the only place that calls a provider.

use std::panic::AssertUnwindSafe;

use callgate_gate::Permit;
use callgate_record::{Effect, Recorded};
use futures_util::FutureExt;

use crate::{Exchange, Failure, Providers, Reply};

/// Passes a recorded call to its provider, unless it was cancelled by then.
pub(crate) async fn forward(
    providers: &dyn Providers,
    call: Recorded<Permit>,
    exchange: Exchange,
) -> Result<Reply, Failure> {
    // The last check before the call leaves: from here on a cancelled call may have had an effect.
    if exchange.cancelled.is_cancelled() {
        let effect = Effect::None;
        return Err(Failure::Cancelled { effect });
    }
    let (server, host) = {
        let call = call.call();
        (call.target.server().clone(), call.attempt.host.clone())
    };
    // A reload can remove the server after the call was resolved.
    let Some(provider) = providers.provider(&server) else {
        let detail = "the server is no longer configured".to_owned();
        return Err(Failure::Unavailable {
            server,
            effect: Effect::None,
            detail,
        });
    };
    // A panic must not skip `finish`: the call would stay open in the record.
    let forwarding = async { provider.forward(call, exchange).await };
    let forwarded = AssertUnwindSafe(forwarding).catch_unwind().await;
    let reply = forwarded.unwrap_or(Err(Failure::Broken))?;
    // Here and not in a provider, so that no provider can name another one's resources.
    let owner = || host.identity.owner();
    let frame = providers.links().shown(reply.frame, &server, owner);
    Ok(Reply { frame, ..reply })
}
