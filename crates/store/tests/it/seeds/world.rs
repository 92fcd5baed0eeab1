//! One simulated machine: up to two processes with one data folder, its disk and its clock.

mod cut;
mod dropping;

use std::{sync::Arc, thread};

use callgate_gate::CallId;
use callgate_record::{Approvals as _, Clock as _, Store as _};
use callgate_store::{ApprovalStore, Disk, Durability, Log, RealDisk};
use futures_util::FutureExt as _;
use tempfile::TempDir;
use ulid::Ulid;

use super::{
    approvals::PromisedApprovals,
    clock::SimClock,
    disk::{SimDisk, Weather},
    folder,
    model::{Answer, CallState, End, Model},
    random::Random,
};
use crate::{
    power::noted::NotedDisk,
    support::{assert_sound, event, finished, forwarding, new_id, options},
};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
/// How long entries are kept.
const KEPT_DAYS: u32 = 90;
/// How far the clock jumps, there or back. The last ones are not believed at once.
const JUMPS: [i64; 8] = [1, 60, HOUR, DAY, 8 * DAY, 100 * DAY, 365 * DAY, 3650 * DAY];
/// A jump of the clock that must not be believed at once.
const FAR: i64 = 8 * DAY;
/// One seed in so many has approvals: each process that opens their database costs more than all its other steps.
const WITH_APPROVALS: u64 = 4;

pub(super) struct World {
    random: Random,
    dir: TempDir,
    clock: Arc<SimClock>,
    weather: Arc<Weather>,
    durability: Durability,
    noted: Option<Arc<NotedDisk>>,
    processes: Vec<Process>,
    started: u64,
    model: Model,
    approvals: Option<PromisedApprovals>,
    /// When the clock last jumped far ahead.
    jumped_at: Option<i64>,
    /// How far it jumped ahead in steps that are believed.
    crept: i64,
    /// Whether the disk ever failed otherwise than by being full.
    has_failed: bool,
    is_cut: bool,
    tells: bool,
}

struct Process {
    number: u64,
    log: Log,
    disk: Arc<SimDisk>,
    approvals: Option<ApprovalStore>,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Call,
    End,
    Event,
    Approval,
    Decide,
    Pass,
    Jump,
    Weather,
    Fill,
    Crash,
    Close,
    Start,
    Retain,
}

/// How often each step comes, in a hundred.
const STEPS: [(u64, Step); 13] = [
    (30, Step::Call),
    (18, Step::End),
    (5, Step::Event),
    (8, Step::Approval),
    (5, Step::Decide),
    (8, Step::Pass),
    (5, Step::Jump),
    (5, Step::Weather),
    (3, Step::Fill),
    (3, Step::Crash),
    (3, Step::Close),
    (2, Step::Start),
    (5, Step::Retain),
];

impl World {
    pub(super) fn new(seed: u64, dir: TempDir) -> Self {
        let mut random = Random::new(seed);
        let is_power = random.happens(300);
        let noted = is_power.then(|| NotedDisk::new(dir.path()));
        let weather = Weather::new(Random::new(random.next()), is_power);
        let has_approvals = random.below(WITH_APPROVALS) == 0;
        Self {
            random,
            dir,
            clock: Arc::default(),
            weather,
            durability: match is_power {
                true => Durability::Power,
                false => Durability::Process,
            },
            noted,
            processes: Vec::new(),
            started: 0,
            model: Model::default(),
            approvals: has_approvals.then(PromisedApprovals::default),
            jumped_at: None,
            crept: 0,
            has_failed: false,
            is_cut: false,
            tells: false,
        }
    }

    /// Prints every step.
    pub(super) fn tell(mut self) -> Self {
        self.tells = true;
        self
    }

    pub(super) fn live(mut self) {
        self.start();
        let steps = 20 + self.random.below(60);
        for at in 0..steps {
            let step = self.next_step();
            if self.tells {
                println!("{at}: {step:?}, {} processes", self.processes.len());
            }
            self.take(step);
        }
        if self.noted.is_some() {
            self.cut_power();
        }
        self.calm();
        while let Some(process) = self.processes.pop() {
            process.log.close().expect("a log on a sound disk closes");
            self.model.alive.remove(&process.number);
            self.note_backlog_written(process.number);
        }
        self.start();
        self.model.check(self.dir.path(), !self.has_gap());
        self.verify();
    }

    fn next_step(&mut self) -> Step {
        let mut at = self.random.below(100);
        for (often, step) in STEPS {
            match at.checked_sub(often) {
                Some(rest) => at = rest,
                None => return step,
            }
        }
        unreachable!("the steps are a hundred in a hundred")
    }

    fn take(&mut self, step: Step) {
        if self.processes.is_empty() {
            self.start();
        }
        match step {
            Step::Call => self.call(),
            Step::End => self.end(),
            Step::Event => {
                let at = self.random.index(self.processes.len());
                self.queue(at, event("something.happened"));
            }
            Step::Approval => self.ask(),
            Step::Decide => self.decide(),
            Step::Pass => {
                let far = *self.random.pick(&[10, HOUR, DAY, 40 * DAY]);
                self.clock
                    .pass(1 + self.random.next().cast_signed().rem_euclid(far));
            }
            Step::Jump => self.jump(),
            Step::Weather => {
                self.weather.fail(*self.random.pick(&[0, 0, 50, 300, 1000]));
                self.weather.fail_syncs(self.random.happens(200));
                self.has_failed |= !self.weather.is_clear();
            }
            Step::Fill => self.weather.fill(self.random.happens(500)),
            Step::Crash => self.crash(),
            Step::Close => self.close(),
            Step::Start if self.processes.len() < 2 => self.start(),
            Step::Start => {}
            Step::Retain => self.retain(),
        }
    }

    fn verify(&self) {
        if !self.has_gap() {
            assert_sound(self.dir.path());
        }
    }

    /// Whether entries can be missing that a later one follows: a sync failed, and then the power. `verify` tells that
    /// they are missing; it is promised only that no answered call is.
    fn has_gap(&self) -> bool {
        self.is_cut && self.weather.has_failed_sync()
    }

    fn calm(&mut self) {
        self.weather.fail(0);
        self.weather.fail_syncs(false);
        self.weather.fill(false);
    }

    /// Starts a process. Where the disk fails that, it is mended, and the next start works.
    fn start(&mut self) {
        let process = self.try_start().unwrap_or_else(|_| {
            self.calm();
            self.try_start().expect("a start on a sound disk works")
        });
        self.model.alive.insert(process.number);
        self.processes.push(process);
        self.model.check(self.dir.path(), !self.has_gap());
    }

    fn try_start(&mut self) -> Result<Process, callgate_store::OpenError> {
        let inner: Arc<dyn Disk> = match &self.noted {
            Some(noted) => noted.clone(),
            None => Arc::new(RealDisk),
        };
        let disk = SimDisk::new(inner, &self.weather);
        let mut options = options(self.dir.path());
        options.durability = self.durability;
        options.segment_bytes = 3000;
        options.head_every = 5;
        options.clock = self.clock.clone();
        let log = Log::open_on(options, disk.clone())?;
        self.started += 1;
        let writer = log.writer();
        let store = || ApprovalStore::new(self.dir.path(), Some(writer));
        Ok(Process {
            number: self.started,
            log,
            disk,
            approvals: self.approvals.as_ref().map(|_| store()),
        })
    }

    fn call(&mut self) {
        let at = self.random.index(self.processes.len());
        let id = new_id();
        let answer = self.forward(at, id);
        self.note_call(at, id, answer);
    }

    /// Puts a call on record, and waits until it is answered.
    fn forward(&mut self, at: usize, id: CallId) -> Answer {
        let process = &self.processes[at];
        let Ok(position) = process.log.append(&forwarding(id)) else {
            return Answer::Refused;
        };
        let mut settled = process.log.settled(position);
        loop {
            match (&mut settled).now_or_never() {
                Some(Ok(())) => return Answer::Taken,
                Some(Err(_)) => return Answer::Unknown,
                None => thread::yield_now(),
            }
        }
    }

    fn note_call(&mut self, at: usize, id: CallId, answer: Answer) {
        self.note_backlog(at);
        let call = CallState {
            process: self.processes[at].number,
            answer,
            end: End::Open,
            began: self.clock.passed(),
            is_dropped: false,
        };
        self.model.calls.insert(id.to_string(), call);
    }

    fn end(&mut self) {
        let open = self.model.calls.iter().filter(|(_, call)| {
            call.answer == Answer::Taken
                && call.end == End::Open
                && self.model.alive.contains(&call.process)
        });
        let open: Vec<_> = open.map(|(id, call)| (id.clone(), call.process)).collect();
        if open.is_empty() {
            return;
        }
        let (id, number) = self.random.pick(&open).clone();
        let at = self.processes.iter().position(|one| one.number == number);
        let at = at.unwrap();
        let written = self.queue(at, finished(CallId(Ulid::from_string(&id).unwrap())));
        // Also on a full disk.
        assert!(
            written || self.has_failed,
            "the end of call {id} has its room"
        );
        let call = self.model.calls.get_mut(&id).unwrap();
        call.end = match written {
            true => End::Written,
            false => End::Queued,
        };
    }

    /// Gives the log an entry that cannot be refused; returns whether it was written at once.
    fn queue(&mut self, at: usize, entry: callgate_record::Entry) -> bool {
        let process = &self.processes[at];
        let before = process.disk.by_keeper();
        let written = process.log.append_or_queue(entry).is_some();
        if !written {
            // The log's thread tries at once. Once it has, trying again changes nothing.
            while process.disk.by_keeper() == before {
                thread::yield_now();
            }
        }
        self.note_backlog(at);
        written
    }

    /// Without a backlog, all that was queued is written.
    fn note_backlog(&mut self, at: usize) {
        let process = &self.processes[at];
        if process.log.backlog() == 0 {
            self.note_backlog_written(process.number);
        }
    }

    fn note_backlog_written(&mut self, process: u64) {
        let own = self.model.calls.values_mut();
        for call in own.filter(|call| call.process == process && call.end == End::Queued) {
            call.end = End::Written;
        }
    }

    fn ask(&mut self) {
        let Some(promised) = &mut self.approvals else {
            return self.call();
        };
        let at = self.random.index(self.processes.len());
        let (id, now) = (new_id(), self.clock.now());
        let Some(store) = &self.processes[at].approvals else {
            return;
        };
        let Some(claim) = promised.ask(store, &mut self.random, (id, now)) else {
            return;
        };
        // A process can die between each two of these steps.
        if self.random.happens(100) {
            return self.kill(at);
        }
        let answer = self.forward(at, id);
        self.note_call(at, id, answer);
        let store = self.processes[at].approvals.as_ref().unwrap();
        match answer {
            Answer::Refused => store.give_back(&claim.id).unwrap(),
            Answer::Taken | Answer::Unknown => {
                self.approvals.as_mut().unwrap().used(&claim);
                if self.random.happens(100) {
                    return self.kill(at);
                }
                store.used(&claim.id).unwrap();
            }
        }
    }

    fn decide(&mut self) {
        let at = self.random.index(self.processes.len());
        let now = self.clock.now();
        if let (Some(promised), Some(store)) = (&mut self.approvals, &self.processes[at].approvals)
        {
            promised.decide(store, &mut self.random, now);
        }
    }

    fn jump(&mut self) {
        let far = *self.random.pick(&JUMPS);
        let ahead = self.random.happens(500);
        if ahead && far >= FAR {
            self.jumped_at = Some(self.clock.passed());
        } else if ahead {
            self.crept += far;
        }
        self.clock.jump(if ahead { far } else { -far });
        // A clock that was set back and comes back by itself has jumped ahead, too.
        if !ahead {
            self.jumped_at = self.jumped_at.map(|_| self.clock.passed());
        }
    }

    fn crash(&mut self) {
        let at = self.random.index(self.processes.len());
        self.kill(at);
    }

    fn kill(&mut self, at: usize) {
        let process = self.processes.remove(at);
        process.disk.kill();
        self.model.alive.remove(&process.number);
        drop(process);
        self.verify();
        self.model.check(self.dir.path(), false);
    }

    fn close(&mut self) {
        let at = self.random.index(self.processes.len());
        if self.processes[at].log.close().is_err() {
            return match self.durability {
                // What is owed cannot be written: the log stays open.
                Durability::Process => self.note_backlog(at),
                // Or its last sync failed, which cannot be tried again.
                Durability::Power => self.kill(at),
            };
        }
        let process = self.processes.remove(at);
        self.note_backlog_written(process.number);
        self.model.alive.remove(&process.number);
        drop(process);
        self.verify();
        self.model.check(self.dir.path(), false);
    }
}
