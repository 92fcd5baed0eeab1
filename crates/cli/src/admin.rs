//! The running `serve` of a data folder: where it is, and what it says to the admin.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use callgate_outbound::{Client, read_body};
use http::{Request, header, request::Builder};
use http_body_util::Full;
use serde::{Deserialize, Serialize};

use crate::exit::Failed;

/// The file that a running `serve` writes into the data folder.
const RUN_FILE: &str = "serve.json";
/// How long a gateway on this machine may take to answer.
const DEADLINE: Duration = Duration::from_secs(5);
/// The longest answer that is read into memory.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// Where a gateway is served.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunFile {
    pub(crate) pid: u32,
    pub(crate) address: String,
    /// The configuration file that it uses.
    #[serde(default)]
    pub(crate) config: Option<PathBuf>,
}

impl RunFile {
    pub(crate) fn write(&self, data_dir: &Path) -> Result<(), Failed> {
        let file = data_dir.join(RUN_FILE);
        let text = serde_json::to_vec(self).map_err(|error| Failed::system(error.to_string()))?;
        fs::write(&file, text)
            .map_err(|error| Failed::system(format!("`{}`: {error}", file.display())))
    }

    /// Removes the file if this process wrote it: a second `serve` may have replaced it.
    pub(crate) fn remove(&self, data_dir: &Path) {
        if Self::read(data_dir).is_some_and(|noted| noted.pid == self.pid) {
            let _ = fs::remove_file(data_dir.join(RUN_FILE));
        }
    }

    /// The run file of a data folder. Its process may have ended.
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
    let mut request = Request::get(url(gateway, path));
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let asked = send(gateway, request, String::new());
    let (status, body) = match tokio::time::timeout(DEADLINE, asked).await {
        Ok(answered) => answered?,
        Err(_) => return Err(failed(gateway, format!("no answer within {DEADLINE:?}"))),
    };
    if (200..300).contains(&status) {
        Ok(body)
    } else {
        Err(failed(gateway, format!("answered with status {status}")))
    }
}

/// Sends a request to a running gateway without a deadline, because a call may wait for approval. Returns the status
/// and the body of the answer.
pub(crate) async fn post(
    gateway: &RunFile,
    path: &str,
    token: &str,
    body: String,
) -> Result<(u16, Bytes), Failed> {
    let request = Request::post(url(gateway, path))
        .header(header::AUTHORIZATION, format!("Bearer {token}"))
        .header(header::CONTENT_TYPE, "application/json")
        .header("Callgate-Source", "cli");
    send(gateway, request, body).await
}

fn failed(gateway: &RunFile, what: impl std::fmt::Display) -> Failed {
    Failed::execution(format!("the gateway at {}: {what}", gateway.address))
}

async fn send(gateway: &RunFile, request: Builder, body: String) -> Result<(u16, Bytes), Failed> {
    let request = request.body(Full::new(Bytes::from(body)));
    let request = request.map_err(|error| failed(gateway, error))?;
    let client = Client::without_tls().map_err(|error| failed(gateway, error))?;
    let response = client.send_to_url(request).await;
    let response = response.map_err(|error| failed(gateway, error))?;
    let status = response.status().as_u16();
    let body = read_body(response.into_body(), MAX_ANSWER_BYTES).await;
    let body = body.map_err(|error| failed(gateway, error))?;
    match body {
        Some(body) => Ok((status, body)),
        None => {
            let what = format!("its answer is longer than {MAX_ANSWER_BYTES} bytes");
            Err(failed(gateway, what))
        }
    }
}

fn url(gateway: &RunFile, path: &str) -> String {
    format!("http://{}{path}", gateway.address)
}
