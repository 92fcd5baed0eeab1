// Lists, calls, reads, prompts and answers a question with the TypeScript SDK; prints what it saw as JSON.
// Arguments: `http URL TOKEN` or `stdio PROGRAM ARGUMENTS...`.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [way, where, ...rest] = process.argv.slice(2);
const transport =
  way === "http"
    ? new StreamableHTTPClientTransport(new URL(where), {
        requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } },
      })
    : new StdioClientTransport({ command: where, args: rest });
const client = new Client(
  { name: "typescript", version: "1" },
  { capabilities: { elicitation: {} } },
);
client.setRequestHandler(ElicitRequestSchema, async () => ({
  action: "accept",
  content: { name: "typescript" },
}));
await client.connect(transport);
const tools = await client.listTools();
const resources = await client.listResources();
const prompts = await client.listPrompts();
const called = await client.callTool({ name: "s__echo", arguments: { key: "k" } });
const content = await client.readResource({ uri: "s://1" });
const prompt = await client.getPrompt({ name: "s__p0", arguments: { who: "me" } });
const asked = await client.callTool({ name: "s__ask_form", arguments: {} });
console.log(
  JSON.stringify({
    tools: tools.tools.length,
    resources: resources.resources.length,
    prompts: prompts.prompts.length,
    called: called.content[0].text,
    read: content.contents[0].text,
    prompt: prompt.messages[0].content.text,
    answered: JSON.parse(asked.content[0].text).content.name,
  }),
);
await client.close();
