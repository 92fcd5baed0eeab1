//! One simulated machine: up to two gateways with one data folder, its disk and its clock.

mod calls;
mod cut;
mod dropping;

use std::sync::{Arc, Mutex};

use callgate_call::SealKey;
use callgate_memory::Memory;
use callgate_record::{Approvals, Backend as _, Store as _};
use callgate_store::{ApprovalStore, Disk, Durability, Log, OpenError, RealDisk};
use tempfile::TempDir;

use super::{
    approvals::{PromisedApprovals, SimApprovals},
    clock::SimClock,
    disk::{SimDisk, Weather},
    folder,
    found::Found,
    gateway::SimGateway,
    life::Life,
    model::{End, Model},
    random::Random,
};
use crate::{
    power::noted::NotedDisk,
    support::{assert_sound, event, options},
};

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
/// How long entries are kept.
const KEPT_DAYS: u32 = 90;
/// How far the clock jumps, there or back. The last ones are not believed at once.
const JUMPS: [i64; 8] = [1, 60, HOUR, DAY, 8 * DAY, 100 * DAY, 365 * DAY, 3650 * DAY];
/// A jump of the clock that must not be believed at once.
const FAR: i64 = 8 * DAY;
/// One seed in so many has approvals in a database: each process that opens it costs more than all its other steps.
const IN_DATABASE: u64 = 16;
/// One in so many has them in memory.
const IN_MEMORY: u64 = 3;

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
    found: Found,
    approvals: Kept,
    promised: Arc<Mutex<PromisedApprovals>>,
    seal_key: SealKey,
    /// How many calls hosts have made.
    calls: u64,
    /// When the clock last jumped far ahead.
    jumped_at: Option<i64>,
    /// How far it jumped ahead in steps that are believed.
    crept: i64,
    /// Whether the disk ever failed otherwise than by being full.
    has_failed: bool,
    is_cut: bool,
    tells: bool,
}

/// Where approvals are kept.
enum Kept {
    Nowhere,
    InMemory(Arc<dyn Approvals>),
    InDatabase,
}

struct Process {
    number: u64,
    gateway: SimGateway,
    log: Arc<Log>,
    life: Arc<Life>,
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Call,
    End,
    Event,
    Approval,
    Decide,
    Leave,
    Turn,
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
const STEPS: [(u64, Step); 15] = [
    (22, Step::Call),
    (16, Step::End),
    (3, Step::Event),
    (9, Step::Approval),
    (6, Step::Decide),
    (3, Step::Leave),
    (9, Step::Turn),
    (7, Step::Pass),
    (5, Step::Jump),
    (4, Step::Weather),
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
        let approvals = if random.below(IN_DATABASE) == 0 {
            Kept::InDatabase
        } else if random.below(IN_MEMORY) == 0 {
            Kept::InMemory(Memory::new().unwrap().open().unwrap().approvals)
        } else {
            Kept::Nowhere
        };
        let model = Model {
            is_power,
            ..Model::default()
        };
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
            model,
            found: Found::default(),
            approvals,
            promised: Arc::default(),
            seal_key: SealKey::random(),
            calls: 0,
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
        self.weather.spare();
        while let Some(process) = self.processes.pop() {
            process.gateway.drain(&process.log);
            self.processes.push(process);
            self.observe();
            let Some(process) = self.processes.pop() else {
                break;
            };
            if !process.life.is_over() {
                process.log.close().expect("a log on a sound disk closes");
                self.note_backlog_written(process.number);
            }
            self.end(process);
        }
        self.start();
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
            Step::Call => self.call("read"),
            Step::Approval => self.call("delete"),
            Step::End => self.act(),
            Step::Event => {
                let at = self.random.index(self.processes.len());
                let log = &self.processes[at].log;
                log.append_or_queue(event("something.happened"));
            }
            Step::Decide => {
                let at = self.random.index(self.processes.len());
                self.processes[at].gateway.decide(&mut self.random);
            }
            Step::Leave => self.leave(),
            Step::Turn => self.turn(),
            Step::Pass => {
                let far = *self.random.pick(&[10, HOUR, DAY, 40 * DAY]);
                let seconds = 1 + self.random.next().cast_signed().rem_euclid(far);
                self.clock.pass(seconds);
                for process in &self.processes {
                    process.gateway.pass(seconds.unsigned_abs());
                }
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
        self.observe();
        self.bury();
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

    /// Starts a gateway. Where the disk fails that, it is mended, and the next start works.
    fn start(&mut self) {
        let process = self.try_start().unwrap_or_else(|_| {
            self.calm();
            let mut tries = (0..3).map(|_| self.try_start());
            let started = tries.find_map(Result::ok);
            started.expect("a start on a sound disk works")
        });
        self.model.alive.insert(process.number);
        self.processes.push(process);
        self.check(!self.has_gap());
    }

    fn try_start(&mut self) -> Result<Process, OpenError> {
        let inner: Arc<dyn Disk> = match &self.noted {
            Some(noted) => noted.clone(),
            None => Arc::new(RealDisk),
        };
        let life = Arc::new(Life::default());
        let disk = SimDisk::new(inner, &self.weather, life.clone());
        let mut options = options(self.dir.path());
        options.durability = self.durability;
        options.segment_bytes = 6000;
        options.head_every = 5;
        options.clock = self.clock.clone();
        let log = Arc::new(Log::open_stepped(options, disk)?);
        self.started += 1;
        let kept: Option<Arc<dyn Approvals>> = match &self.approvals {
            Kept::Nowhere => None,
            Kept::InMemory(shared) => Some(shared.clone()),
            Kept::InDatabase => Some(Arc::new(ApprovalStore::new(
                self.dir.path(),
                Some(log.writer()),
            ))),
        };
        let approvals = kept.map(|inner| {
            let random = Random::new(self.random.next());
            let seen = SimApprovals::new(inner, life.clone(), self.promised.clone(), random);
            let wait = *self.random.pick(&[0, 0, 60]);
            (
                seen as Arc<dyn Approvals>,
                std::time::Duration::from_secs(wait),
            )
        });
        let around = (self.clock.clone(), life.clone());
        let gateway = SimGateway::start(log.clone(), around, &self.seal_key, approvals);
        Ok(Process {
            number: self.started,
            gateway,
            log,
            life,
        })
    }

    /// Compares the files with what was promised.
    fn check(&mut self, all_dead_are_closed: bool) {
        self.found.look(self.dir.path());
        self.model.check(&self.found.entries(), all_dead_are_closed);
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
        self.processes[at].life.end();
    }

    /// Removes the processes that have died.
    fn bury(&mut self) {
        while let Some(at) = self.processes.iter().position(|one| one.life.is_over()) {
            let process = self.processes.remove(at);
            self.end(process);
        }
    }

    /// The process is gone.
    fn end(&mut self, process: Process) {
        process.life.end();
        self.model.alive.remove(&process.number);
        drop(process);
        self.verify();
        self.check(false);
    }

    fn close(&mut self) {
        let at = self.random.index(self.processes.len());
        let process = &self.processes[at];
        process.gateway.drain(&process.log);
        let closed = process.log.close().is_ok();
        self.observe();
        if self.processes[at].life.is_over() {
            return;
        }
        let number = self.processes[at].number;
        if closed {
            self.note_backlog_written(number);
        }
        // What is owed cannot be written, or its last sync failed: the gateway ends all the same.
        let process = self.processes.remove(at);
        self.end(process);
    }
}
