//! resources/subscribe and resources/unsubscribe: the resource is found as for reading, and only what a
//! host may read it may follow. Nothing is recorded: what is told is that something changed, not what.

use std::sync::Arc;

use bytes::Bytes;
use callgate_call::{Providers, Reply, resolve_resource};
use callgate_gate::{Host, Item, ItemKind, Reference};
use callgate_wire::{Frame, Id, RpcError, Strictness, message, methods, quote};

/// Answers the request under the host's id.
pub(crate) async fn follow(
    providers: &dyn Providers,
    host: &Arc<Host>,
    id: &Id,
    request: Frame,
) -> Bytes {
    match ask(providers, host, request).await {
        Ok(Some(reply)) => reply.frame.edit().id(id).finish(),
        Ok(None) => message::result(id, "{}"),
        Err(error) => message::error(Some(id), &error),
    }
}

/// Begins to follow a resource for a host that was not asked to say so itself; whether it is followed.
pub(crate) async fn begin(providers: &dyn Providers, host: &Arc<Host>, uri: &str) -> bool {
    let params = format!(r#"{{"uri":{}}}"#, quote(uri));
    let request = message::request(&Id::number(0), methods::RESOURCES_SUBSCRIBE, Some(&params));
    let Ok(request) = Frame::parse(request, Strictness::Envelope) else {
        return false;
    };
    match ask(providers, host, request).await {
        Ok(Some(reply)) => reply.frame.result().is_some(),
        Ok(None) => true,
        Err(_) => false,
    }
}

async fn ask(
    providers: &dyn Providers,
    host: &Arc<Host>,
    request: Frame,
) -> Result<Option<Reply>, RpcError> {
    let method = request.method().unwrap_or_default().to_owned();
    let resource = wanted(providers, host, &request).await?;
    let asked = providers.follow(host, &resource, request).await;
    asked.map_err(|failure| failure.to_rpc(&method))
}

async fn wanted(
    providers: &dyn Providers,
    host: &Arc<Host>,
    request: &Frame,
) -> Result<Reference, RpcError> {
    let invalid = |what: &str| RpcError::new(RpcError::INVALID_PARAMS, what);
    let uri = request.param("uri").and_then(|uri| uri.as_str());
    let uri = uri.ok_or_else(|| invalid("`params.uri` must be the URI of a resource"))?;
    let resource = resolve_resource(providers, &uri).await?;
    let descriptor = format!(r#"{{"uri":{}}}"#, quote(&resource.name));
    let item = Item::from_descriptor(ItemKind::Resource, &resource.server, descriptor.into());
    let item = item.map_err(|_| invalid("`params.uri` must be the URI of a resource"))?;
    match providers.policy().shows_item(&item, Some(&host.who)) {
        true => Ok(resource),
        // What may not be read is told of as if it were not there, as in lists.
        false => Err(
            RpcError::new(RpcError::RESOURCE_NOT_FOUND, "resource not found")
                .with_data(format!(r#"{{"uri":{}}}"#, quote(&uri))),
        ),
    }
}
