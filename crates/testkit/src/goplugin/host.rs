//! A host on the raw protocol: starts a plugin, shakes hands, and calls its methods by their paths.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use rustls::pki_types::ServerName;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{COOKIE, framed, tls::Identity, unframed};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A plugin that this host has started.
#[derive(Debug)]
pub struct RawHost {
    child: Child,
    sender: SendRequest<Full<Bytes>>,
    /// The line that it answered with.
    pub line: String,
    _folder: TempDir,
}

impl RawHost {
    /// Starts a plugin and connects, in TLS with a certificate of its own where that is wanted.
    pub async fn start(program: &Path, mutual_tls: bool) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let identity = Identity::make()?;
        let mut command = Command::new(program);
        command
            .env(COOKIE.0, COOKIE.1)
            .env("PLUGIN_MIN_PORT", "10000")
            .env("PLUGIN_MAX_PORT", "25000")
            .env("PLUGIN_PROTOCOL_VERSIONS", "1")
            .env("PLUGIN_UNIX_SOCKET_DIR", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        if mutual_tls {
            command.env("PLUGIN_CLIENT_CERT", pem(&identity.certificate));
        }
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().context("it has a pipe")?;
        let mut line = String::new();
        timeout(PATIENCE, BufReader::new(stdout).read_line(&mut line)).await??;
        let parts: Vec<&str> = line.trim_end().split('|').collect();
        let ["1", "1", "unix", socket, "grpc", certificate] = parts.as_slice() else {
            bail!("`{line}` is not a handshake");
        };
        let stream = UnixStream::connect(socket).await?;
        let sender = if mutual_tls {
            let theirs = BASE64_STANDARD_NO_PAD.decode(certificate)?;
            check_shape(&theirs)?;
            let config = Arc::new(identity.client(theirs)?);
            let name = ServerName::try_from("localhost")?;
            let stream = TlsConnector::from(config).connect(name, stream).await?;
            connected(stream).await?
        } else if certificate.is_empty() {
            connected(stream).await?
        } else {
            bail!("it sent an unrequested certificate");
        };
        Ok(Self {
            child,
            sender,
            line,
            _folder: folder,
        })
    }

    /// Calls a method by its path, and gives its answer or the status and text of its failure.
    pub async fn call<Q: Message, A: Message + Default>(
        &mut self,
        path: &str,
        question: &Q,
    ) -> Result<Result<A, (String, String)>> {
        let request = Request::post(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Full::new(Bytes::from(framed(&question.encode_to_vec()))))?;
        let response = timeout(PATIENCE, self.sender.send_request(request)).await??;
        let head = response.headers().clone();
        let body = timeout(PATIENCE, response.into_body().collect()).await??;
        let trailers = body.trailers().cloned().unwrap_or(head);
        let text = |name: &str| {
            let value = trailers.get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        match text("grpc-status").as_str() {
            "0" => Ok(Ok(A::decode(unframed(&body.to_bytes())?)?)),
            code => Ok(Err((code.to_owned(), text("grpc-message")))),
        }
    }

    /// Waits until the plugin has ended, and gives its exit code.
    pub async fn ended(mut self) -> Result<Option<i32>> {
        Ok(timeout(PATIENCE, self.child.wait()).await??.code())
    }
}

async fn connected<S>(stream: S) -> Result<SendRequest<Full<Bytes>>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

/// What Go's verifier wants of a certificate that is its own authority.
fn check_shape(der: &[u8]) -> Result<()> {
    let has = |needle: &[u8]| der.windows(needle.len()).any(|window| window == needle);
    for (what, needle) in [
        ("CA:true", &[0x30, 0x03, 0x01, 0x01, 0xff][..]),
        ("a name", b"localhost"),
        ("server auth", &[0x2b, 6, 1, 5, 5, 7, 3, 1]),
        ("client auth", &[0x2b, 6, 1, 5, 5, 7, 3, 2]),
    ] {
        if !has(needle) {
            bail!("the certificate lacks {what}");
        }
    }
    Ok(())
}

fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).expect("base64 is ASCII"))
        .collect();
    format!(
        "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n",
        lines.join("\n")
    )
}
