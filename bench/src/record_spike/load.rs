//! The client: connections that each call, wait for the reply and call again.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::ensure;
use tokio::task::JoinSet;

use super::Cell;
use super::proxy::Lines;

/// How hard and how long to call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    /// Size of a frame and number of connections.
    pub(super) cell: Cell,
    /// Calls in this time are made and not measured.
    pub(super) warm_up: Duration,
    /// The time after it.
    pub(super) measure: Duration,
}

/// What came of a load.
#[derive(Debug)]
pub(super) struct Driven {
    /// All calls, those of the warm-up among them.
    pub(super) calls: u64,
    /// The measured ones.
    pub(super) latencies: Latencies,
}

/// Latencies of the calls that began and ended in the measured time.
#[derive(Debug)]
pub(super) struct Latencies {
    sorted: Vec<Duration>,
    measure: Duration,
}

impl Latencies {
    /// The latency that the given share of calls did not exceed (nearest rank).
    pub(super) fn quantile(&self, share: f64) -> Duration {
        let rank = (share * self.sorted.len() as f64).ceil() as usize;
        self.sorted[rank.clamp(1, self.sorted.len()) - 1]
    }

    /// Measured calls per second.
    pub(super) fn calls_per_s(&self) -> f64 {
        self.sorted.len() as f64 / self.measure.as_secs_f64()
    }
}

/// Calls `addr` under `load` from the calling thread.
pub(super) fn drive(addr: SocketAddr, load: Load) -> anyhow::Result<Driven> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let mut connections = Vec::new();
        for _ in 0..load.cell.concurrency {
            connections.push(Lines::connect(addr).await?);
        }
        let from = Instant::now() + load.warm_up;
        let window = (from, from + load.measure);
        let mut clients = JoinSet::new();
        for connection in connections {
            clients.spawn(call_in_turn(
                connection,
                frame(load.cell.frame_bytes),
                window,
            ));
        }
        let mut calls = 0;
        let mut sorted = Vec::new();
        for client in clients.join_all().await {
            let (made, latencies) = client?;
            calls += made;
            sorted.extend(latencies);
        }
        ensure!(
            !sorted.is_empty(),
            "no call was answered in the measured time"
        );
        sorted.sort_unstable();
        let measure = load.measure;
        Ok(Driven {
            calls,
            latencies: Latencies { sorted, measure },
        })
    })
}

/// A tool call as one line of exactly `bytes` bytes.
pub(super) fn frame(bytes: usize) -> Vec<u8> {
    let head = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"create_issue","arguments":{"title":"a title","body":""#;
    let tail = "\"}}}\n";
    let body = bytes - head.len() - tail.len();
    let text = "some words of an issue's body ".chars().cycle().take(body);
    head.chars()
        .chain(text)
        .chain(tail.chars())
        .collect::<String>()
        .into_bytes()
}

async fn call_in_turn(
    mut connection: Lines,
    frame: Vec<u8>,
    (from, until): (Instant, Instant),
) -> anyhow::Result<(u64, Vec<Duration>)> {
    let mut calls = 0;
    let mut latencies = Vec::new();
    let mut reply = Vec::new();
    loop {
        let begin = Instant::now();
        if begin >= until {
            return Ok((calls, latencies));
        }
        connection.send(&frame).await?;
        ensure!(
            connection.next(&mut reply).await?,
            "hung up on during a call"
        );
        let end = Instant::now();
        ensure!(reply == frame, "the reply is not the echo of the call");
        calls += 1;
        if begin >= from && end <= until {
            latencies.push(end - begin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_one_json_line_of_the_asked_size() {
        for bytes in super::super::FRAME_BYTES {
            let frame = frame(bytes);
            assert_eq!(frame.len(), bytes);
            assert_eq!(
                frame.iter().position(|byte| *byte == b'\n'),
                Some(bytes - 1)
            );
            serde_json::from_slice::<serde_json::Value>(&frame).unwrap();
        }
    }

    #[test]
    fn quantiles_are_nearest_ranks() {
        let latencies = Latencies {
            sorted: (1..=200).map(Duration::from_micros).collect(),
            measure: Duration::from_millis(500),
        };
        assert_eq!(latencies.quantile(0.0), Duration::from_micros(1));
        assert_eq!(latencies.quantile(0.5), Duration::from_micros(100));
        assert_eq!(latencies.quantile(0.99), Duration::from_micros(198));
        assert_eq!(latencies.quantile(1.0), Duration::from_micros(200));
        assert_eq!(latencies.calls_per_s(), 400.0);
    }
}
