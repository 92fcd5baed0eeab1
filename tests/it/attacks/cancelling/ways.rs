//! The ways in which a call comes in and is cancelled.

use std::net::TcpStream;

use callgate_testkit::{Host, HttpHost, StatelessHost, StdioHost, weird};
use serde_json::json;

use super::cancellation;
use crate::setup::{Bed, Served, VERSION};
use crate::talk::{call_line, parsed};

/// How a call comes in and is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Stdio,
    Http,
    ClosedStatelessRequest,
    Script,
    ClosedRestRequest,
    StatelessStdio,
    EndedSession,
}

pub(super) const WAYS: [Way; 7] = [
    Way::Stdio,
    Way::Http,
    Way::ClosedStatelessRequest,
    Way::Script,
    Way::ClosedRestRequest,
    Way::StatelessStdio,
    Way::EndedSession,
];

/// A call that was made, and what cancels it.
pub(super) enum Begun {
    Stdio(StdioHost),
    Http {
        host: HttpHost,
        /// The answer would come here; closing it would be a cancellation of its own.
        _waiting: TcpStream,
    },
    Socket(TcpStream),
}

impl Way {
    /// Calls `tool` of the server `n`.
    pub(super) fn begin(self, bed: &Bed, served: &Served, tool: &str, arguments: &str) -> Begun {
        let shown = format!("n__{tool}");
        let line = call_line("7", &shown, arguments);
        let modern = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{}}}"#,
            weird::with_host(
                &format!(r#"{{"name":"{shown}","arguments":{arguments}}}"#),
                weird::OF_THE_HOST
            )
        );
        match self {
            Self::Stdio => {
                let mut host = bed.stdio_ready();
                host.send(&line).expect("it reads");
                Begun::Stdio(host)
            }
            Self::StatelessStdio => {
                let mut host = bed.stdio();
                host.send(&modern).expect("it reads");
                Begun::Stdio(host)
            }
            Self::Http | Self::EndedSession => {
                let host = served.host_ready();
                let socket = host.post_unread(&line).expect("it reads");
                Begun::Http {
                    host,
                    _waiting: socket,
                }
            }
            Self::ClosedStatelessRequest => {
                let host = StatelessHost::new(served.host());
                let host = host.headed(&modern).expect("a request");
                Begun::Socket(host.post_unread(&modern).expect("it reads"))
            }
            Self::Script => {
                let mut host = served.host().at("/mcp/code");
                host.initialize(VERSION).expect("it shakes hands");
                let key = &parsed(arguments)["key"];
                let command = json!({"command": format!("n.{tool}(key={key})")});
                let line = call_line("7", "run", &command.to_string());
                let socket = host.post_unread(&line).expect("it reads");
                Begun::Http {
                    host,
                    _waiting: socket,
                }
            }
            Self::ClosedRestRequest => {
                let host = served.host().at("/api/v1/tools/call");
                let bearer = format!("Bearer {}", served.admin_token);
                let host = host.header("Authorization", &bearer);
                let arguments = parsed(arguments);
                let call = json!({"name": format!("n:{tool}"), "args": arguments, "intent": {"operation_type": "write"}});
                let body = json!({"tool_name": "call_tool_write", "arguments": call});
                Begun::Socket(host.post_unread(&body.to_string()).expect("it reads"))
            }
        }
    }

    pub(super) fn cancel(self, begun: &mut Begun) {
        let line = cancellation("7");
        match begun {
            Begun::Stdio(host) => host.send(&line).expect("it reads"),
            Begun::Http { host, .. } if self == Self::EndedSession => {
                host.send("DELETE", &[], b"").expect("it is accepted");
            }
            Begun::Http { host, .. } => host.notify(&line).expect("it is accepted"),
            Begun::Socket(socket) => socket
                .shutdown(std::net::Shutdown::Both)
                .expect("it is open"),
        }
    }
}
