#!/usr/bin/env bash
# Expected: tools/list of a server works or fails for each tool by itself, and moving from zod 3 to zod 4 changes no tool.
# Instead: with zod 4 one z.date() among the parameters of one tool makes tools/list an error for all tools of the server,
#   which starts as usual and answers calls. With zod 3 the parameter is a text in the format "date-time".
# Versions: @modelcontextprotocol/sdk 1.32.2 with zod 4.6.7 and 3.25.76
# In this project: not yet
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
echo "{}" > package.json
cat > main.mjs <<'JS'
import assert from "node:assert";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { z } from "zod";

const server = new McpServer({ name: "diary", version: "1" });
const done = async () => ({ content: [{ type: "text", text: "done" }] });
server.registerTool("read", { inputSchema: { page: z.number() } }, done);
server.registerTool("write", { inputSchema: { day: z.date().optional(), text: z.string() } }, done);
const [near, far] = InMemoryTransport.createLinkedPair();
await server.connect(near);
const client = new Client({ name: "me", version: "1" });
await client.connect(far);

const listed = await client.listTools().then(({ tools }) => JSON.stringify(tools[1].inputSchema.properties), (error) => error.message);
const called = await client.callTool({ name: "read", arguments: { page: 1 } });
console.log("  tools/list:", listed, "\n  a call of read:", called.content[0].text);
assert.match(listed, process.argv[2] == "3" ? /"format":"date-time"/ : /-32603.*Date cannot be represented/);
assert.equal(called.content[0].text, "done");
await client.close();
JS
for zod in 3.25.76 4.6.7; do
  npm install --silent --no-audit --no-fund @modelcontextprotocol/sdk@1.32.2 "zod@$zod" > /dev/null
  npm ls --depth=0 | tail -n +2
  node main.mjs "${zod%%.*}"
done
