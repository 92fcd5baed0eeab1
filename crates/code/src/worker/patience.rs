//! How a worker waits for an answer. It looks a little while before it sleeps: servers of this machine answer
//! sooner than a sleeping process is woken, which costs more than the call. A script whose servers are slower
//! soon sleeps at once.

use std::{
    io::Stdin,
    os::fd::AsFd,
    thread,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How long it looks.
const LOOK: Duration = Duration::from_micros(200);
/// After so many answers that took longer, it looks only now and then.
const MISSES: u32 = 3;
/// How often it looks then: once in so many waits.
const NOW_AND_THEN: u32 = 32;

/// How a worker waits, by how long it waited before.
#[derive(Debug)]
pub(super) struct Patience {
    /// Where there is one processor, looking would keep away who answers.
    looks: bool,
    /// Waits in a row that were too long.
    missed: u32,
}

impl Patience {
    /// Looks first where that can help.
    pub(super) fn new() -> Self {
        let processors = thread::available_parallelism();
        Self {
            looks: processors.is_ok_and(|count| count.get() > 1),
            missed: 0,
        }
    }

    /// Looks for something to read, for a little while.
    pub(super) fn look(&mut self, input: &Stdin) {
        let is_worth_it = self.missed < MISSES || self.missed.is_multiple_of(NOW_AND_THEN);
        if !self.looks || !is_worth_it {
            self.missed = self.missed.wrapping_add(1);
            return;
        }
        let until = Instant::now() + LOOK;
        let mut found = is_ready(input);
        while !found && Instant::now() < until {
            thread::yield_now();
            found = is_ready(input);
        }
        self.missed = if found {
            0
        } else {
            self.missed.wrapping_add(1)
        };
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
