//! Work of a run within a budget.

use callgate_agent::{Budget, Spending, Spent};

use super::{RunError, RunFrame};

/// Runs `work` in a frame of its own that counts against what is left of `budget`. `Err` says why the budget ended the
/// work.
pub(super) async fn budgeted<T, W: Future<Output = Result<T, RunError>>>(
    frame: &RunFrame,
    of: String,
    (budget, earlier): (Budget, Spent),
    work: impl FnOnce(RunFrame) -> W,
) -> Result<Result<T, RunError>, String> {
    if budget.is_unlimited() {
        return Ok(work(frame.clone()).await);
    }
    let spending = Spending::continued(of, budget, earlier, Some(frame.spending.clone()));
    let stop = frame.stop.child_token();
    let inner = RunFrame {
        stop: stop.clone(),
        spending: spending.clone(),
        ..frame.clone()
    };
    let working = work(inner);
    tokio::pin!(working);
    let done = tokio::select! {
        done = &mut working => done,
        () = spending.watch() => {
            stop.cancel();
            working.await
        }
    };
    match (done, spending.own_excess()) {
        // A run that its user stopped is not a failure, and can be resumed.
        (Err(RunError::Stopped), Some(why)) if !frame.stop.is_cancelled() => Err(why.to_owned()),
        (done, _) => Ok(done),
    }
}
