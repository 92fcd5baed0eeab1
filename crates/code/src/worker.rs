//! The worker: a process that runs one script after another, each in a fresh interpreter, and has only two pipes.
//!
//! It exits when its input ends, when a script exceeds its CPU time and the interpreter does not notice, and when
//! memory runs out. The pool then starts another one.

#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
pub mod probe;
mod watch;

use std::{
    collections::VecDeque,
    io::{self, Read, Stdin, Write},
    os::fd::AsFd,
    process::{ExitCode, exit},
    sync::Arc,
    thread,
    time::Duration,
};

use callgate_spin::Spin;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{
    HostCall, Outcome,
    engine::{Engine, HostChannel, HostGone, Monty, Work},
    frames::{self, EXIT_INTERPRETER_FAILED, Failed, FromWorker, MAX_FRAME_BYTES, Start, ToWorker},
    prepare,
};
use watch::Watch;

/// How long a worker spins for an answer before it sleeps.
const SPIN: Duration = Duration::from_micros(200);
/// Stack for the interpreter's recursion. It does not count as the script's memory.
pub(crate) const STACK_BYTES: usize = 64 * 1024 * 1024;

/// Runs scripts from standard input until it ends. `memory_bytes` is the limit for scripts.
pub fn main(memory_bytes: u64) -> ExitCode {
    // Before the sandbox closes: afterwards the number of processors cannot be read any more.
    let spin = Spin::new(SPIN);
    #[cfg(target_os = "linux")]
    if confine::confine(memory_bytes).is_err() {
        return ExitCode::FAILURE;
    }
    #[cfg(not(target_os = "linux"))]
    let _ = memory_bytes;
    let watch = Arc::new(Watch::default());
    let watching = watch.clone();
    let watcher = thread::Builder::new()
        .stack_size(256 * 1024)
        .spawn(move || watching.run());
    let runner = thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || {
            #[cfg(target_os = "linux")]
            if confine::filter_calls().is_err() {
                exit(1);
            }
            serve(&watch, spin);
        });
    match (watcher, runner) {
        (Ok(_), Ok(runner)) => match runner.join() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => exit(EXIT_INTERPRETER_FAILED),
        },
        _ => ExitCode::FAILURE,
    }
}

fn serve(watch: &Watch, spin: Spin) {
    let mut pipe = Pipe {
        input: io::stdin(),
        watch,
        spin,
        read: Vec::new(),
        answers: VecDeque::new(),
    };
    if pipe.send(&FromWorker::Ready).is_err() {
        return;
    }
    loop {
        let start = match pipe.receive(Wait::Asleep) {
            Ok(ToWorker::Start(start)) => start,
            // An answer for the previous run, which ended without waiting for it.
            Ok(ToWorker::Answer { .. }) => continue,
            Err(HostGone) => return,
        };
        pipe.answers.clear();
        watch.begin(start.limits.cpu);
        let ended = run(*start, &mut pipe);
        watch.end();
        let sent = match ended {
            Ok(frame) => pipe.send(&frame),
            Err(HostGone) => return,
        };
        if sent.is_err() {
            return;
        }
    }
}

fn run(start: Start, pipe: &mut Pipe<'_>) -> Result<FromWorker, HostGone> {
    let Start {
        source,
        packs,
        local,
        limits,
        now_us,
    } = start;
    let failed = |message, line| {
        FromWorker::Failed(Failed {
            printed: String::new(),
            message,
            line,
            is_spent: false,
        })
    };
    let local = match prepare::packs(&local, &packs, &limits) {
        Ok(local) => local,
        Err((name, refused)) => {
            let line = refused
                .line
                .map_or(String::new(), |line| format!(", line {line}"));
            let message = format!(
                "the local pack `{name}` cannot be used{line}: {}",
                refused.message
            );
            return Ok(failed(message, None));
        }
    };
    let script = match prepare::script(&source, &packs, &local, &limits) {
        Ok(script) => script,
        Err(refused) => return Ok(failed(refused.message, refused.line)),
    };
    let work = Work {
        script,
        local,
        packs,
        limits,
        now_us,
    };
    Ok(match Monty.run(&work, pipe)? {
        Ok(done) => FromWorker::Done(done),
        Err(failed) => FromWorker::Failed(failed),
    })
}

/// How to wait for the next frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// Spin first: an answer usually follows soon.
    Spinning,
    /// Sleep: the next script may be far away.
    Asleep,
}

/// The two pipes, and answers that arrived before the script awaited them.
struct Pipe<'a> {
    input: Stdin,
    watch: &'a Watch,
    spin: Spin,
    read: Vec<u8>,
    answers: VecDeque<(u32, Outcome)>,
}

impl Pipe<'_> {
    fn send(&mut self, frame: &FromWorker) -> Result<(), HostGone> {
        let bytes = frames::encode(frame).map_err(|_| HostGone)?;
        let mut out = io::stdout().lock();
        out.write_all(&bytes).map_err(|_| HostGone)?;
        out.flush().map_err(|_| HostGone)
    }

    fn receive(&mut self, wait: Wait) -> Result<ToWorker, HostGone> {
        let mut piece = [0; 16 * 1024];
        loop {
            if let Some(frame) =
                frames::take(&mut self.read, MAX_FRAME_BYTES).map_err(|_| HostGone)?
            {
                return Ok(frame);
            }
            if wait == Wait::Spinning {
                self.spin.until(|| is_ready(&self.input).then_some(()));
            }
            let count = match self.input.lock().read(&mut piece) {
                Ok(0) => return Err(HostGone),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Err(HostGone),
            };
            self.read.extend_from_slice(&piece[..count]);
        }
    }
}

impl HostChannel for Pipe<'_> {
    fn ask(&mut self, call: &HostCall) -> Result<(), HostGone> {
        self.send(&FromWorker::Call(call.clone()))
    }

    fn answer(&mut self, among: &[u32]) -> Result<(u32, Outcome), HostGone> {
        loop {
            let at = self.answers.iter().position(|(id, _)| among.contains(id));
            if let Some(answer) = at.and_then(|at| self.answers.remove(at)) {
                return Ok(answer);
            }
            self.watch.wait();
            let heard = self.receive(Wait::Spinning);
            self.watch.go_on();
            match heard? {
                ToWorker::Answer { id, outcome } => self.answers.push_back((id, outcome)),
                ToWorker::Start(_) => return Err(HostGone),
            }
        }
    }
}

/// Whether reading would not block.
fn is_ready(input: &Stdin) -> bool {
    let input = input.as_fd();
    let mut asked = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // If polling fails, the read that follows reports the error.
    poll(&mut asked, Some(&at_once)) != Ok(0)
}
