//! How a fake upstream is reached, and in which ways it misbehaves there.

use std::net::SocketAddr;
use std::path::PathBuf;

/// How a fake upstream is reached: on stdin and stdout, unless `--http` says otherwise.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Way {
    /// The file that gets every frame, `< ` and what was received, `> ` and what was sent; over
    /// HTTP also `# ` and what happened to connections.
    #[arg(long)]
    pub log: Option<PathBuf>,
    /// Serves over HTTP there, and says `listening` with the URL on stderr. Ends with stdin.
    #[arg(long)]
    pub http: Option<SocketAddr>,
    /// How a request over HTTP is answered when its response is all there is to say.
    #[arg(long, value_enum, default_value_t)]
    pub reply: ReplyForm,
    /// Speaks HTTP+SSE of 2024-11-05 and nothing newer.
    #[arg(long)]
    pub legacy_sse: bool,
    /// Gives no session ids.
    #[arg(long)]
    pub stateless: bool,
    /// Forgets a session after that many requests in it.
    #[arg(long)]
    pub expire_after: Option<usize>,
    /// The status for a session that is not known; some servers do not say 404.
    #[arg(long, default_value_t = 404)]
    pub unknown_session: u16,
    /// Has no standing stream: GET is answered 405.
    #[arg(long)]
    pub no_get: bool,
    /// A header that every request needs, as `NAME=VALUE`; without it the answer is 401.
    #[arg(long)]
    pub header: Vec<String>,
    /// Answers every request with this status and an empty body.
    #[arg(long)]
    pub status: Option<u16>,
    /// The `Location` that goes with `--status`.
    #[arg(long)]
    pub location: Option<String>,
    /// Does what a tool call asks, and answers it with this status.
    #[arg(long)]
    pub call_status: Option<u16>,
    /// Does what a tool call asks, opens its stream, and says nothing on it.
    #[arg(long)]
    pub stall: bool,
    /// Does what a tool call asks, and drops the connection in the middle of the answer.
    #[arg(long)]
    pub drop_mid_stream: bool,
    /// Ends the stream of a tool call at once; the answer is kept for a client that resumes it.
    #[arg(long)]
    pub resumable: bool,
}

/// The form of a response over HTTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ReplyForm {
    /// A body of JSON; a stream where there is more to say than the response.
    #[default]
    Json,
    /// A stream of events.
    Sse,
}
