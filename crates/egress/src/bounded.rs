//! Reports at a bounded rate. A client can make thousands of connections per second; each is counted, but beyond a limit they
//! are reported as sums, so that a flood fills no disk and buries nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use crate::{ConnectionLog, ConnectionReport, Destination, Outcome};

/// How many reports pass at once, and how many more per second. Refused and failed connections have a budget of their own, so
/// that they cannot push the reports of open ones into a sum.
const BURST: f64 = 32.0;
const PER_SECOND: f64 = 2.0;
/// How long reports are summed up.
const SUMMED_FOR: Duration = Duration::from_secs(10);
/// How many sums are kept at once. The others are summed up without their destination.
const MAX_SUMS: usize = 16;

/// The log of one proxy.
#[derive(Debug)]
pub(crate) struct BoundedLog {
    port: Arc<dyn ConnectionLog>,
    state: Mutex<State>,
    has_sums: Notify,
}

#[derive(Debug)]
struct State {
    open: Budget,
    refused: Budget,
    /// By outcome and destination, in the order of their first report.
    sums: Vec<ConnectionReport>,
    at: HashMap<(Outcome, Option<Destination>), usize>,
}

/// A bucket of permissions to report.
#[derive(Debug)]
struct Budget {
    left: f64,
    since: Instant,
}

impl BoundedLog {
    pub(crate) fn new(port: Arc<dyn ConnectionLog>) -> Self {
        let now = Instant::now();
        let full = || Budget {
            left: BURST,
            since: now,
        };
        Self {
            port,
            state: Mutex::new(State {
                open: full(),
                refused: full(),
                sums: Vec::new(),
                at: HashMap::new(),
            }),
            has_sums: Notify::new(),
        }
    }

    pub(crate) fn report(&self, report: ConnectionReport) {
        let passes = self.state().takes(&report, Instant::now());
        // Reported without the lock: the port writes to a file.
        if passes {
            self.port.report(&report);
        } else {
            self.state().add(report);
            self.has_sums.notify_one();
        }
    }

    /// Reports sums until `close` fires, and the last ones then.
    pub(crate) async fn report_sums(&self, close: CancellationToken) {
        while !close.is_cancelled() {
            tokio::select! {
                () = self.has_sums.notified() => {}
                () = close.cancelled() => break,
            }
            tokio::select! {
                () = sleep(SUMMED_FOR) => self.flush(),
                () = close.cancelled() => break,
            }
        }
    }

    /// Reports the sums up to now.
    pub(crate) fn flush(&self) {
        let sums = self.state().take_sums();
        sums.iter().for_each(|sum| self.port.report(sum));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn takes(&mut self, report: &ConnectionReport, now: Instant) -> bool {
        match report.outcome {
            Outcome::Opened | Outcome::Closed(_) => self.open.takes_one(now),
            Outcome::Refused(_) | Outcome::Failed(_) => self.refused.takes_one(now),
        }
    }

    fn add(&mut self, report: ConnectionReport) {
        let key = (report.outcome, report.destination.clone());
        let is_new = !self.at.contains_key(&key);
        let key = match is_new && self.sums.len() >= MAX_SUMS {
            true => (report.outcome, None),
            false => key,
        };
        match self.at.get(&key).and_then(|at| self.sums.get_mut(*at)) {
            Some(sum) => {
                sum.address = sum
                    .address
                    .filter(|address| report.address == Some(*address));
                sum.count += report.count;
                if let (Some(sum), Some(more)) = (&mut sum.traffic, report.traffic) {
                    sum.sent = sum.sent.saturating_add(more.sent);
                    sum.received = sum.received.saturating_add(more.received);
                    sum.duration = sum.duration.saturating_add(more.duration);
                }
            }
            None => {
                self.at.insert(key.clone(), self.sums.len());
                self.sums.push(ConnectionReport {
                    destination: key.1,
                    ..report
                });
            }
        }
    }

    fn take_sums(&mut self) -> Vec<ConnectionReport> {
        self.at.clear();
        std::mem::take(&mut self.sums)
    }
}

impl Budget {
    fn takes_one(&mut self, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        self.left = (self.left + passed * PER_SECOND).min(BURST);
        self.since = now;
        let has_one = self.left >= 1.0;
        if has_one {
            self.left -= 1.0;
        }
        has_one
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{End, Refusal, Traffic};

    #[derive(Debug, Default)]
    struct Kept(Mutex<Vec<ConnectionReport>>);

    impl ConnectionLog for Kept {
        fn report(&self, report: &ConnectionReport) {
            self.0.lock().unwrap().push(report.clone());
        }
    }

    impl Kept {
        fn count(&self, outcome: Outcome) -> u64 {
            let kept = self.0.lock().unwrap();
            let same = kept.iter().filter(|report| report.outcome == outcome);
            same.map(|report| report.count).sum()
        }
    }

    fn refused(host: &str) -> ConnectionReport {
        let destination = Destination::from_authority(host, None).ok();
        ConnectionReport::new(Outcome::Refused(Refusal::NotListed), destination)
    }

    fn closed(sent: u64) -> ConnectionReport {
        let traffic = Traffic {
            sent,
            received: 1,
            duration: Duration::from_secs(1),
        };
        let destination = Destination::from_authority("a:1", None).ok();
        ConnectionReport {
            traffic: Some(traffic),
            ..ConnectionReport::new(Outcome::Closed(End::Finished), destination)
        }
    }

    #[tokio::test]
    async fn a_flood_of_refusals_is_counted_and_not_reported_one_by_one() {
        let kept = Arc::new(Kept::default());
        let log = BoundedLog::new(kept.clone());
        for n in 0..10_000 {
            log.report(refused(&format!("host-{}.example:443", n % 100)));
        }
        log.report(ConnectionReport::new(Outcome::Opened, None));
        log.flush();
        let reports = kept.0.lock().unwrap().len();
        assert!(reports < 32 + MAX_SUMS + 50, "{reports}");
        assert_eq!(kept.count(Outcome::Refused(Refusal::NotListed)), 10_000);
        let opened: Vec<_> = {
            let kept = kept.0.lock().unwrap();
            let opened = kept
                .iter()
                .filter(|report| report.outcome == Outcome::Opened);
            opened.cloned().collect()
        };
        assert_eq!(opened.len(), 1, "it has a budget of its own");
        assert_eq!(opened[0].count, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn sums_have_all_bytes_and_are_reported_while_the_proxy_runs() {
        let kept = Arc::new(Kept::default());
        let log = Arc::new(BoundedLog::new(kept.clone()));
        let close = CancellationToken::new();
        let reporting = tokio::spawn({
            let (log, close) = (log.clone(), close.clone());
            async move { log.report_sums(close).await }
        });
        for _ in 0..132 {
            log.report(closed(10));
        }
        sleep(SUMMED_FOR + Duration::from_secs(1)).await;
        let last = kept.0.lock().unwrap().last().cloned().expect("a report");
        assert_eq!(last.count, 100);
        let traffic = last.traffic.expect("it was open");
        assert_eq!((traffic.sent, traffic.received), (1000, 100));
        assert_eq!(traffic.duration, Duration::from_secs(100));
        assert_eq!(
            last.to_string(),
            "outcome=closed host=a port=1 sent=1000 received=100 duration_ms=100000 count=100"
        );
        close.cancel();
        reporting.await.unwrap();
    }
}
