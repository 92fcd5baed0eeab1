//! Views: which tools a host sees, and how its `tools/call` requests are interpreted.
//!
//! The URL, the token or a flag chooses a view per request. A view answers `tools/list` and turns a `tools/call` into one
//! call for the path ([`Interpreted::Call`]), a script that makes calls ([`Interpreted::Run`]), or an answer of its own
//! ([`Interpreted::Own`]). A view cannot reach a provider: everything that has an effect is a call. Every door starts its
//! requests with [`start`].

pub(crate) mod code;
pub(crate) mod results;
pub(crate) mod search;

use std::sync::Arc;

use arc_swap::ArcSwap;
use bytes::Bytes;
use callgate_call::{Caller, Pending, Reading, Received, TraceContext};
use callgate_gate::{Door, Host, IntentRules, View};
use callgate_wire::{Frame, Pieces, RpcError};
use futures_util::future::BoxFuture;

use crate::{
    Gateway,
    list::{self, ListKind, Lists},
};
use code::{Code, CodeSettings};
use results::Results;
use search::SearchIndex;

/// The configuration of the views. It may change while they serve.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewSettings {
    /// The view for requests that choose none.
    pub default: View,
    /// How strictly declared intent is checked.
    pub intent: IntentRules,
    /// How the schemas present an intent; chosen by the client's name when `None`.
    pub form: Option<IntentForm>,
    /// The detail of search results when the caller does not ask for one.
    pub detail: Detail,
    /// Results longer than this, in characters, become a handle.
    pub inline_chars: usize,
    pub code: CodeSettings,
}

/// How the schemas present an intent. Both forms are always accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntentForm {
    /// As an object named `intent`.
    Nested,
    /// As parameters beside the name, for models that get nested objects wrong.
    Flat,
}

/// The detail of a search result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// A one-line signature.
    Compact,
    /// The whole schema.
    Full,
}

impl Default for ViewSettings {
    fn default() -> Self {
        Self {
            default: View::Direct,
            intent: IntentRules::default(),
            form: None,
            detail: Detail::Full,
            inline_chars: 20_000,
            code: CodeSettings::default(),
        }
    }
}

/// State of the views, shared by all hosts.
#[derive(Debug, Default)]
pub(crate) struct Views {
    settings: ArcSwap<ViewSettings>,
    pub(crate) lists: Lists,
    pub(crate) search_index: SearchIndex,
    pub(crate) results: Results,
    pub(crate) code: Code,
}

impl Views {
    pub(crate) fn settings(&self) -> Arc<ViewSettings> {
        self.settings.load_full()
    }

    /// The view for requests that choose none.
    pub(crate) fn default_view(&self) -> View {
        self.settings.load().default
    }

    pub(crate) fn set(&self, settings: ViewSettings) {
        self.settings.store(Arc::new(settings));
    }
}

/// The origin of a request: host, door and the way back.
pub(crate) struct RequestOrigin {
    pub(crate) host: Arc<Host>,
    pub(crate) door: Door,
    pub(crate) caller: Arc<dyn Caller>,
}

pub(crate) enum Started {
    /// A call on the path, with an optional change to its answer.
    Call(Pending, Option<Shape>),
    /// A request that the view answers itself.
    Own(Own),
}

/// The result of a request that the view answers itself.
type Own = BoxFuture<'static, Result<String, RpcError>>;

/// A view's interpretation of a `tools/call`.
enum Interpreted {
    /// One call, with an optional change to its answer.
    Call {
        frame: Frame,
        reading: Reading,
        shape: Option<Shape>,
    },
    /// A script. Each call that it makes goes through the path.
    Run(Box<code::Run>),
    /// A request that the view answers itself.
    Own(Own),
}

/// A change to an answer before the host gets it.
pub(crate) type Shape = Box<dyn FnOnce(Pieces) -> Pieces + Send>;

/// The result of one list, in the form of the host's era. Prompts and resources are the same in every view.
pub(crate) async fn list(
    gateway: &Gateway,
    view: View,
    host: &Host,
    wanted: ListKind,
    request: &Frame,
) -> Result<Bytes, RpcError> {
    gateway.path.providers().first_connect(None).await;
    gateway.path.providers().ready_for(host).await;
    let own = match (view, wanted) {
        // Scripts and search results hold tools only; prompts and resources have no other way to be found.
        (View::Direct, _) | (View::Search | View::Code, ListKind::Items(_)) => {
            return list::list(gateway, host, wanted, request).await;
        }
        (View::Search, ListKind::Tools) => search::list(gateway, host).await,
        (View::Code, ListKind::Tools) => code::list(gateway, host).await,
    };
    Ok(list::for_era(host.era, wanted, own))
}

/// Starts a request that the session does not answer itself, as the view interprets it.
pub(crate) fn start(
    gateway: &Gateway,
    view: View,
    at: RequestOrigin,
    trace: Option<TraceContext>,
    request: Frame,
) -> Started {
    let received = |frame, reading| Received {
        frame,
        host: at.host.clone(),
        door: at.door,
        trace,
        reading,
    };
    match take(gateway, view, &at.host, request) {
        Interpreted::Call {
            frame,
            reading,
            shape,
        } => {
            let received = received(frame, reading);
            Started::Call(gateway.path.start(received, at.caller), shape)
        }
        Interpreted::Run(run) => {
            // The run itself is recorded as it was sent; its calls follow as children of that record.
            let received = received(run.frame.clone(), Reading::Plain);
            let work = run.work(gateway.clone(), at);
            Started::Call(gateway.path.run_script(received, work), None)
        }
        Interpreted::Own(own) => Started::Own(own),
    }
}

fn take(gateway: &Gateway, view: View, host: &Arc<Host>, frame: Frame) -> Interpreted {
    match view {
        View::Direct => Interpreted::Call {
            frame,
            reading: Reading::Plain,
            shape: None,
        },
        View::Search => search::take(gateway, host, frame),
        View::Code => code::take(frame),
    }
}
