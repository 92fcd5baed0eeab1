//! `subscriptions/listen`: a host of the stateless era is told of changes as long as it listens, and of
//! those alone that it asked for.

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

/// Resources that one subscription may name; more are not honoured.
const MAX_RESOURCES: usize = 1000;

/// How often a quiet subscription looks whether its token is still valid.
const LOOK_AT_TOKEN: Duration = Duration::from_secs(15);

/// What a host wants to be told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Filter {
    tools: bool,
    prompts: bool,
    resources: bool,
    updates: Vec<String>,
}

/// One open subscription.
pub(crate) struct Subscription {
    pub(crate) id: Id,
    pub(crate) host: Arc<Host>,
    pub(crate) caller: Arc<dyn Caller>,
    /// Fires when the gateway stops: then the host is told that nothing more comes.
    pub(crate) closing: CancellationToken,
    /// Fires when the host does not listen any more.
    pub(crate) cancelled: CancellationToken,
    /// The host's token; nothing is told once it is no longer valid.
    pub(crate) pass: Pass,
}

impl Subscription {
    /// Tells until it is over; the answer is `None` where nobody wants one any more.
    pub(crate) async fn serve(
        self,
        request: Frame,
        providers: Arc<dyn Providers>,
    ) -> Option<Bytes> {
        let mut announcements = providers.subscribe();
        let wanted = Filter::read(request.param("notifications"));
        let grant = &self.host.who.grant;
        let mut filter = wanted.within(&capabilities(&*providers, grant, Era::Stateless));
        let _here = Here::new(&providers, &self);
        let mut followed = Vec::new();
        for uri in std::mem::take(&mut filter.updates) {
            if follow::begin(&*providers, &self.host, &uri).await {
                followed.push(uri);
            }
        }
        filter.updates = followed;
        self.say(methods::ACKNOWLEDGED, &filter.to_params());
        let mut looked_at = tokio::time::interval(LOOK_AT_TOKEN);
        loop {
            let announced = tokio::select! {
                announced = announcements.recv() => Some(announced),
                _ = looked_at.tick() => None,
                () = self.closing.cancelled() => return Some(self.end()),
                () = self.cancelled.cancelled() => return None,
            };
            if !self.pass.is_valid() {
                return Some(self.end());
            }
            match announced {
                None => {}
                Some(Ok(announced)) => self.pass_on(&filter, announced),
                // Which changes were missed is unknown, so all may have happened.
                Some(Err(RecvError::Lagged(_))) => self.tell_all(&filter),
                Some(Err(RecvError::Closed)) => return Some(self.end()),
            }
        }
    }

    fn pass_on(&self, filter: &Filter, announced: Announcement) {
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

    fn tell_all(&self, filter: &Filter) {
        let kinds = [
            (filter.tools, methods::TOOLS_CHANGED),
            (filter.prompts, methods::PROMPTS_CHANGED),
            (filter.resources, methods::RESOURCES_CHANGED),
        ];
        for (_, method) in kinds.into_iter().filter(|(wanted, _)| *wanted) {
            self.say(method, "{}");
        }
        for uri in &filter.updates {
            let params = format!(r#"{{"uri":{}}}"#, quote(uri));
            self.say(methods::RESOURCE_UPDATED, &params);
        }
    }

    /// Says something of our own, with the tag that all of this subscription has.
    fn say(&self, method: &str, params: &str) {
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

/// A listener as the servers know it; what it follows it leaves when this is dropped.
struct Here {
    providers: Arc<dyn Providers>,
    session: String,
}

impl Here {
    fn new(providers: &Arc<dyn Providers>, subscription: &Subscription) -> Self {
        let host = subscription.host.clone();
        let session = host.who.session.clone();
        providers.attach(host, None);
        Self {
            providers: providers.clone(),
            session,
        }
    }
}

impl Drop for Here {
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

    /// What of it can be told.
    fn within(self, capabilities: &str) -> Self {
        let json = Json::validate(capabilities.as_bytes(), Strictness::Envelope).ok();
        let has = |kind: &str, what: &str| {
            let kind = json.and_then(|json| json.get(kind));
            let flag = kind.and_then(|kind| kind.get(what));
            flag.is_some_and(|flag| flag.kind() == JsonKind::Bool && flag.as_bool() == Some(true))
        };
        let told = has("resources", "subscribe");
        Self {
            tools: self.tools && has("tools", "listChanged"),
            prompts: self.prompts && has("prompts", "listChanged"),
            resources: self.resources && has("resources", "listChanged"),
            updates: self.updates.into_iter().filter(|_| told).collect(),
        }
    }

    /// The filter as it is acknowledged.
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
