//! resolve: finds the one target that a request names, or ends the attempt.

use std::borrow::Cow;

use callgate_gate::{
    Attempt, Call, CallerIdentity, Reference, ResolveError, ServerName, Target, respelled,
};
use callgate_record::{Failed, Status};
use callgate_wire::{Frame, Json, RpcError, Strictness, methods, quote};

use crate::Providers;

/// The code of the error for a quarantined tool.
pub const QUARANTINED: &str = "TOOL_QUARANTINED";

/// The prefix of methods about tasks.
const ABOUT_TASKS: &str = "tasks/";

/// The members of a completion's `ref`.
const REFERENCE: [&str; 3] = ["type", "name", "uri"];

/// An attempt without a target, with the error for the host and the record.
#[derive(Debug)]
pub(crate) struct Unresolved {
    pub(crate) attempt: Attempt,
    pub(crate) server: Option<ServerName>,
    pub(crate) error: RpcError,
    pub(crate) status: Status,
}

impl Unresolved {
    /// An attempt with a name that the view does not have.
    pub(crate) fn of_view(attempt: Attempt, error: RpcError) -> Self {
        Self {
            attempt,
            server: None,
            error,
            status: Status::Error,
        }
    }

    pub(crate) fn failed(&self) -> Failed {
        Failed {
            code: self.error.code,
            message: self.error.message.clone(),
        }
    }
}

/// Finds the target of an attempt. Waits for a server that is in its first connect.
pub(crate) async fn resolve(
    providers: &dyn Providers,
    attempt: Attempt,
) -> Result<Call, Unresolved> {
    let asked = match RequestedTarget::read(&attempt.frame) {
        Ok(Some(asked)) => asked,
        Ok(None) => match task(providers, &attempt) {
            // Boxed to keep the future of tool calls small.
            None => return Box::pin(resolve_method(providers, attempt)).await,
            Some(Ok(target)) => return Ok(Call { attempt, target }),
            Some(Err(error)) => {
                let server = None;
                return Err(Unresolved {
                    attempt,
                    server,
                    error,
                    status: Status::Error,
                });
            }
        },
        Err(message) => {
            let error = RpcError::new(RpcError::INVALID_PARAMS, message);
            return Err(Unresolved {
                attempt,
                server: None,
                error,
                status: Status::Error,
            });
        }
    };
    let identity = &attempt.host.identity;
    let mut found = asked.find(providers, identity);
    // Looked up first and waited for only on failure: the common case must not wait for a slow server that it does not call.
    if let Err(error) = &found
        && let Some(server) = worth_waiting_for(error)
    {
        providers.first_connect(server).await;
        found = asked.find(providers, identity);
    }
    match found {
        Ok(target) => Ok(with_own_uri(attempt, target)),
        Err(error) => Err(unresolved(attempt, error)),
    }
}

/// The call with the server's own URI in place of a wrapped one, so that policy and record see what the server will get.
fn with_own_uri(mut attempt: Attempt, target: Target) -> Call {
    let frame = &attempt.frame;
    let is_own = |asked: Option<Json<'_>>, of: &Reference| {
        let asked = asked.and_then(|uri| uri.as_str());
        asked.is_none_or(|uri| uri == of.name.as_str())
    };
    let edited = match &target {
        Target::Resource(of) if !is_own(frame.param("uri"), of) => {
            Some(frame.edit().param("uri", &quote(&of.name)).finish())
        }
        Target::Completion(of) => frame.param("ref").and_then(|reference| {
            let own = respelled(&frame.share(reference), "uri", &of.name);
            let own = std::str::from_utf8(&own).ok()?;
            let is_wrapped = !is_own(reference.get("uri"), of);
            is_wrapped.then(|| frame.edit().param("ref", own).finish())
        }),
        Target::Tool(_) | Target::Prompt(_) | Target::Resource(_) | Target::Method { .. } => None,
    };
    if let Some(frame) = edited.and_then(|bytes| Frame::parse(bytes, Strictness::Full).ok()) {
        attempt.frame = frame;
    }
    Call { attempt, target }
}

/// The name or URI in a request.
#[derive(Debug)]
enum RequestedTarget<'f> {
    Tool(Cow<'f, str>),
    Prompt(Cow<'f, str>),
    Resource(Cow<'f, str>),
    CompletionOfPrompt(Cow<'f, str>),
    CompletionOfResource(Cow<'f, str>),
}

impl<'f> RequestedTarget<'f> {
    /// `None` for methods without a name or URI.
    fn read(frame: &'f Frame) -> Result<Option<Self>, &'static str> {
        let param = |key| frame.param(key).and_then(|value| value.as_str());
        let asked = match frame.method().unwrap_or_default() {
            methods::TOOLS_CALL => {
                let name = param("name").ok_or("`params.name` must be the name of a tool")?;
                Self::Tool(name)
            }
            methods::PROMPTS_GET => {
                let name = param("name").ok_or("`params.name` must be the name of a prompt")?;
                Self::Prompt(name)
            }
            methods::RESOURCES_READ => {
                let uri = param("uri").ok_or("`params.uri` must be the URI of a resource")?;
                Self::Resource(uri)
            }
            methods::COMPLETE => Self::completion(frame.param("ref"))?,
            _ => return Ok(None),
        };
        Ok(Some(asked))
    }

    fn completion(reference: Option<Json<'f>>) -> Result<Self, &'static str> {
        const WHAT: &str =
            "`params.ref` must be a `ref/prompt` with a `name` or a `ref/resource` with a `uri`";
        let reference = reference.ok_or(WHAT)?;
        // A server that ignores case could read `Name` where policy read `name`, and complete another reference.
        let is_case_variant = |key: Json<'_>| {
            key.as_str().is_some_and(|key| {
                let lower = key.to_lowercase();
                REFERENCE.contains(&lower.as_str()) && !REFERENCE.contains(&&*key)
            })
        };
        if reference.members().any(|(key, _)| is_case_variant(key)) {
            return Err("a member of `params.ref` differs from a known member only in case");
        }
        let member = |key| reference.get(key).and_then(|value| value.as_str());
        let completion = match member("type").as_deref() {
            Some("ref/prompt") => member("name").map(Self::CompletionOfPrompt),
            Some("ref/resource") => member("uri").map(Self::CompletionOfResource),
            Some(_) | None => None,
        };
        completion.ok_or(WHAT)
    }

    fn find(
        &self,
        providers: &dyn Providers,
        identity: &CallerIdentity,
    ) -> Result<Target, ResolveError> {
        let (catalog, policy) = (providers.catalog(), providers.policy());
        let said_by = |uri| providers.links().said_by(&identity.owner(), uri);
        match self {
            Self::Tool(name) => catalog.resolve(name, &policy, identity),
            Self::Prompt(name) => catalog.prompt(name, &policy, identity).map(Target::Prompt),
            Self::Resource(uri) => {
                let found = catalog.resource(uri, said_by(uri).as_ref());
                found.map(Target::Resource)
            }
            Self::CompletionOfPrompt(name) => catalog
                .prompt(name, &policy, identity)
                .map(Target::Completion),
            Self::CompletionOfResource(uri) => {
                let found = catalog.template(uri, said_by(uri).as_ref());
                found.map(Target::Completion)
            }
        }
    }
}

/// The resource of a URI. Waits for servers in their first connect if no known one has it.
pub async fn resolve_resource(
    providers: &dyn Providers,
    identity: &CallerIdentity,
    uri: &str,
) -> Result<Reference, RpcError> {
    let find = || {
        let said_by = providers.links().said_by(&identity.owner(), uri);
        providers.catalog().resource(uri, said_by.as_ref())
    };
    let mut found = find();
    if found.is_err() {
        providers.first_connect(None).await;
        found = find();
    }
    found.map_err(|error| to_rpc(&error))
}

/// Whether waiting for a first connect could help, and for which server: `Some(None)` means any.
fn worth_waiting_for(error: &ResolveError) -> Option<Option<&ServerName>> {
    match error {
        ResolveError::NeverSeen { server } => Some(Some(server)),
        ResolveError::Unknown { .. } | ResolveError::UnknownResource { .. } => Some(None),
        ResolveError::UnknownServer { .. }
        | ResolveError::NotOfServer { .. }
        | ResolveError::AmbiguousResource { .. }
        | ResolveError::Quarantined { .. } => None,
    }
}

/// The target of a request about a task; `None` for other requests.
fn task(providers: &dyn Providers, attempt: &Attempt) -> Option<Result<Target, RpcError>> {
    let frame = &attempt.frame;
    let method = frame.method().unwrap_or_default();
    if !method.starts_with(ABOUT_TASKS) || method == methods::TASKS_LIST {
        return None;
    }
    let catalog = providers.catalog();
    let id = frame.param("taskId").and_then(|id| id.as_str());
    // With a single server, hosts see its own ids; with several, ids carry the server.
    let named = id.as_deref().and_then(|id| match catalog.only_server() {
        Some(only) => Some((only.clone(), id.to_owned(), None)),
        None => {
            let (server, own) = catalog.task(id)?;
            Some((server, own.clone(), Some(own)))
        }
    });
    let identity = &attempt.host.identity;
    // Checked here and answered like an unknown id: other tokens must not learn that the task exists.
    let own = named.filter(|(server, id, _)| providers.owns_task(identity, server, id));
    let found = own.map(|(server, _, task)| Target::Method {
        server,
        method: method.to_owned(),
        task,
    });
    let unknown = || {
        RpcError::new(
            RpcError::INVALID_PARAMS,
            "`params.taskId` must be the id of a known task",
        )
    };
    Some(found.ok_or_else(unknown))
}

/// Any other method goes to the server if there is exactly one. With several it would be ambiguous.
async fn resolve_method(providers: &dyn Providers, attempt: Attempt) -> Result<Call, Unresolved> {
    let method = attempt.frame.method().unwrap_or_default().to_owned();
    match providers.catalog().only_server().cloned() {
        Some(server) => {
            providers.first_connect(Some(&server)).await;
            Ok(Call {
                attempt,
                target: Target::Method {
                    server,
                    method,
                    task: None,
                },
            })
        }
        None => {
            let message = format!("method `{method}` not found");
            let error = RpcError::new(RpcError::METHOD_NOT_FOUND, &message);
            Err(Unresolved {
                attempt,
                server: None,
                error,
                status: Status::Error,
            })
        }
    }
}

fn unresolved(attempt: Attempt, error: ResolveError) -> Unresolved {
    let told = match &error {
        // On other methods -32002 means a missing resource.
        ResolveError::NeverSeen { .. } if attempt.frame.method() != Some(methods::TOOLS_CALL) => {
            RpcError {
                code: RpcError::INTERNAL,
                ..to_rpc(&error)
            }
        }
        ResolveError::NeverSeen { .. }
        | ResolveError::UnknownServer { .. }
        | ResolveError::NotOfServer { .. }
        | ResolveError::Quarantined { .. }
        | ResolveError::Unknown { .. }
        | ResolveError::AmbiguousResource { .. }
        | ResolveError::UnknownResource { .. } => to_rpc(&error),
    };
    let (server, status) = match error {
        ResolveError::NeverSeen { server } | ResolveError::NotOfServer { server, .. } => {
            (Some(server), Status::Error)
        }
        ResolveError::Quarantined { server, .. } => (Some(server), Status::Blocked),
        ResolveError::UnknownServer { .. }
        | ResolveError::Unknown { .. }
        | ResolveError::AmbiguousResource { .. }
        | ResolveError::UnknownResource { .. } => (None, Status::Error),
    };
    Unresolved {
        attempt,
        server,
        error: told,
        status,
    }
}

fn to_rpc(error: &ResolveError) -> RpcError {
    let message = error.to_string();
    match error {
        ResolveError::NeverSeen { server } => {
            let namespace = quote(server.as_str());
            let data = format!(r#"{{"namespace":{namespace},"effect":"none"}}"#);
            RpcError::new(RpcError::UNAVAILABLE, message).with_data(data)
        }
        ResolveError::UnknownResource { uri } => {
            let data = format!(r#"{{"uri":{}}}"#, quote(uri));
            RpcError::new(RpcError::RESOURCE_NOT_FOUND, message).with_data(data)
        }
        ResolveError::AmbiguousResource { uri, choices } => {
            let [one, two] = choices.each_ref().map(|choice| quote(choice));
            let data = format!(r#"{{"uri":{},"choices":[{one},{two}]}}"#, quote(uri));
            RpcError::new(RpcError::INVALID_PARAMS, message).with_data(data)
        }
        ResolveError::Quarantined { .. } => {
            let data = format!(r#"{{"code":{}}}"#, quote(QUARANTINED));
            RpcError::new(RpcError::INVALID_PARAMS, message).with_data(data)
        }
        ResolveError::UnknownServer { .. }
        | ResolveError::NotOfServer { .. }
        | ResolveError::Unknown { .. } => RpcError::new(RpcError::INVALID_PARAMS, message),
    }
}
