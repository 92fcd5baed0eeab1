//! The running `serve` of a data folder: where it is, and what it says to the admin.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use http_body_util::{BodyExt, Full};
use hyper::{Request, body::Bytes, header, http::request::Builder};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;

use crate::exit::Failed;

/// The file that a running `serve` leaves in the data folder.
const RUN_FILE: &str = "serve.json";
/// How long a gateway on this machine may take to answer.
const DEADLINE: Duration = Duration::from_secs(5);

/// Where a gateway is served.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunFile {
    /// Its process.
    pub(crate) pid: u32,
    /// Its address.
    pub(crate) address: String,
    /// The configuration file that it uses.
    #[serde(default)]
    pub(crate) config: Option<PathBuf>,
}

impl RunFile {
    /// Leaves the note.
    pub(crate) fn write(&self, data_dir: &Path) -> Result<(), Failed> {
        let file = data_dir.join(RUN_FILE);
        let text = serde_json::to_vec(self).map_err(|error| Failed::system(error.to_string()))?;
        fs::write(&file, text)
            .map_err(|error| Failed::system(format!("`{}`: {error}", file.display())))
    }

    /// Takes the note back, if it is ours.
    pub(crate) fn remove(&self, data_dir: &Path) {
        if Self::read(data_dir).is_some_and(|noted| noted.pid == self.pid) {
            let _ = fs::remove_file(data_dir.join(RUN_FILE));
        }
    }

    /// The note in a data folder; whoever left it may be gone.
    pub(crate) fn read(data_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(data_dir.join(RUN_FILE)).ok()?).ok()
    }
}

/// The gateway that serves this data folder, if one answers.
pub(crate) async fn running(data_dir: &Path) -> Option<RunFile> {
    let noted = RunFile::read(data_dir)?;
    get(&noted, "/healthz", None).await.ok()?;
    Some(noted)
}

/// Asks a running gateway.
pub(crate) async fn get(
    gateway: &RunFile,
    path: &str,
    token: Option<&str>,
) -> Result<Bytes, Failed> {
    let mut request = Request::get(path);
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let asked = send(gateway, request, String::new());
    let (status, body) = match tokio::time::timeout(DEADLINE, asked).await {
        Ok(answered) => answered?,
        Err(_) => return Err(failed(gateway, "it does not answer")),
    };
    if (200..300).contains(&status) {
        Ok(body)
    } else {
        Err(failed(gateway, format!("it answered {status}")))
    }
}

/// Has a running gateway do something, as long as that takes; gives the status and the body of its answer.
pub(crate) async fn post(
    gateway: &RunFile,
    path: &str,
    token: &str,
    body: String,
) -> Result<(u16, Bytes), Failed> {
    let request = Request::post(path)
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::CONTENT_TYPE, "application/json")
        .header("Callgate-Source", "cli");
    send(gateway, request, body).await
}

fn failed(gateway: &RunFile, what: impl std::fmt::Display) -> Failed {
    Failed::execution(format!("the gateway at {}: {what}", gateway.address))
}

async fn send(gateway: &RunFile, request: Builder, body: String) -> Result<(u16, Bytes), Failed> {
    let stream = TcpStream::connect(&gateway.address).await;
    let stream = stream.map_err(|error| failed(gateway, error))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| failed(gateway, error))?;
    let connection = tokio::spawn(connection);
    let request = request.header(header::HOST, &gateway.address);
    let request = request.body(Full::new(Bytes::from(body)));
    let request = request.map_err(|error| failed(gateway, error))?;
    let response = sender.send_request(request).await;
    let response = response.map_err(|error| failed(gateway, error))?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await;
    let body = body.map_err(|error| failed(gateway, error))?;
    connection.abort();
    Ok((status, body.to_bytes()))
}
