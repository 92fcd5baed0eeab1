//! `subscriptions/listen`: a stream of change notifications for a host of the stateless era, limited to the kinds of change
//! that it subscribed to.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use callgate_call::{Announcement, Caller, Providers, for_stateless_host};
use callgate_gate::Host;
use callgate_wire::{
    Era, Frame, Id, Json, JsonKind, Strictness, message, methods, quote,
    stateless::SUBSCRIPTION_ID_META,
};
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::{follow, introduce::capabilities, principal::Pass};

/// The limit of resources in one subscription. Further ones are not acknowledged.
const MAX_RESOURCES: usize = 1000;

/// How often a quiet subscription re-checks its token.
const TOKEN_CHECK_INTERVAL: Duration = Duration::from_secs(15);

/// The changes that a host subscribed to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Filter {
    tools: bool,
    prompts: bool,
    resources: bool,
    updates: Vec<String>,
}

pub(crate) struct Subscription {
    pub(crate) id: Id,
    pub(crate) host: Arc<Host>,
    pub(crate) caller: Arc<dyn Caller>,
    /// Fires when the gateway stops; the host then gets a final result.
    pub(crate) closing: CancellationToken,
    /// Fires when the host cancels the subscription.
    pub(crate) cancelled: CancellationToken,
    /// The host's token; the subscription ends when it becomes invalid.
    pub(crate) pass: Pass,
}

impl Subscription {
    /// Serves the subscription to its end. `None` when the host cancelled it and so expects no result.
    pub(crate) async fn serve(
        self,
        request: Frame,
        providers: Arc<dyn Providers>,
    ) -> Option<Bytes> {
        // Subscribed before the acknowledgement: a host that has read it must not miss the next change.
        let mut announcements = providers.subscribe();
        let wanted = Filter::read(request.param("notifications"));
        let grant = &self.host.identity.grant;
        let mut filter = wanted.within(&capabilities(&*providers, grant, Era::Stateless));
        let _attachment = Attachment::new(&providers, &self);
        // Only the resources that could be subscribed are acknowledged: a refused one must not look active.
        let mut followed = Vec::new();
        for uri in std::mem::take(&mut filter.updates) {
            if follow::subscribe(&*providers, &self.host, &uri).await {
                followed.push(uri);
            }
        }
        filter.updates = followed;
        self.send(methods::ACKNOWLEDGED, &filter.to_params());
        let mut token_check = tokio::time::interval(TOKEN_CHECK_INTERVAL);
        loop {
            let announced = tokio::select! {
                announced = announcements.recv() => Some(announced),
                _ = token_check.tick() => None,
                () = self.closing.cancelled() => return Some(self.end()),
                () = self.cancelled.cancelled() => return None,
            };
            // Checked on every announcement, not only on the timer: a revoked token gets no further notification.
            if !self.pass.is_valid() {
                return Some(self.end());
            }
            match announced {
                None => {}
                Some(Ok(announced)) => self.forward(&filter, announced),
                // The missed announcements are unknown, so every subscribed change is reported.
                Some(Err(RecvError::Lagged(_))) => self.report_all(&filter),
                Some(Err(RecvError::Closed)) => return Some(self.end()),
            }
        }
    }

    fn forward(&self, filter: &Filter, announced: Announcement) {
        if !announced.is_for(&self.host) {
            return;
        }
        let Ok(frame) = Frame::parse(announced.frame, Strictness::Envelope) else {
            return;
        };
        if filter.wants(&frame) {
            let tagged = frame.edit().meta(SUBSCRIPTION_ID_META, self.id.raw());
            self.caller.notify(tagged.finish());
        }
    }

    fn report_all(&self, filter: &Filter) {
        let kinds = [
            (filter.tools, methods::TOOLS_CHANGED),
            (filter.prompts, methods::PROMPTS_CHANGED),
            (filter.resources, methods::RESOURCES_CHANGED),
        ];
        for (_, method) in kinds.into_iter().filter(|(wanted, _)| *wanted) {
            self.send(method, "{}");
        }
        for uri in &filter.updates {
            let params = format!(r#"{{"uri":{}}}"#, quote(uri));
            self.send(methods::RESOURCE_UPDATED, &params);
        }
    }

    /// Sends a notification of the gateway's own, tagged with the subscription's id.
    fn send(&self, method: &str, params: &str) {
        let notification = message::notification(method, Some(params));
        if let Ok(frame) = Frame::parse(notification, Strictness::Envelope) {
            let tagged = frame.edit().meta(SUBSCRIPTION_ID_META, self.id.raw());
            self.caller.notify(tagged.finish());
        }
    }

    fn end(&self) -> Bytes {
        let id = self.id.raw();
        let result = format!(r#"{{"_meta":{{"{SUBSCRIPTION_ID_META}":{id}}}}}"#);
        for_stateless_host(message::result(&self.id, &result), methods::LISTEN)
    }
}

/// The listener's registration with the providers. Its resource subscriptions end on drop.
struct Attachment {
    providers: Arc<dyn Providers>,
    session: String,
}

impl Attachment {
    fn new(providers: &Arc<dyn Providers>, subscription: &Subscription) -> Self {
        let host = subscription.host.clone();
        let session = host.identity.session.clone();
        providers.attach(host, None);
        Self {
            providers: providers.clone(),
            session,
        }
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.providers.detach(&self.session);
    }
}

impl Filter {
    fn read(wanted: Option<Json<'_>>) -> Self {
        let flag = |key| {
            let value = wanted.and_then(|wanted| wanted.get(key));
            value.and_then(Json::as_bool) == Some(true)
        };
        let uris = wanted.and_then(|wanted| wanted.get("resourceSubscriptions"));
        let uris = uris.into_iter().flat_map(Json::elements);
        Self {
            tools: flag("toolsListChanged"),
            prompts: flag("promptsListChanged"),
            resources: flag("resourcesListChanged"),
            updates: uris
                .filter_map(|uri| uri.as_str().map(|uri| uri.into_owned()))
                .take(MAX_RESOURCES)
                .collect(),
        }
    }

    /// The part of the filter that the capabilities cover.
    fn within(self, capabilities: &str) -> Self {
        let json = Json::validate(capabilities.as_bytes(), Strictness::Envelope).ok();
        let has = |kind: &str, what: &str| {
            let kind = json.and_then(|json| json.get(kind));
            let flag = kind.and_then(|kind| kind.get(what));
            flag.is_some_and(|flag| flag.kind() == JsonKind::Bool && flag.as_bool() == Some(true))
        };
        let can_subscribe = has("resources", "subscribe");
        Self {
            tools: self.tools && has("tools", "listChanged"),
            prompts: self.prompts && has("prompts", "listChanged"),
            resources: self.resources && has("resources", "listChanged"),
            updates: self.updates.into_iter().filter(|_| can_subscribe).collect(),
        }
    }

    /// The params of the acknowledgement.
    fn to_params(&self) -> String {
        let flags = [
            (self.tools, "toolsListChanged"),
            (self.prompts, "promptsListChanged"),
            (self.resources, "resourcesListChanged"),
        ];
        let mut members: Vec<String> = flags
            .into_iter()
            .filter(|(honoured, _)| *honoured)
            .map(|(_, name)| format!(r#""{name}":true"#))
            .collect();
        if !self.updates.is_empty() {
            let uris: Vec<String> = self.updates.iter().map(|uri| quote(uri)).collect();
            members.push(format!(r#""resourceSubscriptions":[{}]"#, uris.join(",")));
        }
        format!(r#"{{"notifications":{{{}}}}}"#, members.join(","))
    }

    fn wants(&self, frame: &Frame) -> bool {
        match frame.method() {
            Some(methods::TOOLS_CHANGED) => self.tools,
            Some(methods::PROMPTS_CHANGED) => self.prompts,
            Some(methods::RESOURCES_CHANGED) => self.resources,
            Some(methods::RESOURCE_UPDATED) => {
                let uri = frame.param("uri").and_then(Json::as_str);
                uri.is_some_and(|uri| self.updates.iter().any(|wanted| *wanted == uri))
            }
            Some(_) | None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(text: &str) -> Filter {
        Filter::read(Json::validate(text.as_bytes(), Strictness::Full).ok())
    }

    #[test]
    fn only_requested_and_supported_subscriptions_are_honoured() {
        let all = r#"{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":false,"resourceSubscriptions":["a",7,"b"]}"#;
        let everything = r#"{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}"#;
        let honoured = filter(all).within(everything).to_params();
        assert_eq!(
            honoured,
            r#"{"notifications":{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a","b"]}}"#
        );
        let honoured = filter(all).within(r#"{"tools":{"listChanged":true}}"#);
        assert_eq!(
            honoured.to_params(),
            r#"{"notifications":{"toolsListChanged":true}}"#
        );
        assert_eq!(filter("7"), Filter::default());
    }

    #[test]
    fn a_listen_stream_carries_only_subscribed_notifications() {
        let filter = filter(r#"{"promptsListChanged":true,"resourceSubscriptions":["a"]}"#);
        let wants = |method: &str, params: &str| {
            let frame = message::notification(method, Some(params));
            filter.wants(&Frame::parse(frame, Strictness::Full).unwrap())
        };
        assert!(wants(methods::PROMPTS_CHANGED, "{}"));
        assert!(wants(methods::RESOURCE_UPDATED, r#"{"uri":"a"}"#));
        assert!(!wants(methods::RESOURCE_UPDATED, r#"{"uri":"b"}"#));
        assert!(!wants(methods::TOOLS_CHANGED, "{}"));
        assert!(!wants(methods::MESSAGE, "{}"));
    }
}
