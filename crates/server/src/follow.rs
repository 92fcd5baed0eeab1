//! resources/subscribe and resources/unsubscribe. The resource is resolved as for reading, and a host may only subscribe to
//! what it may read. Nothing is recorded: a notification says that a resource changed and carries no content.

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

/// Subscribes to a resource on behalf of a stateless host. `false` when the server or the policy refused.
pub(crate) async fn subscribe(providers: &dyn Providers, host: &Arc<Host>, uri: &str) -> bool {
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
    let resource = resource_of(providers, host, &request).await?;
    let asked = providers.follow(host, &resource, request).await;
    asked.map_err(|failure| failure.to_rpc(&method))
}

async fn resource_of(
    providers: &dyn Providers,
    host: &Arc<Host>,
    request: &Frame,
) -> Result<Reference, RpcError> {
    let invalid = |what: &str| RpcError::new(RpcError::INVALID_PARAMS, what);
    let uri = request.param("uri").and_then(|uri| uri.as_str());
    let uri = uri.ok_or_else(|| invalid("`params.uri` must be the URI of a resource"))?;
    let resource = resolve_resource(providers, &host.identity, &uri).await?;
    // A resource of a template is not in the catalog, so the policy judges an item made from the URI alone.
    let descriptor = format!(r#"{{"uri":{}}}"#, quote(&resource.name));
    let item = Item::from_descriptor(ItemKind::Resource, &resource.server, descriptor.into());
    let item = item.map_err(|_| invalid("`params.uri` must be the URI of a resource"))?;
    match providers.policy().shows_item(&item, Some(&host.identity)) {
        true => Ok(resource),
        // The same answer as for a missing resource: a different one would reveal that it exists.
        false => Err(
            RpcError::new(RpcError::RESOURCE_NOT_FOUND, "resource not found")
                .with_data(format!(r#"{{"uri":{}}}"#, quote(&uri))),
        ),
    }
}
