//! The worker: a process that runs one script after the other, each from nothing, and has nothing but two pipes.
//!
//! It ends when its pipe does, when a script uses more than its CPU time in a way that the interpreter does not
//! notice, and when memory cannot be had. Whoever started it starts another one.

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
    engine::{Asking, Engine, Gone, Monty, Work},
    frames::{self, BROKEN, Failed, FromWorker, MAX_FRAME_BYTES, Start, ToWorker},
    prepare,
};
use watch::Watch;

/// How long a worker looks for an answer before it sleeps.
const LOOK: Duration = Duration::from_micros(200);
/// Room for the interpreter's recursion. It is not counted as the script's memory.
pub(crate) const STACK_BYTES: usize = 64 * 1024 * 1024;

/// Runs scripts that come over standard input until it ends. `memory_bytes` is what scripts may use.
pub fn main(memory_bytes: u64) -> ExitCode {
    // While there is something to ask.
    let look = Spin::new(LOOK);
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
            serve(&watch, look);
        });
    match (watcher, runner) {
        (Ok(_), Ok(runner)) => match runner.join() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => exit(BROKEN),
        },
        _ => ExitCode::FAILURE,
    }
}

fn serve(watch: &Watch, look: Spin) {
    let mut pipe = Pipe {
        input: io::stdin(),
        watch,
        look,
        read: Vec::new(),
        answers: VecDeque::new(),
    };
    if pipe.say(&FromWorker::Ready).is_err() {
        return;
    }
    loop {
        let start = match pipe.hear(Wait::Asleep) {
            Ok(ToWorker::Start(start)) => start,
            // Left over from a run that did not wait for it.
            Ok(ToWorker::Answer { .. }) => continue,
            Err(Gone) => return,
        };
        pipe.answers.clear();
        watch.begin(start.limits.cpu);
        let ended = run(*start, &mut pipe);
        watch.end();
        let said = match ended {
            Ok(frame) => pipe.say(&frame),
            Err(Gone) => return,
        };
        if said.is_err() {
            return;
        }
    }
}

fn run(start: Start, pipe: &mut Pipe<'_>) -> Result<FromWorker, Gone> {
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

/// How it is waited for what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// For a while without sleeping.
    SpinningSocket,
    /// For as long as it takes.
    Asleep,
}

/// The two pipes, and answers that came before they were asked about.
struct Pipe<'a> {
    input: Stdin,
    watch: &'a Watch,
    look: Spin,
    read: Vec<u8>,
    answers: VecDeque<(u32, Outcome)>,
}

impl Pipe<'_> {
    fn say(&mut self, frame: &FromWorker) -> Result<(), Gone> {
        let bytes = frames::encode(frame).map_err(|_| Gone)?;
        let mut out = io::stdout().lock();
        out.write_all(&bytes).map_err(|_| Gone)?;
        out.flush().map_err(|_| Gone)
    }

    fn hear(&mut self, wait: Wait) -> Result<ToWorker, Gone> {
        let mut piece = [0; 16 * 1024];
        loop {
            if let Some(frame) = frames::take(&mut self.read, MAX_FRAME_BYTES).map_err(|_| Gone)? {
                return Ok(frame);
            }
            if wait == Wait::SpinningSocket {
                self.look.until(|| is_ready(&self.input).then_some(()));
            }
            let count = match self.input.lock().read(&mut piece) {
                Ok(0) => return Err(Gone),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Err(Gone),
            };
            self.read.extend_from_slice(&piece[..count]);
        }
    }
}

impl Asking for Pipe<'_> {
    fn ask(&mut self, call: &HostCall) -> Result<(), Gone> {
        self.say(&FromWorker::Call(call.clone()))
    }

    fn answer(&mut self, among: &[u32]) -> Result<(u32, Outcome), Gone> {
        loop {
            let at = self.answers.iter().position(|(id, _)| among.contains(id));
            if let Some(answer) = at.and_then(|at| self.answers.remove(at)) {
                return Ok(answer);
            }
            self.watch.wait();
            let heard = self.hear(Wait::SpinningSocket);
            self.watch.go_on();
            match heard? {
                ToWorker::Answer { id, outcome } => self.answers.push_back((id, outcome)),
                ToWorker::Start(_) => return Err(Gone),
            }
        }
    }
}

/// Whether there is something to read, or an end.
fn is_ready(input: &Stdin) -> bool {
    let input = input.as_fd();
    let mut asked = [PollFd::from_borrowed_fd(input, PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // What cannot be asked is found out by reading.
    poll(&mut asked, Some(&at_once)) != Ok(0)
}
