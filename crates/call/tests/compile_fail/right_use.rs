//! The right way: a call is decided, put on record, and handed to a provider, each once.

use callgate_call::{Exchange, Failure, Provider, Reply};
use callgate_gate::{Call, Facts, Policy, Verdict, decide};
use callgate_record::Recorder;

async fn one_way(call: Call, policy: &Policy, recorder: &Recorder, provider: &dyn Provider, exchange: Exchange) {
    let Verdict::Permit(permit) = decide(call, policy, &Facts::default()) else { return };
    let _read: (&Call, &str) = (permit.call(), permit.ruling().rule.as_str());
    let Ok((recorded, open)) = recorder.forwarding(permit).await else { return };
    let _read: &Call = recorded.call();
    let _replied: Result<Reply, Failure> = provider.forward(recorded, exchange).await;
    drop(open);
}

fn main() {
    let _ = one_way;
}
