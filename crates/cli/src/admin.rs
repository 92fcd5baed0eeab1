//! The running `serve` of a data folder: where it is, and what it says to the admin.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use http_body_util::{BodyExt, Empty};
use hyper::{Method, Request, body::Bytes, header};
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
    send(gateway, Method::GET, path, token).await
}

/// Tells a running gateway to do something.
pub(crate) async fn post(gateway: &RunFile, path: &str, token: &str) -> Result<Bytes, Failed> {
    send(gateway, Method::POST, path, Some(token)).await
}

async fn send(
    gateway: &RunFile,
    method: Method,
    path: &str,
    token: Option<&str>,
) -> Result<Bytes, Failed> {
    let failed =
        |what: String| Failed::execution(format!("the gateway at {}: {what}", gateway.address));
    let asked = async {
        let stream = TcpStream::connect(&gateway.address)
            .await
            .map_err(|error| failed(error.to_string()))?;
        let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| failed(error.to_string()))?;
        let connection = tokio::spawn(connection);
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, &gateway.address);
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request
            .body(Empty::<Bytes>::new())
            .map_err(|error| failed(error.to_string()))?;
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| failed(error.to_string()))?;
        if !response.status().is_success() {
            return Err(failed(format!("it answered {}", response.status())));
        }
        let body = response
            .into_body()
            .collect()
            .await
            .map_err(|error| failed(error.to_string()))?;
        connection.abort();
        Ok(body.to_bytes())
    };
    let answered = tokio::time::timeout(DEADLINE, asked).await;
    answered.unwrap_or_else(|_| Err(failed("it does not answer".to_owned())))
}
