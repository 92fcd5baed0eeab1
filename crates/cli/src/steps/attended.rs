//! Held calls of steps, decided by the person at the terminal where the steps run.

use std::{
    io::{self, IsTerminal},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use callgate_agent::{CallDecision, StepEvent};
use callgate_call::{ApprovalService, ApprovalSettings};
use callgate_config::Settings;
use callgate_gate::ApprovalId;
use callgate_gateway::Running;
use callgate_record::{Answer, ApprovalStatus};
use tokio::runtime::Handle;

use super::Display;
use crate::{
    commands::approvals::{
        self,
        ask::{Asked, Deciding, ShownCalls},
    },
    exit::Failed,
};

/// How long a held call waits for the person. Agents give up on a call after ten minutes.
const WAIT: Duration = Duration::from_secs(540);

/// Asks about held calls, one after the other, on a thread of its own.
#[derive(Debug)]
pub(crate) struct Attended {
    calls: Sender<ApprovalId>,
    is_over: Arc<AtomicBool>,
    asking: JoinHandle<()>,
}

impl Attended {
    /// Begins to ask if there is a person to ask: at a terminal, with the right to approve. Held calls then wait for an
    /// answer. `None` otherwise.
    pub(crate) fn start(
        settings: &Settings,
        running: &Running,
        display: Arc<Display>,
    ) -> Option<Self> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return None;
        }
        // Reading the admin token is the authorisation, as for `callgate approvals`.
        settings.tokens().ok()?;
        let service = running.approval_service.clone();
        let configured = service.settings();
        service.set_settings(ApprovalSettings {
            wait: configured.wait.max(WAIT),
            ..(*configured).clone()
        });
        let (calls, held) = mpsc::channel();
        let is_over = Arc::new(AtomicBool::new(false));
        let desk = Desk {
            service,
            runtime: Handle::current(),
            is_over: is_over.clone(),
        };
        let asking = thread::spawn(move || desk.ask_all(&held, &display));
        Some(Self {
            calls,
            is_over,
            asking,
        })
    }

    /// Takes note of a held call.
    pub(crate) fn note(&self, event: &StepEvent) {
        let StepEvent::Call(call) = event else {
            return;
        };
        let id = call.approval.as_ref().and_then(|id| id.parse().ok());
        if let (CallDecision::Held, true, Some(id)) = (call.decision, call.waits, id) {
            // The thread ends early only if the terminal was closed.
            let _ = self.calls.send(id);
        }
    }

    /// Stops asking.
    pub(crate) fn end(self) {
        self.is_over.store(true, Ordering::Release);
        drop(self.calls);
        // A panic was printed already.
        let _ = self.asking.join();
    }
}

/// What the thread works with.
struct Desk {
    service: ApprovalService,
    runtime: Handle,
    is_over: Arc<AtomicBool>,
}

impl Desk {
    fn ask_all(&self, held: &Receiver<ApprovalId>, display: &Display) {
        let mut shown = ShownCalls::default();
        for id in held {
            if !self.is_wanted(&id) {
                continue;
            }
            match display.ask(|| self.ask(&id, &mut shown)) {
                Ok(Asked::Decided | Asked::Over) => {}
                Ok(Asked::LeftOpen) => display.line(format!(
                    "left open: the call waits; `callgate approvals approve {id}` decides it elsewhere"
                )),
                Ok(Asked::Closed) => return,
                Err(failed) => {
                    display.line(format!("error: {}", failed.message()));
                    return;
                }
            }
        }
    }

    fn ask(&self, id: &ApprovalId, shown: &mut ShownCalls) -> Result<Asked, Failed> {
        let showing = self.runtime.block_on(self.service.show(id));
        let approval = showing.map_err(|error| Failed::system(error.to_string()))?;
        let Some(approval) = approval else {
            return Ok(Asked::Over);
        };
        eprintln!("{}", shown.show(&approval));
        shown.ask(&approval, self)
    }
}

impl Deciding for Desk {
    fn decide(&self, id: &ApprovalId, answer: Answer) -> Result<(), Failed> {
        let deciding = approvals::decided(&self.service, id, answer);
        match self.runtime.block_on(deciding) {
            Ok(status) => eprintln!("{id} {}", status.as_str()),
            // Another approver may have decided first.
            Err(failed) => eprintln!("{}", failed.message()),
        }
        Ok(())
    }

    fn is_wanted(&self, id: &ApprovalId) -> bool {
        if self.is_over.load(Ordering::Acquire) {
            return false;
        }
        let found = self.runtime.block_on(self.service.get(id));
        // An approval that cannot be read now may still be decided.
        found.is_ok_and(|found| {
            found.is_none_or(|approval| approval.status == ApprovalStatus::Pending)
        })
    }
}
