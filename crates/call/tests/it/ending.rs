//! However a call ends (cancelled, abandoned, drained, broken), its end is put on record.

use std::{sync::Arc, time::Duration};

use callgate_call::{DrainDeadlines, Failure};
use callgate_gate::Listing;
use callgate_record::{Effect, Status};
use callgate_wire::Id;
use tokio::{sync::Notify, task::yield_now};

use crate::stage::{Act, Setting, Stage, YIELDS, give_way, json, listing, reply, tool_call};

const FINE: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
const LONG: Duration = Duration::from_secs(3600);

/// A provider that works until it is told to stop.
fn until_cancelled() -> Act {
    Box::new(|exchange| {
        Box::pin(async move {
            exchange.cancelled.cancelled().await;
            Err(Failure::Cancelled {
                effect: Effect::Unknown,
            })
        })
    })
}

/// A provider that answers when it is let go, and does not listen to anything else.
fn until_released(release: &Arc<Notify>) -> Act {
    let release = release.clone();
    Box::new(move |_| {
        let release = release.clone();
        Box::pin(async move {
            release.notified().await;
            Ok(reply(FINE))
        })
    })
}

/// A provider that works in small steps and looks up after each.
fn in_steps(heeds_cancellation: bool) -> Act {
    Box::new(move |exchange| {
        Box::pin(async move {
            for _ in 0..YIELDS {
                yield_now().await;
                if heeds_cancellation && exchange.cancelled.is_cancelled() {
                    return Err(Failure::Cancelled {
                        effect: Effect::Unknown,
                    });
                }
            }
            Ok(reply(FINE))
        })
    })
}

fn panics() -> Act {
    Box::new(|_| {
        Box::pin(async {
            yield_now().await;
            panic!("a fault of the provider")
        })
    })
}

/// How a call ends whose door goes away after the call's task had `turns` turns.
async fn dropped_after(turns: usize, heeds_cancellation: bool) -> Status {
    let connecting = Listing {
        tools: None,
        ..listing("fs", &[])
    };
    let setting = Setting {
        listings: vec![connecting],
        after_connect: Some(vec![listing("fs", &["read"])]),
        ..Setting::default()
    };
    let stage = setting.played_by(in_steps(heeds_cancellation));
    let pending = stage.start(&tool_call("7", "fs__read"));
    for _ in 0..turns {
        yield_now().await;
    }
    drop(pending);
    stage.path.drain(LONG).await;
    assert!(stage.path.registry().is_empty());
    let story = stage.journal.story();
    let ends = stage.journal.finished();
    let status = match ends.as_slice() {
        // It was not put on record as about to be forwarded.
        [] => {
            assert_eq!(story, ["owe refused Cancelled"], "after {turns} turns");
            Status::Cancelled
        }
        [end] => end.status,
        more => panic!("after {turns} turns: {more:?}"),
    };
    let is_reached = story.iter().any(|line| line == "reached");
    assert_eq!(is_reached, status != Status::Cancelled, "{story:?}");
    status
}

#[tokio::test]
async fn a_call_dropped_at_any_await_point_leaves_a_finished_record() {
    // More turns than the call has await points: connecting, settling, the provider, settling.
    let turns = 0..6 * YIELDS;
    let mut statuses = Vec::new();
    for turns in turns.clone() {
        let status = dropped_after(turns, true).await;
        let deaf = match status {
            Status::Cancelled => Status::Cancelled,
            _ => Status::Success,
        };
        let why = "a deaf provider has done what reached it";
        assert_eq!(dropped_after(turns, false).await, deaf, "{why}");
        statuses.push(status);
    }
    // First nothing was sent, then the outcome was not seen, then it was.
    let mut order = statuses.clone();
    order.dedup();
    assert_eq!(
        order,
        [Status::Cancelled, Status::Unknown, Status::Success],
        "{statuses:?}"
    );
    let done = statuses
        .iter()
        .position(|status| *status == Status::Success);
    assert!(done > Some(2 * YIELDS), "{statuses:?}");
}

#[tokio::test]
async fn a_cancelled_call_gets_no_answer_and_is_recorded_as_unknown() {
    let stage = Stage::played_by(until_cancelled());
    let mut pending = stage.start(&tool_call("7", "fs__read"));
    stage.reached(1).await;
    let registry = stage.path.registry();
    registry.cancel("s2", &Id::number(7));
    registry.cancel("s1", &Id::string("7"));
    registry.cancel_session("s2");
    give_way().await;
    assert_eq!(
        registry.len(),
        1,
        "another session's and another id's cancellation are not ours"
    );

    registry.cancel("s1", &Id::number(7));
    assert_eq!(pending.answer().await, None);
    assert_eq!(
        stage.journal.story(),
        [
            "append forwarding",
            "reached",
            "owe finished Unknown Unknown"
        ]
    );
    assert!(registry.is_empty());
}

#[tokio::test]
async fn a_closed_session_cancels_only_its_own_calls() {
    let stage = Stage::played_by(until_cancelled());
    let mut ours = [
        stage.start(&tool_call("1", "fs__read")),
        stage.start(&tool_call("2", "fs__read")),
    ];
    let other = stage.start_in("s2", &tool_call("1", "fs__read"));
    stage.reached(3).await;
    stage.path.registry().cancel_session("s1");
    for pending in &mut ours {
        assert_eq!(pending.answer().await, None);
    }
    assert_eq!(stage.path.registry().len(), 1);
    drop(other);
    stage.path.drain(LONG).await;
    assert_eq!(stage.journal.finished().len(), 3);
}

#[tokio::test]
async fn a_request_id_in_flight_cannot_be_reused() {
    let release = Arc::new(Notify::new());
    let stage = Stage::played_by(until_released(&release));
    let request = tool_call("7", "fs__read");
    let mut first = stage.start(&request);
    stage.reached(1).await;

    let mut second = stage.start(&request);
    let answer = json(&second.answer().await.unwrap());
    assert_eq!(
        (answer["id"].as_i64(), answer["error"]["code"].as_i64()),
        (Some(7), Some(-32600))
    );
    drop(second);
    assert_eq!(stage.frames().len(), 1);

    // Another session, or the same digits as a string, are other ids.
    let mut others = [
        stage.start_in("s2", &request),
        stage.start(&tool_call(r#""7""#, "fs__read")),
    ];
    stage.reached(3).await;
    release.notify_waiters();
    assert!(
        first.answer().await.is_some(),
        "the refused twin did not take the first one with it"
    );
    for other in &mut others {
        assert!(other.answer().await.is_some());
    }

    let mut again = stage.start(&request);
    stage.reached(4).await;
    release.notify_waiters();
    assert!(
        json(&again.answer().await.unwrap())["result"].is_object(),
        "a finished id is free again"
    );
    assert_eq!(stage.journal.finished().len(), 4);
    stage.journal.story();
}

#[tokio::test]
async fn a_panicking_provider_causes_an_error_and_an_unknown_outcome() {
    let stage = Stage::played_by(panics());
    for _ in 0..2 {
        let answer = stage.call("fs__read").await;
        assert_eq!(
            (answer["id"].as_i64(), answer["error"]["code"].as_i64()),
            (Some(7), Some(-32603))
        );
        assert_eq!(answer["error"]["data"]["effect"], "unknown");
        assert!(!answer.to_string().contains("fault"), "{answer}");
        assert!(stage.path.registry().is_empty());
    }
    let once = [
        "append forwarding",
        "reached",
        "owe finished Unknown Unknown",
    ];
    assert_eq!(stage.journal.story(), [once, once].concat());
}

#[tokio::test]
async fn draining_waits_for_calls_in_flight() {
    let release = Arc::new(Notify::new());
    let stage = Stage::played_by(until_released(&release));
    let mut pending = stage.start(&tool_call("7", "fs__read"));
    stage.reached(1).await;
    let path = stage.path.clone();
    let draining = tokio::spawn(async move { path.drain(LONG).await });
    give_way().await;
    assert!(!draining.is_finished());

    release.notify_waiters();
    draining.await.unwrap();
    assert_eq!(stage.journal.story()[2], "owe finished Success Done");
    assert!(pending.answer().await.is_some());
}

#[tokio::test]
async fn draining_cancels_calls_after_its_grace_period() {
    let stage = Stage::played_by(until_cancelled());
    let mut pending = stage.start(&tool_call("7", "fs__read"));
    stage.reached(1).await;
    stage.path.drain(Duration::ZERO).await;
    assert_eq!(stage.journal.story()[2], "owe finished Unknown Unknown");
    assert_eq!(pending.answer().await, None);
}

#[tokio::test]
async fn draining_abandons_calls_that_ignore_cancellation() {
    let release = Arc::new(Notify::new());
    let stage = Stage::played_by(until_released(&release));
    let _pending = stage.start(&tool_call("7", "fs__read"));
    stage.reached(1).await;
    let patience = DrainDeadlines {
        calls: Duration::ZERO,
        cancelled: Duration::from_millis(1),
    };
    assert_eq!(stage.path.drain(patience).await, 1);
    let ends = stage.journal.finished();
    assert!(ends.is_empty(), "nothing is claimed about how it ended");
}

#[tokio::test]
async fn calls_that_arrive_while_draining_are_refused() {
    let release = Arc::new(Notify::new());
    let stage = Stage::played_by(until_released(&release));
    let mut under_way = stage.start(&tool_call("7", "fs__read"));
    stage.reached(1).await;
    let path = stage.path.clone();
    let draining = tokio::spawn(async move { path.drain(LONG).await });
    give_way().await;

    let mut late = stage.start(&tool_call("8", "fs__read"));
    let answer = json(&late.answer().await.unwrap());
    assert_eq!(
        (answer["id"].as_i64(), answer["error"]["code"].as_i64()),
        (Some(8), Some(-32603))
    );
    assert_eq!(answer["error"]["data"]["effect"], "none");
    release.notify_waiters();
    assert_eq!(draining.await.unwrap(), 0);
    assert!(under_way.answer().await.is_some());
    assert_eq!(stage.frames().len(), 1);
    stage.journal.story();
}

#[tokio::test]
async fn draining_an_idle_path_ends_at_once() {
    let stage = Stage::played_by(until_cancelled());
    stage.path.drain(LONG).await;
    assert!(stage.journal.story().is_empty());
}

#[tokio::test]
async fn a_provider_panicking_before_its_first_await_is_handled_too() {
    let stage = Stage::played_by(Box::new(|_| panic!("a fault before the first await")));
    assert_eq!(stage.call("fs__read").await["error"]["code"], -32603);
    assert_eq!(stage.journal.story()[2], "owe finished Unknown Unknown");
}
