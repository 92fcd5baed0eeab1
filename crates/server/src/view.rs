//! Views: what hosts see of the tools there are, and how what they call is understood.
//!
//! A view is chosen for each request, by the URL, the token or a flag. It answers `tools/list`, and makes of a
//! `tools/call` one call for the path ([`Taken::Call`]), a script that makes calls ([`Taken::Run`]), or something
//! that it answers itself ([`Taken::Own`]). It has no way to a provider: whatever has an effect is a call. Every
//! door puts its requests on the path with [`start`].

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
    list::{self, Lists, Wanted},
};
use code::{Code, CodeSettings};
use results::Results;
use search::SearchIndex;

/// What the views are told by the configuration; it may change while they serve.
#[derive(Debug, Clone, PartialEq)]
pub struct ViewSettings {
    /// What hosts see where nothing else is asked for.
    pub default: View,
    /// How strictly declared intent is taken.
    pub intent: IntentRules,
    /// How an intent is written in the schemas; by the client's name when nothing is said.
    pub form: Option<IntentForm>,
    /// How much a search tells about each tool where nothing else is asked for.
    pub detail: Detail,
    /// A longer result becomes a handle.
    pub inline_chars: usize,
    /// The `code` view.
    pub code: CodeSettings,
}

/// How the schemas say that an intent is written. Both spellings are always understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntentForm {
    /// As an object, `intent`.
    Nested,
    /// Beside the name, for models that cannot write nested objects.
    Flat,
}

/// How much a search tells about each tool.
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

/// What the views share.
#[derive(Debug, Default)]
pub(crate) struct Views {
    settings: ArcSwap<ViewSettings>,
    pub(crate) lists: Lists,
    pub(crate) search_index: SearchIndex,
    pub(crate) results: Results,
    pub(crate) code: Code,
}

impl Views {
    /// The settings as they are now.
    pub(crate) fn settings(&self) -> Arc<ViewSettings> {
        self.settings.load_full()
    }

    /// What hosts see where nothing else is asked for.
    pub(crate) fn default_view(&self) -> View {
        self.settings.load().default
    }

    /// Other settings from now on.
    pub(crate) fn set(&self, settings: ViewSettings) {
        self.settings.store(Arc::new(settings));
    }
}

/// Where a request was asked.
pub(crate) struct AskedAt {
    pub(crate) host: Arc<Host>,
    pub(crate) door: Door,
    pub(crate) caller: Arc<dyn Caller>,
}

/// A request on its way to its answer.
pub(crate) enum Started {
    /// On the path; its answer may be put into another shape.
    Call(Pending, Option<Shape>),
    /// Something that the view answers itself.
    Own(Own),
}

/// The result of something that a view answers itself.
type Own = BoxFuture<'static, Result<String, RpcError>>;

/// What a view makes of a `tools/call`.
enum Taken {
    /// One call, whose answer may be put into another shape.
    Call {
        frame: Frame,
        reading: Reading,
        shape: Option<Shape>,
    },
    /// A script, whose calls are calls.
    Run(Box<code::Run>),
    /// Something that the view answers itself.
    Own(Own),
}

/// What becomes of an answer before the host gets it.
pub(crate) type Shape = Box<dyn FnOnce(Pieces) -> Pieces + Send>;

/// The result of one list, as hosts of this one's era read it. Prompts and resources are the same in every view.
pub(crate) async fn list(
    gateway: &Gateway,
    view: View,
    host: &Host,
    wanted: Wanted,
    request: &Frame,
) -> Result<Bytes, RpcError> {
    let own = match (view, wanted) {
        (View::Direct, _) | (View::Search | View::Code, Wanted::Items(_)) => {
            return list::list(gateway, host, wanted, request).await;
        }
        (View::Search, Wanted::Tools) => search::list(gateway, host).await,
        (View::Code, Wanted::Tools) => code::list(gateway, host).await,
    };
    Ok(list::for_era(host.era, wanted, own))
}

/// Puts a request that is not the session's own business on the path, as the view understands it.
pub(crate) fn start(
    gateway: &Gateway,
    view: View,
    at: AskedAt,
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
        Taken::Call {
            frame,
            reading,
            shape,
        } => {
            let received = received(frame, reading);
            Started::Call(gateway.path.start(received, at.caller), shape)
        }
        Taken::Run(run) => {
            let received = received(run.frame.clone(), Reading::Plain);
            let work = run.work(gateway.clone(), at);
            Started::Call(gateway.path.run_script(received, work), None)
        }
        Taken::Own(own) => Started::Own(own),
    }
}

fn take(gateway: &Gateway, view: View, host: &Arc<Host>, frame: Frame) -> Taken {
    match view {
        View::Direct => Taken::Call {
            frame,
            reading: Reading::Plain,
            shape: None,
        },
        View::Search => search::take(gateway, host, frame),
        View::Code => code::take(frame),
    }
}
