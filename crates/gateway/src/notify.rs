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
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::{Method, Request, header};
use jiff::Timestamp;
use sha2::Sha256;
use tokio::task::JoinHandle;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use url::Url;

use callgate_config::{Failed, Webhook, WebhookFormat};

use crate::outbound::Outbound;

/// The deadline of one attempt.
const DEADLINE: Duration = Duration::from_secs(5);
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

/// A webhook and its client.
#[derive(Debug)]
struct Hook {
    outbound: Outbound,
    url: Url,
    secret: Option<String>,
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

fn prepare(hook: &Webhook, outbound: &Outbound) -> Result<Hook, Failed> {
    let lookup = |name: &str| std::env::var(name).ok();
    let wrong = |what: String| Failed::config(format!("`approvals.notify`: {what}"));
    let fill =
        |text: &str| environment::expand(text, lookup).map_err(|error| wrong(error.to_string()));
    let url = fill(&hook.url)?;
    let parsed = Url::parse(&url).ok();
    let url = parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    let url = url.ok_or_else(|| wrong("a `url` must begin with http:// or https://".to_owned()))?;
    Ok(Hook {
        outbound: outbound.to(&url)?,
        url,
        secret: hook.secret.as_deref().map(fill).transpose()?,
        format: hook.format,
    })
}

async fn follow(approval_service: ApprovalService, hooks: Vec<Arc<Hook>>, stop: CancellationToken) {
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
async fn deliver(hook: &Hook, approval: &Approval, url: &str) {
    let body = match hook.format {
        WebhookFormat::Generic => message::generic(approval, url),
        WebhookFormat::Slack => message::slack(approval, url),
    };
    let body = Bytes::from(body.to_string());
    let mut pauses = PAUSES.iter();
    loop {
        let Err(error) = post(hook, approval, &body).await else {
            return;
        };
        let host = hook.url.host_str().unwrap_or_default();
        crate::log::approval_not_announced(host, &approval.id, &error);
        match pauses.next() {
            Some(pause) => tokio::time::sleep(*pause).await,
            None => return,
        }
    }
}

async fn post(hook: &Hook, approval: &Approval, body: &Bytes) -> Result<(), String> {
    let timestamp = Timestamp::now().as_second().to_string();
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(hook.url.as_str())
        .header(header::CONTENT_TYPE, "application/json")
        .header("X-Callgate-Event", "approval_required")
        .header("X-Callgate-Delivery", approval.id.as_str())
        .header("X-Callgate-Timestamp", &timestamp);
    if let Some(secret) = &hook.secret {
        request = request.header("X-Callgate-Signature", signature(secret, &timestamp, body));
    }
    let request = request
        .body(body.clone())
        .map_err(|error| error.to_string())?;
    match tokio::time::timeout(DEADLINE, hook.outbound.send(request)).await {
        Ok(Ok(response)) if response.status().is_success() => Ok(()),
        Ok(Ok(response)) => Err(format!("the webhook answered {}", response.status())),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("the webhook did not answer within {DEADLINE:?}")),
    }
}

/// HMAC-SHA-256 over the time and the body, so that the body cannot be changed and an old message cannot be
/// replayed as a new one.
fn signature(secret: &str, timestamp: &str, body: &[u8]) -> String {
    let mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes());
    let mac = mac.expect("HMAC takes a key of any length");
    let mac = mac
        .chain_update(timestamp)
        .chain_update(".")
        .chain_update(body);
    let hex = mac.finalize().into_bytes();
    let hex: String = hex.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_covers_time_and_body() {
        // printf '1700000000.{}' | openssl dgst -sha256 -hmac key
        let expected = "sha256=9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae";
        let made = signature("key", "1700000000", b"{}");
        assert_eq!(made, expected);
        assert_ne!(made, signature("key", "1700000001", b"{}"));
        assert_ne!(made, signature("key", "1700000000", b"{ }"));
        assert_ne!(made, signature("other", "1700000000", b"{}"));
    }
}
