//! How a plugin is reached: the cookie, the socket, the line, and TLS where the host has a certificate.

use std::{
    env,
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use base64::{Engine, prelude::BASE64_STANDARD_NO_PAD};
use futures_util::stream::{self, Stream};
use tokio::{net::UnixListener, time::timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tonic::transport;

use super::{ServeError, Server, services::Services};
use crate::{
    certificate::{self, Identity},
    connect::Wire,
    handshake::{
        APP_VERSION, CLIENT_CERT, COOKIE_KEY, COOKIE_VALUE, CORE_VERSION, SOCKET_DIR, VERSIONS,
    },
    proto::{
        go::{
            grpc_broker_server::GrpcBrokerServer, grpc_controller_server::GrpcControllerServer,
            grpc_stdio_server::GrpcStdioServer,
        },
        health::health_server::HealthServer,
        v1::{
            operation_service_server::OperationServiceServer,
            plugin_service_server::PluginServiceServer,
        },
    },
};

/// How long a host may take to shake hands.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Largest request that is read.
const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;

pub(super) async fn serve(server: Server) -> Result<(), ServeError> {
    if env::var(COOKIE_KEY).as_deref() != Ok(COOKIE_VALUE) {
        return Err(ServeError::NoHost);
    }
    let versions = env::var(VERSIONS).unwrap_or_else(|_| APP_VERSION.to_owned());
    if !versions
        .split(',')
        .any(|version| version.trim() == APP_VERSION)
    {
        return Err(ServeError::Version(versions));
    }
    let base = env::var_os(SOCKET_DIR).filter(|folder| !folder.is_empty());
    let base = base.map_or_else(env::temp_dir, PathBuf::from);
    let folder = tempfile::Builder::new().prefix("plugin").tempdir_in(base)?;
    let socket = folder.path().join("s");
    let listener = UnixListener::bind(&socket)?;
    let (tls, shown) = tls()?;
    // The one line that a host reads; nothing may come before it.
    let line = format!(
        "{CORE_VERSION}|{APP_VERSION}|unix|{}|grpc|{shown}",
        socket.display()
    );
    let mut stdout = io::stdout();
    writeln!(stdout, "{line}")?;
    stdout.flush()?;
    let over = CancellationToken::new();
    let services = Services {
        server: Arc::new(server),
        over: over.clone(),
    };
    let serving = transport::Server::builder()
        .add_service(PluginServiceServer::new(services.clone()))
        .add_service(
            OperationServiceServer::new(services.clone())
                .max_decoding_message_size(MAX_REQUEST_BYTES),
        )
        .add_service(GrpcControllerServer::new(services.clone()))
        .add_service(GrpcBrokerServer::new(services.clone()))
        .add_service(GrpcStdioServer::new(services.clone()))
        .add_service(HealthServer::new(services))
        .serve_with_incoming_shutdown(incoming(listener, tls), over.cancelled());
    serving
        .await
        .map_err(|error| ServeError::Serve(crate::connect::innermost(&error)))
}

/// How connections are accepted where the host has a certificate, and ours for its line.
fn tls() -> Result<(Option<TlsAcceptor>, String), ServeError> {
    let Ok(theirs) = env::var(CLIENT_CERT) else {
        return Ok((None, String::new()));
    };
    let theirs = certificate::from_pem(&theirs).ok_or(ServeError::Certificate)?;
    let identity = Identity::make()?;
    let config = identity.server(theirs);
    let config = config.map_err(|error| ServeError::Serve(error.to_string()))?;
    let shown = BASE64_STANDARD_NO_PAD.encode(identity.der());
    Ok((Some(TlsAcceptor::from(Arc::new(config))), shown))
}

/// Connections as they come. One that does not shake hands as it should is dropped, and the next one is
/// waited for.
fn incoming(
    listener: UnixListener,
    tls: Option<TlsAcceptor>,
) -> impl Stream<Item = io::Result<Wire>> {
    stream::unfold((listener, tls), |(listener, tls)| async move {
        loop {
            let plain = match listener.accept().await {
                Ok((plain, _)) => plain,
                Err(error) => return Some((Err(error), (listener, tls))),
            };
            let Some(acceptor) = &tls else {
                return Some((Ok(Wire(Box::new(plain))), (listener, tls)));
            };
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, acceptor.accept(plain)).await {
                return Some((Ok(Wire(Box::new(stream))), (listener, tls)));
            }
        }
    })
}
