//! Spans: one per call and one below it for each step, and their W3C trace context.
//!
//! Without an exporter no span is created, and a host's own context passes unchanged.

use std::{borrow::Cow, fmt, str::FromStr, sync::Arc, time::Duration};

use callgate_gate::{Attempt, Target};
use callgate_wire::{Json, methods};
use futures_util::FutureExt as _;
use opentelemetry::{
    Context, KeyValue,
    global::BoxedTracer,
    trace::{
        SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId,
        TraceState, Tracer,
    },
};

/// A span's name before the target is known.
const UNRESOLVED: &str = "tool.call";
/// The variables by which programs pass a context to those that they start.
const PARENT_VARIABLE: &str = "TRACEPARENT";
const STATE_VARIABLE: &str = "TRACESTATE";
/// A longer tracestate is dropped, as its standard permits.
const MAX_STATE_BYTES: usize = 512;

/// A W3C trace context: `traceparent` and `tracestate`, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    parent: String,
    state: Option<String>,
}

/// Creates spans if there is an exporter. Cheap to clone.
#[derive(Clone, Default)]
pub struct Spans {
    tracer: Option<Arc<BoxedTracer>>,
}

/// The span of one call; empty without an exporter.
#[derive(Debug)]
pub(crate) struct CallSpan {
    live: Option<LiveSpan>,
    /// The context beside the host's request, to pass on where no span is created.
    received: Option<TraceContext>,
}

struct LiveSpan {
    tracer: Arc<BoxedTracer>,
    context: Context,
}

/// The span of one step. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct CallStepSpan(Option<Context>);

/// The span of what has calls in it: a workflow, a state, a command, an agent's step. Without an exporter it is only the
/// context that it was begun in.
#[derive(Debug)]
pub struct StepSpan {
    live: Option<Context>,
    /// The context that it was begun in, to pass on where no span is created.
    received: Option<TraceContext>,
}

impl StepSpan {
    /// The context of the span, the parent of the spans in it.
    pub fn context(&self) -> Option<TraceContext> {
        match &self.live {
            Some(context) => Some(TraceContext::of(context.span().span_context())),
            None => self.received.clone(),
        }
    }

    /// Sets an attribute of the span.
    pub fn note(&self, key: &'static str, value: String) {
        if let Some(context) = &self.live {
            context.span().set_attribute(KeyValue::new(key, value));
        }
    }

    /// Ends the span; `error` says why it failed.
    pub fn end(self, error: Option<&'static str>) {
        let Some(context) = self.live else {
            return;
        };
        let span = context.span();
        if let Some(error) = error {
            span.set_attribute(KeyValue::new("error", error));
            span.set_status(Status::error(error));
        }
        span.end();
    }
}

impl TraceContext {
    /// Parses a context; `None` if `parent` is malformed.
    pub fn new(parent: &str, state: Option<&str>) -> Option<Self> {
        span_context(parent, None)?;
        Some(Self {
            parent: parent.to_owned(),
            state: state
                .filter(|state| !state.is_empty() && state.len() <= MAX_STATE_BYTES)
                .map(str::to_owned),
        })
    }

    pub fn parent(&self) -> &str {
        &self.parent
    }

    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// The context in the variables of a program, `TRACEPARENT` and `TRACESTATE`.
    pub fn in_env(env: &[(String, String)]) -> Option<Self> {
        let value = |name: &str| {
            let found = env.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str())
        };
        Self::new(value(PARENT_VARIABLE)?, value(STATE_VARIABLE))
    }

    /// Whether a variable of this name passes a context.
    pub fn is_variable(name: &str) -> bool {
        [PARENT_VARIABLE, STATE_VARIABLE].contains(&name)
    }

    /// The variables that pass the context to a program.
    pub fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let state = self
            .state
            .clone()
            .map(|state| ("TRACESTATE".to_owned(), state));
        let parent = (PARENT_VARIABLE.to_owned(), self.parent.clone());
        [parent].into_iter().chain(state)
    }

    /// The context that a request carries in its `_meta`.
    fn in_meta(attempt: &Attempt) -> Option<Self> {
        let text = |key| {
            attempt
                .frame
                .meta(key)
                .and_then(|value: Json<'_>| value.as_str())
        };
        Self::new(&text("traceparent")?, text("tracestate").as_deref())
    }

    fn of(context: &SpanContext) -> Self {
        let flags = context.trace_flags().to_u8();
        let state = context.trace_state().header();
        Self {
            parent: format!(
                "00-{}-{}-{flags:02x}",
                context.trace_id(),
                context.span_id()
            ),
            state: (!state.is_empty()).then_some(state),
        }
    }
}

impl Spans {
    pub fn of(tracer: BoxedTracer) -> Self {
        Self {
            tracer: Some(Arc::new(tracer)),
        }
    }

    /// Begins a span around calls, within the context that was received, if any.
    pub fn step(
        &self,
        name: impl Into<Cow<'static, str>>,
        received: Option<TraceContext>,
    ) -> StepSpan {
        let live = self.tracer.as_ref().map(|tracer| {
            let context = remote(received.as_ref());
            let span = tracer.build_with_context(SpanBuilder::from_name(name), &context);
            context.with_span(span)
        });
        StepSpan { live, received }
    }

    /// Begins the span of a call. Its parent is the context in the request's `_meta`, else the one
    /// that was received beside the request.
    pub(crate) fn call(&self, attempt: &Attempt, received: Option<TraceContext>) -> CallSpan {
        let Some(tracer) = &self.tracer else {
            return CallSpan {
                live: None,
                received,
            };
        };
        let parent = TraceContext::in_meta(attempt).or(received);
        let context = remote(parent.as_ref());
        let request = attempt.frame.id();
        let request = request.map(|id| {
            KeyValue::new(
                "callgate.request_id",
                crate::events::name(id.raw()).to_owned(),
            )
        });
        let record = KeyValue::new("callgate.record_id", attempt.id.to_string());
        let builder = SpanBuilder::from_name(UNRESOLVED)
            .with_kind(SpanKind::Server)
            .with_attributes([record].into_iter().chain(request));
        let span = tracer.build_with_context(builder, &context);
        let live = LiveSpan {
            tracer: tracer.clone(),
            context: context.with_span(span),
        };
        CallSpan {
            live: Some(live),
            received: None,
        }
    }
}

impl fmt::Debug for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spans")
            .field(&self.tracer.is_some())
            .finish()
    }
}

impl CallSpan {
    /// A span that is not exported.
    pub(crate) fn silent() -> Self {
        Self {
            live: None,
            received: None,
        }
    }

    /// Names the span after the call's target.
    pub(crate) fn set_target(&self, target: &Target) {
        let Some(live) = &self.live else {
            return;
        };
        let shown = match target {
            Target::Tool(tool) => tool.shown.as_str(),
            Target::Prompt(_) => methods::PROMPTS_GET,
            Target::Resource(_) => methods::RESOURCES_READ,
            Target::Completion(_) => methods::COMPLETE,
            Target::Method { method, .. } => method,
        };
        let span = live.context.span();
        span.update_name(format!("tool.call.{shown}"));
        span.set_attribute(KeyValue::new("tool.name", target.label().into_owned()));
        span.set_attribute(KeyValue::new("tool.source", target.source_text()));
    }

    /// Begins the span of a step.
    pub(crate) fn step(&self, name: &'static str) -> CallStepSpan {
        CallStepSpan(self.live.as_ref().map(|live| {
            let builder = SpanBuilder::from_name(name);
            let span = live.tracer.build_with_context(builder, &live.context);
            live.context.with_span(span)
        }))
    }

    /// The context for the provider's request: the step's own, or the one that came beside a request without one. `None` if the
    /// request stays as it is.
    pub(crate) fn outgoing_context(
        &self,
        step: &CallStepSpan,
        attempt: &Attempt,
    ) -> Option<TraceContext> {
        match &step.0 {
            Some(context) => Some(TraceContext::of(context.span().span_context())),
            // The request carries its host's context already, which passes unchanged.
            None if attempt.frame.meta("traceparent").is_some() => None,
            None => self.received.clone(),
        }
    }

    /// Ends the span; `error` says why the call did not succeed.
    pub(crate) fn end(self, duration: Duration, error: Option<&str>) {
        let Some(live) = self.live else {
            return;
        };
        let span = live.context.span();
        let milliseconds = duration.as_micros() as f64 / 1000.0;
        span.set_attribute(KeyValue::new("tool.duration_ms", milliseconds));
        if let Some(error) = error {
            span.set_attribute(KeyValue::new("error", error.to_owned()));
            span.set_status(Status::error(error.to_owned()));
        }
        span.end();
    }
}

impl CallStepSpan {
    /// Runs the work of a step.
    pub(crate) fn run<T>(self, work: impl FnOnce() -> T) -> T {
        work()
    }

    /// Runs the work of a step within its span.
    pub(crate) fn around<T>(self, work: impl Future<Output = T>) -> impl Future<Output = T> {
        // Not an `async fn`, whose future would reserve space for the work twice: as argument and as local.
        work.map(move |done| {
            drop(self);
            done
        })
    }
}

impl fmt::Debug for LiveSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LiveSpan")
    }
}

impl Drop for CallStepSpan {
    fn drop(&mut self) {
        if let Some(context) = &self.0 {
            context.span().end();
        }
    }
}

/// The context of a span that another process began.
fn remote(parent: Option<&TraceContext>) -> Context {
    let parent = parent.and_then(|parent| span_context(&parent.parent, parent.state()));
    parent.map_or_else(Context::new, |parent| {
        Context::new().with_remote_span_context(parent)
    })
}

/// Parses a `traceparent`. Later versions may append fields; version 0 may not.
fn span_context(parent: &str, state: Option<&str>) -> Option<SpanContext> {
    let mut fields = parent.split('-');
    let (version, trace, span, flags) = (
        fields.next()?,
        fields.next()?,
        fields.next()?,
        fields.next()?,
    );
    let hex = |text: &str, length: usize| {
        let digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        text.len() == length && text.bytes().all(digit)
    };
    let shaped = hex(version, 2) && hex(trace, 32) && hex(span, 16) && hex(flags, 2);
    if !shaped || version == "ff" || (version == "00" && fields.next().is_some()) {
        return None;
    }
    let flags = u8::from_str_radix(flags, 16).ok()?;
    let state = state.and_then(|state| TraceState::from_str(state).ok());
    let context = SpanContext::new(
        TraceId::from_hex(trace).ok()?,
        SpanId::from_hex(span).ok()?,
        // Only this flag is defined; the standard forbids passing on others.
        TraceFlags::new(flags) & TraceFlags::SAMPLED,
        true,
        state.unwrap_or_default(),
    );
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";

    #[test]
    fn traceparents_are_validated_against_the_standard() {
        let cases = [
            (format!("00-{TRACE}-b7ad6b7169203331-01"), true),
            (format!("00-{TRACE}-b7ad6b7169203331-00"), true),
            (format!("cc-{TRACE}-b7ad6b7169203331-01-later"), true),
            (format!("00-{TRACE}-b7ad6b7169203331-01-later"), false),
            (format!("ff-{TRACE}-b7ad6b7169203331-01"), false),
            (format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)), false),
            (format!("00-{TRACE}-0000000000000000-01"), false),
            (
                format!("00-{}-b7ad6b7169203331-01", TRACE.to_uppercase()),
                false,
            ),
            (format!("00-{TRACE}-b7ad6b7169203331"), false),
            (format!("00-{TRACE}-b7ad6b716920333-01"), false),
            (String::new(), false),
        ];
        for (text, expected) in cases {
            assert_eq!(TraceContext::new(&text, None).is_some(), expected, "{text}");
        }
    }

    #[test]
    fn trace_contexts_round_trip() {
        let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
        let context = span_context(&parent, Some("a=1,b=2")).unwrap();
        let written = TraceContext::of(&context);
        assert_eq!(written.parent(), parent);
        assert_eq!(written.state(), Some("a=1,b=2"));
    }

    #[test]
    fn an_overlong_tracestate_is_dropped() {
        let parent = format!("00-{TRACE}-b7ad6b7169203331-01");
        let long = "x".repeat(MAX_STATE_BYTES + 1);
        assert_eq!(
            TraceContext::new(&parent, Some(&long)).unwrap().state(),
            None
        );
    }
}
