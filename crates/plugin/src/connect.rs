//! Connects to a plugin's socket, with TLS if its handshake carries a certificate.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint, Uri, server::Connected};
use tower::service_fn;

use crate::{
    PluginError,
    certificate::{Identity, NAME},
    handshake::{Address, Handshake},
};

/// A Unix or TCP socket, with or without TLS.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Socket for T {}

pub(crate) struct PluginStream(pub(crate) Box<dyn Socket>);

/// Connects to the address from the handshake.
pub(crate) async fn connect(
    handshake: &Handshake,
    identity: &Identity,
) -> Result<Channel, PluginError> {
    let unreachable = |error: String| PluginError::Unreachable(error);
    let tls = handshake.certificate.clone();
    let tls = tls.map(|theirs| identity.client(theirs)).transpose();
    let tls = tls.map_err(|error| unreachable(error.to_string()))?;
    let tls = tls.map(|config| TlsConnector::from(Arc::new(config)));
    let address = handshake.address.clone();
    let dial = service_fn(move |_: Uri| {
        let (address, tls) = (address.clone(), tls.clone());
        async move { dial(&address, tls).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static("http://localhost");
    let connecting = endpoint.connect_with_connector(dial).await;
    connecting.map_err(|error| unreachable(innermost(&error)))
}

async fn dial(address: &Address, tls: Option<TlsConnector>) -> io::Result<PluginStream> {
    let plain: Box<dyn Socket> = match address {
        Address::Unix(path) => Box::new(UnixStream::connect(path).await?),
        Address::Tcp(address) => Box::new(TcpStream::connect(address).await?),
    };
    let Some(tls) = tls else {
        return Ok(PluginStream(plain));
    };
    let name = ServerName::try_from(NAME).map_err(io::Error::other)?;
    let stream = tls.connect(name, plain).await?;
    Ok(PluginStream(Box::new(stream)))
}

/// The message of the innermost cause: tonic's own only says `transport error`.
pub(crate) fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

impl AsyncRead for PluginStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for PluginStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

impl Connected for PluginStream {
    type ConnectInfo = ();

    fn connect_info(&self) -> Self::ConnectInfo {}
}
