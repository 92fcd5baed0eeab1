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
    process::{ExitCode, exit},
    sync::Arc,
    thread,
};

use crate::{
    HostCall, Outcome,
    engine::{Engine, HostChannel, HostGone, Monty, Work},
    frames::{self, EXIT_INTERPRETER_FAILED, Failed, FromWorker, MAX_FRAME_BYTES, Start, ToWorker},
    prepare,
};
use watch::Watch;

/// Stack for the interpreter's recursion. It does not count as the script's memory.
pub(crate) const STACK_BYTES: usize = 64 * 1024 * 1024;

/// Runs scripts from standard input until it ends. `memory_bytes` is the limit for scripts.
pub fn main(memory_bytes: u64) -> ExitCode {
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
            serve(&watch);
        });
    match (watcher, runner) {
        (Ok(_), Ok(runner)) => match runner.join() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => exit(EXIT_INTERPRETER_FAILED),
        },
        _ => ExitCode::FAILURE,
    }
}

fn serve(watch: &Watch) {
    let mut pipe = Pipe {
        input: io::stdin(),
        watch,
        read: Vec::new(),
        answers: VecDeque::new(),
    };
    if pipe.send(&FromWorker::Ready).is_err() {
        return;
    }
    loop {
        let start = match pipe.receive() {
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

/// The two pipes, and answers that arrived before the script awaited them.
struct Pipe<'a> {
    input: Stdin,
    watch: &'a Watch,
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

    fn receive(&mut self) -> Result<ToWorker, HostGone> {
        let mut piece = [0; 16 * 1024];
        loop {
            if let Some(frame) =
                frames::take(&mut self.read, MAX_FRAME_BYTES).map_err(|_| HostGone)?
            {
                return Ok(frame);
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
            let heard = self.receive();
            self.watch.go_on();
            match heard? {
                ToWorker::Answer { id, outcome } => self.answers.push_back((id, outcome)),
                ToWorker::Start(_) => return Err(HostGone),
            }
        }
    }
}
