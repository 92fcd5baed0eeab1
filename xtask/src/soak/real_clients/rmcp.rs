//! Lists, calls, reads, prompts and answers a question with rmcp; prints what it saw as JSON.
//!
//! Arguments: `handshake` or `stateless`, then `http URL TOKEN` or `stdio PROGRAM ARGUMENTS...`.

use anyhow::{Context, Result, bail};
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, ContentBlock, ElicitRequestParams,
    ElicitResult, ElicitationAction, ElicitationCapability, GetPromptRequestParams, Implementation,
    JsonObject, ProtocolVersion, ReadResourceRequestParams, ResourceContents,
};
use rmcp::service::{RequestContext, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient};
use serde_json::{Value, json};
use tokio::process::Command;

/// A host whose person always says the same.
struct Answering;

impl ClientHandler for Answering {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::default());
        ClientConfig::new(capabilities, Implementation::new("rmcp", "1"))
    }

    async fn create_elicitation(
        &self,
        _question: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let answer = ElicitResult::new(ElicitationAction::Accept);
        Ok(answer.with_content(json!({"name": "rmcp"})))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [era, way @ ..] = words.as_slice() else {
        bail!("no era");
    };
    let lifecycle = match *era {
        "handshake" => ClientLifecycleMode::Initialize,
        "stateless" => ClientLifecycleMode::Discover {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
        },
        other => bail!("no such era: {other}"),
    };
    let client = match way {
        ["http", url, token] => {
            let config = StreamableHttpClientTransportConfig::with_uri(*url).auth_header(*token);
            let transport = StreamableHttpClientTransport::from_config(config);
            Answering.serve_with_lifecycle(transport, lifecycle).await?
        }
        ["stdio", program, rest @ ..] => {
            let mut command = Command::new(program);
            command.args(rest);
            let transport = TokioChildProcess::new(command)?;
            Answering.serve_with_lifecycle(transport, lifecycle).await?
        }
        _ => bail!("no such door"),
    };
    println!("{}", look(&client).await?);
    client.cancel().await?;
    Ok(())
}

async fn look(client: &RunningService<RoleClient, Answering>) -> Result<Value> {
    let tools = client.list_all_tools().await?;
    let resources = client.list_all_resources().await?;
    let prompts = client.list_all_prompts().await?;
    let called = CallToolRequestParams::new("s__echo").with_arguments(one("key", "k"));
    let called = client.call_tool(called).await?;
    let read = ReadResourceRequestParams::new("s://1");
    let read = client.read_resource(read).await?;
    let prompt = GetPromptRequestParams::new("s__p0").with_arguments(one("who", "me"));
    let prompt = client.get_prompt(prompt).await?;
    let asked = client.call_tool(CallToolRequestParams::new("s__ask_form")).await?;
    let answer: Value = serde_json::from_str(text(&asked.content)?)?;
    let read = match read.contents.first() {
        Some(ResourceContents::TextResourceContents { text, .. }) => text,
        other => bail!("no text: {other:?}"),
    };
    let prompt = prompt.messages.first().context("no message")?;
    Ok(json!({
        "tools": tools.len(),
        "resources": resources.len(),
        "prompts": prompts.len(),
        "called": text(&called.content)?,
        "read": read,
        "prompt": text(std::slice::from_ref(&prompt.content))?,
        "answered": answer["content"]["name"],
    }))
}

fn one(name: &str, value: &str) -> JsonObject {
    [(name.to_owned(), json!(value))].into_iter().collect()
}

fn text(content: &[ContentBlock]) -> Result<&str> {
    let text = content.first().and_then(ContentBlock::as_text);
    Ok(&text.context("no text")?.text)
}
