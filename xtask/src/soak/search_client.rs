//! The `search` view as the official Python client meets it over HTTP: search, describe, call as `call_with`
//! says, be refused for the wrong variant, and mend it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use callgate_testkit::{DataDir, StdioHost, callgate};

use super::install;
use crate::command::{command, output};

/// A gateway starts slowly on a busy machine.
const START: Duration = Duration::from_secs(60);

/// What the client does; each step is a line.
const CLIENT: &str = r#"
import asyncio, json, sys
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

async def main(url, token):
    headers = {"Authorization": f"Bearer {token}"}
    async with streamablehttp_client(url, headers=headers) as (read, write, _):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = [tool.name for tool in (await session.list_tools()).tools]
            assert len(tools) == 6 and tools[0] == "retrieve_tools", tools
            print("listed", len(tools))

            async def search(query):
                result = await session.call_tool("retrieve_tools", {"query": query, "detail": "compact"})
                return json.loads(result.content[0].text)["tools"]

            async def call(variant, operation, name, **args):
                intent = {"operation_type": operation, "reason": "soak"}
                return await session.call_tool(variant, {"name": name, "args": args, "intent": intent})

            found = (await search("write down a note"))[0]
            print("found", found["name"], found["call_with"])
            described = await session.call_tool("describe_tool", {"names": [found["name"]]})
            schema = json.loads(described.content[0].text)["tools"][0]["inputSchema"]
            print("described", sorted(schema["properties"]))
            operation = found["call_with"].removeprefix("call_tool_")
            done = await call(found["call_with"], operation, found["name"], text="remember the milk")
            assert not done.isError, done
            print("called", done.content[0].text)
            misfit = await call(found["call_with"], operation, found["name"], text=7)
            assert misfit.isError and misfit.structuredContent["code"] == "INVALID_ARGUMENTS", misfit
            print("misfit refused")
            wipe = (await search("get rid of all notes"))[0]
            refused = await call("call_tool_read", "read", wipe["name"])
            code = refused.structuredContent["code"]
            assert refused.isError and code == "SERVER_MISMATCH", refused
            print("refused", code)
            mended = await call(wipe["call_with"], wipe["call_with"].removeprefix("call_tool_"), wipe["name"])
            assert not mended.isError, mended
            print("mended", wipe["call_with"])

asyncio.run(main(sys.argv[1], sys.argv[2]))
"#;

pub(super) fn run() -> Result<()> {
    let python = install::python_client()?;
    let data = DataDir::new();
    let script = data.file("client.py", CLIENT);
    let mut serve = command(callgate());
    serve.args([
        "serve",
        "--demo",
        "--policy",
        "allow-all",
        "--listen",
        "127.0.0.1:0",
    ]);
    serve.arg("--data-dir").arg(data.path().join("data"));
    let process = StdioHost::spawn(&mut serve)?;
    let line = process.wait_stderr(START, |line| line.starts_with("listening "))?;
    let url = format!("{}/search", line.trim_start_matches("listening "));
    let token = data.read("data/agent.token");
    let said = output(command(python).arg(script).arg(url).arg(token.trim()));
    let said = said.context("the Python client")?;
    print!("{said}");
    ensure!(
        said.lines().count() == 7,
        "the client stopped before its last step"
    );
    Ok(())
}
