//! Announces approvals: a signed POST to each webhook of `approvals.notify`.
//!
//! A message says where to decide and cannot decide anything. Each approval is announced by one process: the
//! one that asked for it, or, if that one died, the first that finds it. A webhook that does not accept a message
//! is retried a few times; the approval stays on the page and in the list in any case.

mod message;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use callgate_call::ApprovalService;
use callgate_process::environment;
use callgate_record::{Approval, ApprovalFilter};
use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use url::Url;

use callgate_config::{Failed, Webhook, WebhookFormat};

use crate::{
    outbound::Outbound,
    webhook::{Delivery, Hook},
};

/// The pauses before retries.
const PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(25),
];
/// Pending approvals per listing: more than people could decide about.
const MAX_PENDING: usize = 500;

/// Announces approvals until it is stopped.
#[derive(Debug)]
pub(crate) struct Notifying {
    following: JoinHandle<()>,
    stop: CancellationToken,
}

/// A webhook and the format of its messages.
#[derive(Debug)]
struct Announced {
    hook: Hook,
    format: WebhookFormat,
}

impl Notifying {
    /// Starts to announce the approvals of `approval_service`; `None` without webhooks.
    pub(crate) fn start(
        hooks: &[Webhook],
        approval_service: ApprovalService,
    ) -> Result<Option<Self>, Failed> {
        if hooks.is_empty() {
            return Ok(None);
        }
        let outbound = Outbound::new()?;
        let prepare = |hook| prepare(hook, &outbound).map(Arc::new);
        let hooks = hooks.iter().map(prepare).collect::<Result<_, _>>()?;
        let stop = CancellationToken::new();
        let following = tokio::spawn(follow(approval_service, hooks, stop.clone()));
        Ok(Some(Self { following, stop }))
    }

    /// Stops announcing; deliveries in progress are cancelled.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        if self.following.await.is_err() {
            crate::log::announcing_failed();
        }
    }
}

fn prepare(hook: &Webhook, outbound: &Outbound) -> Result<Announced, Failed> {
    let lookup = |name: &str| std::env::var(name).ok();
    let wrong = |what: String| Failed::config(format!("`approvals.notify`: {what}"));
    let fill =
        |text: &str| environment::expand(text, lookup).map_err(|error| wrong(error.to_string()));
    let url = fill(&hook.url)?;
    let parsed = Url::parse(&url).ok();
    let url = parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or_else(|| wrong("a `url` must begin with http:// or https://".to_owned()))?;
    let secret = hook.secret.as_deref().map(fill).transpose()?;
    Ok(Announced {
        hook: Hook::new(outbound, url, secret)?,
        format: hook.format,
    })
}

async fn follow(
    approval_service: ApprovalService,
    hooks: Vec<Arc<Announced>>,
    stop: CancellationToken,
) {
    let mut changes = approval_service.changes();
    let tasks = TaskTracker::new();
    loop {
        for approval in unannounced(&approval_service).await {
            let url = approval_service.settings().url(&approval.id);
            for hook in &hooks {
                let (hook, stop) = (hook.clone(), stop.clone());
                let (approval, url) = (approval.clone(), url.clone());
                tasks.spawn(async move {
                    tokio::select! {
                        () = stop.cancelled() => {}
                        () = deliver(&hook, &approval, &url) => {}
                    }
                });
            }
        }
        tokio::select! {
            () = stop.cancelled() => break,
            changed = changes.changed() => if changed.is_err() { break },
        }
    }
    tasks.close();
    tasks.wait().await;
}

/// The pending approvals that this process must announce now.
async fn unannounced(approval_service: &ApprovalService) -> Vec<Approval> {
    let pending = approval_service
        .list(ApprovalFilter::pending(), MAX_PENDING)
        .await;
    let mut ours = Vec::new();
    for approval in pending.unwrap_or_default() {
        match approval_service.announces(&approval.id).await {
            Ok(true) => ours.push(approval),
            Ok(false) => {}
            Err(error) => crate::log::announcer_not_chosen(&error),
        }
    }
    ours
}

/// Delivers an announcement to one webhook, with retries.
async fn deliver(to: &Announced, approval: &Approval, url: &str) {
    let body = match to.format {
        WebhookFormat::Generic => message::generic(approval, url),
        WebhookFormat::Slack => message::slack(approval, url),
    };
    let body = Bytes::from(body.to_string());
    let mut pauses = PAUSES.iter();
    loop {
        let delivery = Delivery {
            event: "approval_required",
            id: approval.id.as_str(),
            body: &body,
        };
        let Err(error) = to.hook.post(delivery).await else {
            return;
        };
        crate::log::approval_not_announced(to.hook.host(), &approval.id, &error);
        match pauses.next() {
            Some(pause) => tokio::time::sleep(*pause).await,
            None => return,
        }
    }
}
