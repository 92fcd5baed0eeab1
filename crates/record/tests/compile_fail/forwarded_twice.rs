//! A recorded call is forwarded once.

use callgate_gate::Permit;
use callgate_record::Recorded;

async fn twice<F: AsyncFn(Recorded<Permit>)>(forward: F, recorded: Recorded<Permit>) {
    forward(recorded).await;
    forward(recorded).await;
}

fn main() {
    let _ = twice::<fn(Recorded<Permit>) -> std::future::Ready<()>>;
}
