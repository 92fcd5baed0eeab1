//! Resolving names.

use std::{
    fmt, io,
    net::{IpAddr, ToSocketAddrs},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;

/// How many lookups of one proxy run at the same time. A lookup holds a thread of the runtime and cannot be cancelled.
const LOOKUPS: usize = 8;

/// Finds the addresses of a name.
pub trait Resolver: fmt::Debug + Send + Sync {
    /// The addresses of a name; `name` is in canonical form.
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// The system's resolver.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            lookups: Arc::new(Semaphore::new(LOOKUPS)),
        }
    }
}

impl Resolver for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let lookup = self.lookups.clone().acquire_owned().await;
            let lookup = lookup.map_err(io::Error::other)?;
            let name = name.to_owned();
            let resolving = tokio::task::spawn_blocking(move || {
                // The thread keeps the permit even if the connection has been given up.
                let _lookup = lookup;
                let found = (name.as_str(), 0).to_socket_addrs()?;
                Ok(found.map(|address| address.ip()).collect())
            });
            resolving.await.map_err(io::Error::other)?
        })
    }
}
