"""Lists, calls, reads, prompts and answers a question with mcp 2.x; prints what it saw as JSON.

Arguments: `http URL TOKEN` or `stdio PROGRAM ARGUMENTS...`.
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters, types
from mcp.client.streamable_http import streamable_http_client


async def answer(context, params):
    return types.ElicitResult(action="accept", content={"name": "python 2"})


async def look(server):
    async with Client(server, elicitation_callback=answer) as client:
        tools = await client.list_tools()
        resources = await client.list_resources()
        prompts = await client.list_prompts()
        called = await client.call_tool("s__echo", {"key": "k"})
        content = await client.read_resource("s://1")
        prompt = await client.get_prompt("s__p0", {"who": "me"})
        asked = await client.call_tool("s__ask_form", {})
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
        async with httpx2.AsyncClient(headers=headers) as http:
            await look(streamable_http_client(sys.argv[2], http_client=http))
    else:
        await look(StdioServerParameters(command=sys.argv[2], args=sys.argv[3:]))


asyncio.run(main())
