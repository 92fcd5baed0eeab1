"""Lists, calls, reads, prompts and answers a question with mcp 1.x; prints what it saw as JSON.

Arguments: `http URL TOKEN` or `stdio PROGRAM ARGUMENTS...`.
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl


async def answer(context, params):
    return types.ElicitResult(action="accept", content={"name": "python 1"})


async def look(read, write):
    async with ClientSession(read, write, elicitation_callback=answer) as session:
        await session.initialize()
        tools = await session.list_tools()
        resources = await session.list_resources()
        prompts = await session.list_prompts()
        called = await session.call_tool("s__echo", {"key": "k"})
        content = await session.read_resource(AnyUrl("s://1"))
        prompt = await session.get_prompt("s__p0", {"who": "me"})
        asked = await session.call_tool("s__ask_form", {})
        print(json.dumps({
            "tools": len(tools.tools),
            "resources": len(resources.resources),
            "prompts": len(prompts.prompts),
            "called": called.content[0].text,
            "read": content.contents[0].text,
            "prompt": prompt.messages[0].content.text,
            "answered": json.loads(asked.content[0].text)["content"]["name"],
        }))


async def main():
    if sys.argv[1] == "http":
        headers = {"Authorization": f"Bearer {sys.argv[3]}"}
        async with streamablehttp_client(sys.argv[2], headers=headers) as (read, write, _):
            await look(read, write)
    else:
        server = StdioServerParameters(command=sys.argv[2], args=sys.argv[3:])
        async with stdio_client(server) as (read, write):
            await look(read, write)


asyncio.run(main())
