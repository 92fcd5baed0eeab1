//! The plugin's side of the handshake: cookie, socket, handshake line, and TLS if the host sent a certificate.

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
    connect::PluginStream,
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

/// The time limit for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Larger requests are refused.
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
    // Hosts read the first line of stdout as the handshake, so nothing may be printed before it.
    let line = format!(
        "{CORE_VERSION}|{APP_VERSION}|unix|{}|grpc|{shown}",
        socket.display()
    );
    let mut stdout = io::stdout();
    writeln!(stdout, "{line}")?;
    stdout.flush()?;
    let shutdown_token = CancellationToken::new();
    let services = Services {
        server: Arc::new(server),
        shutdown_token: shutdown_token.clone(),
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
        .serve_with_incoming_shutdown(incoming(listener, tls), shutdown_token.cancelled());
    serving
        .await
        .map_err(|error| ServeError::Serve(crate::connect::innermost(&error)))
}

/// The TLS acceptor if the host sent a certificate, and our certificate for the handshake line.
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

/// Accepted connections. A failed TLS handshake drops only its own connection.
fn incoming(
    listener: UnixListener,
    tls: Option<TlsAcceptor>,
) -> impl Stream<Item = io::Result<PluginStream>> {
    stream::unfold((listener, tls), |(listener, tls)| async move {
        loop {
            let plain = match listener.accept().await {
                Ok((plain, _)) => plain,
                Err(error) => return Some((Err(error), (listener, tls))),
            };
            let Some(acceptor) = &tls else {
                return Some((Ok(PluginStream(Box::new(plain))), (listener, tls)));
            };
            if let Ok(Ok(stream)) = timeout(HANDSHAKE_TIMEOUT, acceptor.accept(plain)).await {
                return Some((Ok(PluginStream(Box::new(stream))), (listener, tls)));
            }
        }
    })
}
