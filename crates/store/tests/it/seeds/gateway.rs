//! A simulated gateway: the call path over a log, with hosts that call and go away.

use std::{collections::BTreeMap, panic::resume_unwind, sync::Arc, time::Duration};

use bytes::Bytes;
use callgate_call::{
    ApprovalService, ApprovalSettings, AskFailed, CallPath, Caller, Reading, Received, SealKey,
    Telemetry,
};
use callgate_gate::{CallerIdentity, Door, Grant, Host, Source, Transport};
use callgate_memory::MemoryLedger;
use callgate_record::{
    Answer, Approvals, Approver, DecisionChannel, OnFailure, Recorder, Redactor,
};
use callgate_store::Log;
use callgate_wire::{Era, Frame, Pieces, Strictness};
use futures_util::{FutureExt as _, future::BoxFuture};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
    time::{advance, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{clock::SimClock, life::Life, random::Random, servers::Servers};

/// The time for a decision, and how long one counts.
const EXPIRE_AFTER: Duration = Duration::from_secs(3600);
const VALID_FOR: Duration = Duration::from_secs(300);
/// What a refusal says when it cannot be put on record.
const NO_RECORD: &[u8] = b"deny:gateway:no_record";
/// How long draining waits for calls.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) struct SimGateway {
    // Dropped first, and never run again: tasks end where they are, as with a process.
    runtime: Runtime,
    path: CallPath,
    approval_service: Option<ApprovalService>,
    pub(super) servers: Arc<Servers>,
    hosts: BTreeMap<u64, JoinHandle<Option<Bytes>>>,
}

/// How a host's call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// It was not put on record, so it was not made.
    Unrecorded,
    Answered,
}

#[derive(Debug)]
struct Silent;

impl Caller for Silent {
    fn notify(&self, _notification: Bytes) {}

    fn ask(&self, _request: Frame) -> BoxFuture<'_, Result<Frame, AskFailed>> {
        Box::pin(async { Err(AskFailed::NoWay) })
    }
}

impl SimGateway {
    /// A gateway over `log`; with `approvals` it can hold calls, which then wait for `wait`.
    pub(super) fn start(
        log: Arc<Log>,
        (clock, life): (Arc<SimClock>, Arc<Life>),
        key: &SealKey,
        approvals: Option<(Arc<dyn Approvals>, Duration)>,
    ) -> Self {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let servers = Servers::new(life);
        let recorder = Recorder::new(log, Redactor::new(&[], 256).unwrap(), OnFailure::Refuse);
        let telemetry = Telemetry::default();
        let approval_service = approvals.map(|(store, wait)| {
            let settings = ApprovalSettings {
                wait,
                valid_for: VALID_FOR,
                expire_after: EXPIRE_AFTER,
                ..ApprovalSettings::default()
            };
            let events = telemetry.events.clone();
            ApprovalService::new(store, key, recorder.clone(), events, settings)
                .with_clock(clock.clone())
        });
        let path = CallPath::with_seal_key(key, servers.clone(), recorder, telemetry)
            .with_clock(clock)
            .with_ledger(Arc::new(MemoryLedger::default()));
        let path = match &approval_service {
            Some(service) => {
                runtime.spawn(service.clone().follow(CancellationToken::new()));
                path.with_approvals(service.clone())
            }
            None => path,
        };
        Self {
            runtime,
            path,
            approval_service,
            servers,
            hosts: BTreeMap::new(),
        }
    }

    /// A host calls a tool.
    pub(super) fn call(&mut self, key: u64, tool: &str, argument: u64) {
        let request = format!(
            r#"{{"jsonrpc":"2.0","id":{key},"method":"tools/call","params":{{"name":"fs__{tool}","arguments":{{"n":{argument}}}}}}}"#
        );
        let received = Received {
            frame: Frame::parse(Bytes::from(request), Strictness::Full).unwrap(),
            host: Arc::new(host()),
            door: Door {
                source: Source::Mcp,
                transport: Transport::Stdio,
            },
            trace: None,
            reading: Reading::Plain,
        };
        let mut pending = self.path.start(received, Arc::new(Silent));
        let answer = async move { pending.answer().await.map(Pieces::into_bytes) };
        self.hosts.insert(key, self.runtime.spawn(answer));
        self.settle();
    }

    /// A host goes away before it has its answer. Returns which call it had made.
    pub(super) fn leave(&mut self, random: &mut Random) -> Option<u64> {
        let keys: Vec<u64> = self.hosts.keys().copied().collect();
        if keys.is_empty() {
            return None;
        }
        let key = *random.pick(&keys);
        if let Some(host) = self.hosts.remove(&key) {
            host.abort();
        }
        self.settle();
        Some(key)
    }

    /// A person decides about one of the pending approvals.
    pub(super) fn decide(&self, random: &mut Random) {
        let Some(service) = &self.approval_service else {
            return;
        };
        let pending = service.list(callgate_record::ApprovalFilter::pending(), 100);
        let mut pending = self.runtime.block_on(pending).unwrap_or_default();
        if pending.is_empty() {
            return;
        }
        // By what was asked: ids are random.
        pending.sort_by(|one, other| one.asking.arguments.cmp(&other.asking.arguments));
        let answer = *random.pick(&[Answer::Approve, Answer::Approve, Answer::Deny]);
        let by = Approver {
            principal: "admin".to_owned(),
            person: None,
            tenant: None,
            way: DecisionChannel::Api,
        };
        let id = &random.pick(&pending).id;
        // It fails for one that has just expired, and on a store that fails.
        let _ = self.runtime.block_on(service.resolve(id, answer, by));
        self.settle();
    }

    /// The calls that were answered since this was asked before.
    pub(super) fn take_answers(&mut self) -> Vec<(u64, Told)> {
        let done = self.hosts.extract_if(.., |_, host| host.is_finished());
        let told = done.filter_map(|(key, host)| match host.now_or_never()? {
            Ok(Some(answer)) => {
                let is_unrecorded = memchr::memmem::find(&answer, NO_RECORD).is_some();
                let told = match is_unrecorded {
                    true => Told::Unrecorded,
                    false => Told::Answered,
                };
                Some((key, told))
            }
            Ok(None) => None,
            Err(error) => resume_unwind(error.into_panic()),
        });
        told.collect()
    }

    /// Time passes for what waits.
    pub(super) fn pass(&self, seconds: u64) {
        let passing = async { advance(Duration::from_secs(seconds)).await };
        self.runtime.block_on(passing);
        self.settle();
    }

    /// Runs until everything waits for the schedule.
    // The clock is paused: it goes on only when no task can run.
    pub(super) fn settle(&self) {
        let idle = async { sleep(Duration::from_millis(1)).await };
        self.runtime.block_on(idle);
    }

    /// Refuses new calls and waits for those that run, as a gateway does before it ends.
    pub(super) fn drain(&self, log: &Log) {
        let path = self.path.clone();
        let draining = self
            .runtime
            .spawn(async move { path.drain(PATIENCE).await });
        while !draining.is_finished() {
            log.turn();
            self.pass(1);
        }
    }
}

fn host() -> Host {
    Host {
        identity: CallerIdentity {
            tenant: "local".into(),
            principal: "user".into(),
            agent: "tester".into(),
            session: "s1".into(),
            grant: Grant::default(),
        },
        client_info: None,
        capabilities: "{}".into(),
        era: Era::Handshake,
    }
}
