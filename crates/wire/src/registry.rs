//! A minimal server: tools with handlers that answer frames. It keeps no session and does no I/O. Panics of
//! handlers are not caught.
//!
//! Driven over lines, one frame each:
//!
//! ```
//! use callgate_wire::{Frame, Registry, Strictness, Tool, ToolResult, message};
//!
//! # async fn doc() {
//! let registry = Registry::new("demo", "1.0").tool(
//!     Tool::new("echo", "Says what it was given.", r#"{"type":"object"}"#),
//!     |arguments| async move { ToolResult::text(String::from_utf8_lossy(&arguments)) },
//! );
//! # let input = ["{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"];
//! # let mut output = Vec::new();
//! for line in input {
//!     let reply = match Frame::parse(line.into(), Strictness::Full) {
//!         Ok(frame) => registry.handle(frame).await,
//!         Err(refused) => Some(message::error(None, &refused.to_rpc())),
//!     };
//!     if let Some(reply) = reply {
//!         output.extend_from_slice(&reply);
//!         output.push(b'\n');
//!     }
//! }
//! # assert_eq!(output, b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n");
//! # }
//! # futures_util::FutureExt::now_or_never(doc()).expect("nothing waits");
//! ```

use std::fmt;
use std::future::Future;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::escape::quote;
use crate::frame::{Frame, FrameKind};
use crate::message::{self, RpcError, methods};
use crate::session::Handshake;

/// Tools that a program serves.
pub struct Registry {
    name: String,
    version: String,
    tools: Vec<Entry>,
}

/// A tool's definition. Raw members are JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input_schema: String,
    /// Hints such as `{"readOnlyHint":true}`.
    pub annotations: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolResult {
    pub content: Vec<Content>,
    /// The structured result as JSON text.
    pub structured: Option<String>,
    /// Whether the tool failed.
    pub is_error: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Text for the model.
    Text(String),
    /// Any block as JSON text.
    Raw(String),
}

type Handler = Box<dyn Fn(Bytes) -> BoxFuture<'static, ToolResult> + Send + Sync>;

struct Entry {
    tool: Tool,
    handler: Handler,
}

impl Registry {
    /// A registry without tools; the handshake reports its name and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Registry {
        Registry {
            name: name.into(),
            version: version.into(),
            tools: Vec::new(),
        }
    }

    /// Adds a tool; one of the same name is replaced. The handler gets the arguments, always an
    /// object, as the JSON text they came in.
    pub fn tool<H, F>(mut self, tool: Tool, handler: H) -> Registry
    where
        H: Fn(Bytes) -> F + Send + Sync + 'static,
        F: Future<Output = ToolResult> + Send + 'static,
    {
        self.tools.retain(|entry| entry.tool.name != tool.name);
        self.tools.push(Entry {
            tool,
            handler: Box::new(move |arguments| handler(arguments).boxed()),
        });
        self
    }

    /// Answers a frame; notifications and replies have no answer.
    pub async fn handle(&self, frame: Frame) -> Option<Bytes> {
        match frame.kind() {
            FrameKind::Request => {}
            FrameKind::Notification | FrameKind::Result | FrameKind::Error => return None,
        }
        let id = frame.id()?;
        let answer = match frame.method()? {
            methods::INITIALIZE => self.initialize(&frame),
            methods::PING => Ok("{}".to_owned()),
            methods::TOOLS_LIST => Ok(self.list()),
            methods::TOOLS_CALL => self.call(&frame).await,
            _ => Err(RpcError::new(
                RpcError::METHOD_NOT_FOUND,
                "method not found",
            )),
        };
        Some(match answer {
            Ok(raw) => message::result(id, &raw),
            Err(error) => message::error(Some(id), &error),
        })
    }

    fn initialize(&self, frame: &Frame) -> Result<String, RpcError> {
        let version = Handshake::read(frame)?.version;
        Ok(format!(
            r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":{},"version":{}}}}}"#,
            quote(&self.name),
            quote(&self.version)
        ))
    }

    fn list(&self) -> String {
        let tools: Vec<_> = self.tools.iter().map(|entry| entry.tool.to_raw()).collect();
        format!(r#"{{"tools":[{}]}}"#, tools.join(","))
    }

    async fn call(&self, frame: &Frame) -> Result<String, RpcError> {
        let invalid = |message: &str| RpcError::new(RpcError::INVALID_PARAMS, message);
        let name = frame.param("name").and_then(|name| name.as_str());
        let name = name.ok_or_else(|| invalid("`name` must be a string"))?;
        let entry = self.tools.iter().find(|entry| entry.tool.name == name);
        let entry = entry.ok_or_else(|| invalid("unknown tool"))?;
        let arguments = match frame.param("arguments") {
            None => Bytes::from_static(b"{}"),
            Some(arguments) if arguments.is_object() => frame.share(arguments),
            Some(_) => return Err(invalid("`arguments` must be an object")),
        };
        Ok((entry.handler)(arguments).await.to_raw())
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.tools.iter().map(|entry| &entry.tool.name);
        out.debug_struct("Registry")
            .field("name", &self.name)
            .field("version", &self.version)
            .field("tools", &names.collect::<Vec<_>>())
            .finish()
    }
}

impl Tool {
    /// A tool without title and hints.
    pub fn new(
        name: impl Into<String>,
        description: impl Into<String>,
        input_schema: impl Into<String>,
    ) -> Tool {
        Tool {
            name: name.into(),
            title: None,
            description: description.into(),
            input_schema: input_schema.into(),
            annotations: None,
        }
    }

    /// The tool as a list entry.
    fn to_raw(&self) -> String {
        let mut out = format!(r#"{{"name":{}"#, quote(&self.name));
        if let Some(title) = &self.title {
            out.push_str(&format!(r#","title":{}"#, quote(title)));
        }
        let description = quote(&self.description);
        let schema = &self.input_schema;
        out.push_str(&format!(
            r#","description":{description},"inputSchema":{schema}"#
        ));
        if let Some(annotations) = &self.annotations {
            out.push_str(&format!(r#","annotations":{annotations}"#));
        }
        out.push('}');
        out
    }
}

impl ToolResult {
    /// An answer of one text.
    pub fn text(text: impl Into<String>) -> ToolResult {
        ToolResult {
            content: vec![Content::Text(text.into())],
            ..ToolResult::default()
        }
    }

    /// A failure with one text.
    pub fn failure(text: impl Into<String>) -> ToolResult {
        ToolResult {
            is_error: true,
            ..ToolResult::text(text)
        }
    }

    /// The answer as a call's result, as JSON text.
    pub fn to_raw(&self) -> String {
        let blocks: Vec<_> = self.content.iter().map(Content::to_raw).collect();
        let mut out = format!(r#"{{"content":[{}]"#, blocks.join(","));
        if let Some(structured) = &self.structured {
            out.push_str(&format!(r#","structuredContent":{structured}"#));
        }
        if self.is_error {
            out.push_str(r#","isError":true"#);
        }
        out.push('}');
        out
    }
}

impl Content {
    fn to_raw(&self) -> String {
        match self {
            Content::Text(text) => format!(r#"{{"type":"text","text":{}}}"#, quote(text)),
            Content::Raw(raw) => raw.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scan::Strictness;

    fn registry() -> Registry {
        let echo = Tool {
            title: Some("Echo \"it\"".to_owned()),
            annotations: Some(r#"{"readOnlyHint":true}"#.to_owned()),
            ..Tool::new("echo", "Says it.", r#"{"type":"object"}"#)
        };
        Registry::new("demo", "1.0")
            .tool(echo, |arguments| async move {
                ToolResult {
                    content: vec![Content::Raw(r#"{"type":"x"}"#.to_owned())],
                    structured: Some(String::from_utf8_lossy(&arguments).into_owned()),
                    is_error: false,
                }
            })
            .tool(Tool::new("fail", "Fails.", "{}"), |_| async {
                ToolResult::failure("no\n")
            })
    }

    async fn answer(text: &str) -> Option<String> {
        let frame = Frame::parse(Bytes::copy_from_slice(text.as_bytes()), Strictness::Full);
        let reply = registry().handle(frame.expect("a valid frame")).await?;
        Frame::parse(reply.clone(), Strictness::Full).expect("replies are valid frames");
        Some(String::from_utf8_lossy(&reply).into_owned())
    }

    #[tokio::test]
    async fn registry_requests_are_answered() {
        let cases = [
            (r#""ping""#, r#""result":{}"#),
            (
                r#""initialize","params":{"protocolVersion":"2025-06-18"}"#,
                r#""result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"demo","version":"1.0"}}"#,
            ),
            (
                r#""tools/list""#,
                r#""result":{"tools":[{"name":"echo","title":"Echo \"it\"","description":"Says it.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"fail","description":"Fails.","inputSchema":{}}]}"#,
            ),
            (
                r#""tools/call","params":{"name":"echo","arguments":{"a": 1e400}}"#,
                r#""result":{"content":[{"type":"x"}],"structuredContent":{"a": 1e400}}"#,
            ),
            (
                r#""tools/call","params":{"name":"echo"}"#,
                r#""result":{"content":[{"type":"x"}],"structuredContent":{}}"#,
            ),
            (
                r#""tools/call","params":{"name":"fail"}"#,
                r#""result":{"content":[{"type":"text","text":"no\n"}],"isError":true}"#,
            ),
            (
                r#""tools/call","params":{"name":"echo","arguments":[]}"#,
                r#""error":{"code":-32602,"message":"`arguments` must be an object"}"#,
            ),
            (
                r#""tools/call","params":{"name":"nope"}"#,
                r#""error":{"code":-32602,"message":"unknown tool"}"#,
            ),
            (
                r#""tools/call""#,
                r#""error":{"code":-32602,"message":"`name` must be a string"}"#,
            ),
            (
                r#""nope""#,
                r#""error":{"code":-32601,"message":"method not found"}"#,
            ),
        ];
        for (method, expected) in cases {
            let request = format!(r#"{{"jsonrpc":"2.0","id":"i","method":{method}}}"#);
            let expected = format!(r#"{{"jsonrpc":"2.0","id":"i",{expected}}}"#);
            assert_eq!(answer(&request).await, Some(expected), "{method}");
        }
    }

    #[tokio::test]
    async fn notifications_and_replies_are_not_answered() {
        for text in [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{}}"#,
        ] {
            assert_eq!(answer(text).await, None, "{text}");
        }
    }
}
