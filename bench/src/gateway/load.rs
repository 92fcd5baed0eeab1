//! A closed loop of calls: each worker makes its next call when the last one is answered, and
//! looks whether the text came back.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::bail;
use bytes::Bytes;

use super::host::{HttpHost, StdioHost};

/// A worker that meets more errors than this gives up: what follows would be more of the same.
const MOST_ERRORS: usize = 10;

/// One worker's way to the tools.
pub(crate) enum Client {
    Http(Box<HttpHost>),
    Stdio(Arc<StdioHost>),
}

/// What workers call, over and over.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    /// The tool, under the name that is shown there.
    pub(crate) tool: &'static str,
    /// The texts to echo in turn, as they stand in JSON.
    pub(crate) texts: Vec<Arc<str>>,
    pub(crate) length: Length,
}

/// When a worker has done enough.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Length {
    Time(Duration),
    Calls(usize),
}

/// What a load showed.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    /// The latency of each call that was answered with its text.
    pub(crate) latencies: Vec<Duration>,
    pub(crate) elapsed: Duration,
    pub(crate) errors: Errors,
}

/// Calls that failed, and how the first of them did.
#[derive(Debug, Clone, Default)]
pub(crate) struct Errors {
    pub(crate) count: usize,
    pub(crate) first: Option<String>,
}

impl Errors {
    pub(crate) fn add(&mut self, other: Self) {
        self.count += other.count;
        self.first = self.first.take().or(other.first);
    }

    fn met(&mut self, error: &anyhow::Error) {
        self.count += 1;
        self.first.get_or_insert_with(|| format!("{error:#}"));
    }

    /// A run with an error does not count as a measurement.
    pub(crate) fn none_or_fail(&self) -> anyhow::Result<()> {
        match &self.first {
            Some(first) => bail!("{} calls failed; the first: {first}", self.count),
            None => Ok(()),
        }
    }
}

impl Client {
    async fn call(&mut self, id: u64, tool: &str, text: &str) -> anyhow::Result<()> {
        let body = request(id, tool, text);
        let answer = match self {
            Self::Http(host) => host.post(body).await?,
            Self::Stdio(host) => host.call(id, body).await?,
        };
        if !is_echo(&answer, text) {
            let shown = String::from_utf8_lossy(&answer[..answer.len().min(200)]);
            bail!("the answer is not the text: {shown}");
        }
        Ok(())
    }
}

/// Text of `bytes` bytes with an escape now and then, as it stands in JSON.
pub(crate) fn text(bytes: usize) -> Arc<str> {
    let piece =
        r#"the quick brown fox said \"hello\" and went on\nto the next line, caf\u00e9 in hand; "#;
    let whole = piece.repeat(bytes / piece.len());
    (whole + &"x".repeat(bytes % piece.len())).into()
}

/// Lets all clients call until the script is through.
pub(crate) async fn load(clients: &mut Vec<Client>, script: &Script) -> anyhow::Result<Loaded> {
    let started = Instant::now();
    let workers = std::mem::take(clients).into_iter().enumerate();
    let workers = workers.map(|(at, client)| tokio::spawn(work(at, client, script.clone())));
    let mut all = Loaded::default();
    for worker in workers.collect::<Vec<_>>() {
        let (client, done) = worker.await?;
        clients.push(client);
        all.latencies.extend(done.latencies);
        all.errors.add(done.errors);
    }
    all.elapsed = started.elapsed();
    Ok(all)
}

async fn work(at: usize, mut client: Client, script: Script) -> (Client, Loaded) {
    let mut done = Loaded::default();
    let started = Instant::now();
    // Each worker has ids of its own, so that they can share a pipe, and begins with another text.
    let ids = ((at as u64 + 1) << 32)..;
    let texts = script.texts.iter().cycle().skip(at);
    for (id, text) in ids.zip(texts) {
        let enough = match script.length {
            Length::Time(time) => started.elapsed() >= time,
            Length::Calls(calls) => done.latencies.len() + done.errors.count >= calls,
        };
        if enough || done.errors.count >= MOST_ERRORS {
            break;
        }
        let before = Instant::now();
        match client.call(id, script.tool, text).await {
            Ok(()) => done.latencies.push(before.elapsed()),
            Err(error) => done.errors.met(&error),
        }
    }
    (client, done)
}

fn request(id: u64, tool: &str, text: &str) -> Bytes {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"{text}"}}}}}}"#
    )
    .into()
}

/// True for a result whose last words are the text, byte for byte.
fn is_echo(answer: &[u8], text: &str) -> bool {
    let rest = answer.strip_suffix(br#""}]}}"#);
    let rest = rest.and_then(|rest| rest.strip_suffix(text.as_bytes()));
    rest.is_some_and(|rest| rest.ends_with(br#""text":""#))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_text_has_the_requested_length_and_valid_json_escapes() {
        for bytes in [100, 10_240, 1_048_576] {
            let text = text(bytes);
            assert_eq!(text.len(), bytes);
            let read: String = serde_json::from_str(&format!("\"{text}\"")).expect("it is JSON");
            assert!(read.contains("\"hello\" and went on\nto") && read.contains("café"));
        }
    }

    #[test]
    fn only_the_same_text_is_an_echo() {
        let answer = |text: &str| {
            let content = format!(r#"[{{"type":"text","text":"{text}"}}]"#);
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":{content}}}}}"#)
        };
        assert!(is_echo(answer("ab").as_bytes(), "ab"));
        assert!(!is_echo(answer("xab").as_bytes(), "ab"));
        assert!(!is_echo(answer("a").as_bytes(), "ab"));
        assert!(!is_echo(br#"{"error":{"message":"\"text\":\"ab"}}"#, "ab"));
    }

    #[test]
    fn the_first_error_is_kept_and_all_are_counted() {
        let mut errors = Errors::default();
        assert!(errors.none_or_fail().is_ok());
        let mut later = Errors::default();
        later.met(&anyhow::anyhow!("one"));
        later.met(&anyhow::anyhow!("two"));
        errors.add(later);
        let failed = errors.none_or_fail().expect_err("two calls failed");
        assert_eq!(failed.to_string(), "2 calls failed; the first: one");
    }
}
