//! resolve: a request names exactly one target, or it ends here.

use callgate_gate::{Attempt, Call, ResolveError, ServerName, Target};
use callgate_record::{Failed, Status};
use callgate_wire::{RpcError, methods, quote};

use crate::Providers;

/// An attempt that led nowhere, with what the host and the record are told.
#[derive(Debug)]
pub(crate) struct Unresolved {
    pub(crate) attempt: Attempt,
    pub(crate) server: Option<ServerName>,
    pub(crate) error: RpcError,
}

impl Unresolved {
    /// An attempt for which the view itself has no name.
    pub(crate) fn of_view(attempt: Attempt, error: RpcError) -> Self {
        Self {
            attempt,
            server: None,
            error,
        }
    }

    pub(crate) fn status(&self) -> Status {
        Status::Error
    }

    pub(crate) fn failed(&self) -> Failed {
        Failed {
            code: self.error.code,
            message: self.error.message.clone(),
        }
    }
}

/// Finds the target of an attempt. A server that is still in its first connect is waited for.
pub(crate) async fn resolve(
    providers: &dyn Providers,
    attempt: Attempt,
) -> Result<Call, Unresolved> {
    let method = attempt.frame.method().unwrap_or_default();
    if method != methods::TOOLS_CALL {
        return resolve_method(providers, attempt).await;
    }
    let Some(name) = attempt.frame.param("name").and_then(|name| name.as_str()) else {
        let error = RpcError::new(
            RpcError::INVALID_PARAMS,
            "`params.name` must be the name of a tool",
        );
        return Err(Unresolved {
            attempt,
            server: None,
            error,
        });
    };
    let who = &attempt.host.who;
    let mut found = providers.catalog().resolve(&name, &providers.policy(), who);
    if let Err(error) = &found {
        let server = match error {
            ResolveError::NeverSeen { server } => Some(server),
            ResolveError::UnknownServer { .. }
            | ResolveError::UnknownTool { .. }
            | ResolveError::Unknown { .. } => None,
        };
        if server.is_some() || matches!(error, ResolveError::Unknown { .. }) {
            providers.first_connect(server).await;
            found = providers.catalog().resolve(&name, &providers.policy(), who);
        }
    }
    match found {
        Ok(target) => Ok(Call { attempt, target }),
        Err(error) => Err(nowhere(attempt, error)),
    }
}

/// Any other request passes through to the only server there is; with several, nobody knows
/// whose it would be.
async fn resolve_method(providers: &dyn Providers, attempt: Attempt) -> Result<Call, Unresolved> {
    let method = attempt.frame.method().unwrap_or_default().to_owned();
    match providers.catalog().only_server().cloned() {
        Some(server) => {
            providers.first_connect(Some(&server)).await;
            Ok(Call {
                attempt,
                target: Target::Method { server, method },
            })
        }
        None => {
            let message = format!("method `{method}` not found");
            let error = RpcError::new(RpcError::METHOD_NOT_FOUND, &message);
            Err(Unresolved {
                attempt,
                server: None,
                error,
            })
        }
    }
}

fn nowhere(attempt: Attempt, error: ResolveError) -> Unresolved {
    let message = error.to_string();
    match error {
        ResolveError::NeverSeen { server } => {
            let data = format!(
                r#"{{"namespace":{},"effect":"none"}}"#,
                quote(server.as_str())
            );
            let error = RpcError {
                code: RpcError::UNAVAILABLE,
                message,
                data: Some(data),
            };
            Unresolved {
                attempt,
                server: Some(server),
                error,
            }
        }
        ResolveError::UnknownTool { server, .. } => {
            let error = RpcError::new(RpcError::INVALID_PARAMS, &message);
            Unresolved {
                attempt,
                server: Some(server),
                error,
            }
        }
        ResolveError::UnknownServer { .. } | ResolveError::Unknown { .. } => {
            let error = RpcError::new(RpcError::INVALID_PARAMS, &message);
            Unresolved {
                attempt,
                server: None,
                error,
            }
        }
    }
}
