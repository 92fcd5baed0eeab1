//! Runs that are interrupted, resumed and looked at.

use callgate_workflow::{
    Event, Journal, JournalError, Resumption, RunError, RunReport, RunStatus, Status, runs,
};

use crate::stage::Stage;

const TEXT: &str = "
states:
  initial: a
  a: {type: command, command: 'echo a >> out; echo a', on_success: p}
  p: {type: parallel, branches: [b, c], on_success: l}
  b: {type: command, command: 'echo b >> out'}
  c: {type: command, command: 'echo c >> out; test ! -f hold || sleep 600'}
  l: {type: for_each, items: [1, 2], body: [d], on_success: e}
  d: {type: command, command: 'echo d{{.loop.item}} >> out'}
  e: {type: command, command: 'echo e{{.states.a.Output}} >> out; test ! -f red'}
";

fn sorted(stage: &Stage) -> Vec<String> {
    let mut lines: Vec<String> = stage.place.read("out").lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn a_stopped_run_resumes_where_it_stopped() {
    let mut stage = Stage::default();
    stage.place.file("hold", "");
    let journal = stage.journal(TEXT, &[], None);
    let run = journal.run.clone();
    let stop = stage.stop.clone();
    let events = stage.events.clone();
    let stopping = async {
        // Until the one branch is over and the other has begun.
        loop {
            let done = events
                .lock()
                .expect("no thread panicked")
                .iter()
                .any(|event| matches!(event, Event::StepFinished { step, .. } if step == "b"));
            if done && stage.place.read("out").contains('c') {
                break;
            }
            tokio::task::yield_now().await;
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(stage.walk(&journal), stopping);
    assert!(matches!(ended, Err(RunError::Stopped)), "{ended:?}");
    let busy = Journal::resume(stage.place.path(), &run, Resumption::default());
    assert!(matches!(busy, Err(JournalError::Busy(_))), "{busy:?}");
    drop(journal);
    let report = RunReport::of(stage.place.path(), &run).expect("it is there");
    assert_eq!(report.status, RunStatus::Interrupted);
    assert_eq!(report.open, ["p#1", "p#1/c#1"]);
    std::fs::remove_file(stage.place.path().join("hold")).expect("it is ours");
    stage.stop = Default::default();
    let journal = Journal::resume(stage.place.path(), &run, Resumption::default())
        .expect("it can be resumed");
    let ended = stage.walk(&journal).await.expect("it ends");
    assert_eq!(ended.status, Status::Success);
    assert_eq!(sorted(&stage), ["a", "b", "c", "c", "d1", "d2", "ea"]);
    drop(journal);
    let report = RunReport::of(stage.place.path(), &run).expect("it is there");
    assert_eq!(report.status, RunStatus::Success);
}

#[tokio::test]
async fn resuming_a_failed_run_retries_its_last_state() {
    let stage = Stage::default();
    stage.place.file("red", "");
    let journal = stage.journal(TEXT, &[], None);
    let run = journal.run.clone();
    let ended = stage.walk(&journal).await.expect("it ends");
    assert_eq!(ended.status, Status::Failure);
    drop(journal);
    std::fs::remove_file(stage.place.path().join("red")).expect("it is ours");
    let journal = Journal::resume(stage.place.path(), &run, Resumption::default())
        .expect("it can be resumed");
    let ended = stage.walk(&journal).await.expect("it ends");
    assert_eq!(ended.status, Status::Success);
    assert_eq!(sorted(&stage), ["a", "b", "c", "d1", "d2", "ea", "ea"]);
    drop(journal);
    let journal = Journal::resume(
        stage.place.path(),
        &run,
        Resumption {
            from: Some("p"),
            ..Resumption::default()
        },
    )
    .expect("it can be resumed");
    stage.walk(&journal).await.expect("it ends");
    let expected = ["a", "b", "c", "d1", "d1", "d2", "d2", "ea", "ea", "ea"];
    // The branches were over before the state around them was.
    assert_eq!(sorted(&stage), expected);
}

#[tokio::test]
async fn a_truncated_journal_line_is_ignored() {
    let stage = Stage::default();
    let journal = stage.journal(TEXT, &[], None);
    let run = journal.run.clone();
    stage.walk(&journal).await.expect("it ends");
    drop(journal);
    let file = stage
        .place
        .path()
        .join(format!("workflows/{run}/journal.jsonl"));
    let whole = std::fs::read(&file).expect("it is there");
    let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    for end in &ends[1..] {
        for cut in [end - 3, end + 1] {
            std::fs::write(&file, &whole[..cut]).expect("it is ours");
            std::fs::remove_file(stage.place.path().join("out")).ok();
            let kept = String::from_utf8_lossy(&whole[..cut]).into_owned();
            let is_over = |state: &str| {
                let mark = format!(r#""state":"{state}","outcome""#);
                kept.lines()
                    .any(|line| line.contains(&mark) && line.ends_with('}'))
            };
            let journal = Journal::resume(stage.place.path(), &run, Resumption::default())
                .expect("it is readable");
            let ended = stage.walk(&journal).await.expect("it ends");
            assert_eq!(ended.status, Status::Success);
            for (state, line) in [("a", "a"), ("b", "b"), ("c", "c"), ("e", "ea")] {
                let again = stage.place.read("out").lines().any(|one| one == line);
                assert_eq!(again, !is_over(state), "{state} after {cut} bytes");
            }
        }
    }
}

#[tokio::test]
async fn runs_are_listed_and_single_states_can_be_run() {
    let stage = Stage::default();
    let journal = stage.journal(TEXT, &[], Some("a"));
    let ended = stage.walk(&journal).await.expect("it ends");
    assert_eq!(
        (ended.status, ended.output.as_str()),
        (Status::Success, "a")
    );
    assert_eq!(stage.begun(), ["a#1.1"]);
    let second = stage.journal(TEXT, &[], None);
    let all = runs(stage.place.path());
    let seen: Vec<_> = all
        .iter()
        .map(|run| (run.run.as_str(), run.status))
        .collect();
    assert_eq!(
        seen,
        [
            (second.run.as_str(), RunStatus::Running),
            (journal.run.as_str(), RunStatus::Running)
        ]
    );
    for unknown in ["", "..", "x", "01ARZ3NDEKTSV4RRFFQ69G5FAV"] {
        let report = RunReport::of(stage.place.path(), unknown);
        assert!(matches!(report, Err(JournalError::Unknown(_))), "{unknown}");
    }
}

#[tokio::test]
async fn a_resumed_run_has_what_is_left_of_its_budgets() {
    let text = "
budget: {calls: 4}
states:
  initial: a
  a: {operation: p.a, on_success: l}
  l: {type: for_each, items: [1, 2], body: [b], budget: {calls: 2}, on_success: c}
  b: {operation: 'p.b', inputs: {item: '{{.loop.item}}'}}
  c: {operation: p.c, on_success: d}
  d: {operation: p.d, on_success: e}
  e: {operation: p.e}
";
    let stage = Stage::default();
    let fail = |operation: &str| {
        let mut fails = stage.fake.fails.lock().expect("no thread panicked");
        fails.push((operation.to_owned(), 1));
    };
    // One call of `a`, and one of `b` that fails in the first round.
    fail("b");
    let journal = stage.journal(text, &[], None);
    let run = journal.run.clone();
    let ended = stage.walk(&journal).await.expect("it comes to an end");
    assert_eq!(ended.message, "state `l` failed: b fails");
    drop(journal);
    let resumed = |fresh_budget: bool| {
        let resumption = Resumption {
            fresh_budget,
            ..Resumption::default()
        };
        Journal::resume(stage.place.path(), &run, resumption).expect("it can be resumed")
    };
    // The loop has one call left, and needs two.
    let journal = resumed(false);
    let ended = stage.walk(&journal).await.expect("it comes to an end");
    let why = "the budget of state `l` is used up: it allows 2 calls, and the agent made another";
    assert!(ended.message.contains(why), "{}", ended.message);
    drop(journal);
    // All of it again: the second round, then `c` fails.
    fail("c");
    let journal = resumed(true);
    let ended = stage.walk(&journal).await.expect("it comes to an end");
    assert_eq!(ended.message, "state `c` failed: c fails");
    drop(journal);
    // Two of four calls are left: enough for `c` and `d`, and not for `e`.
    let journal = resumed(false);
    let ended = stage.walk(&journal).await.expect("it comes to an end");
    let why =
        "the budget of workflow `flow` is used up: it allows 4 calls, and the agent made another";
    assert!(ended.message.contains(why), "{}", ended.message);
    let asked = stage.fake.lines();
    let of = |operation: &str| {
        asked
            .iter()
            .filter(|line| line.starts_with(operation))
            .count()
    };
    let counts = ["p.a", "p.b", "p.c", "p.d", "p.e"].map(of);
    assert_eq!(counts, [1, 3, 2, 1, 0]);
}
