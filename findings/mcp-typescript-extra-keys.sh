#!/usr/bin/env bash
# Expected: an answer that the SDK's server checked against its output schema is valid for the SDK's client, and a call
#   that worked once works again.
# Instead: a zod object lets keys pass that it does not name, and its JSON schema forbids them. The server sends the answer;
#   the client accepts it until it has listed the tools, and refuses it from then on.
# Versions: @modelcontextprotocol/sdk 1.32.2, zod 4.6.7
# In this project: not yet. The Python SDK's client, on which runtime/src/env_runtime/mcp/ is built, checks as well.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
echo "{}" > package.json
npm install --silent --no-audit --no-fund @modelcontextprotocol/sdk@1.32.2 zod@4.6.7 > /dev/null
cat > main.mjs <<'JS'
import assert from "node:assert";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { z } from "zod";

const server = new McpServer({ name: "shop", version: "1" });
const order = { id: "A1", total: 3 };
server.registerTool("find", { inputSchema: {}, outputSchema: { id: z.string() } }, async () => ({
  content: [{ type: "text", text: JSON.stringify(order) }],
  structuredContent: order,
}));
const [near, far] = InMemoryTransport.createLinkedPair();
await server.connect(near);
const client = new Client({ name: "me", version: "1" });
await client.connect(far);

const before = await client.callTool({ name: "find", arguments: {} });
console.log("before tools/list:", JSON.stringify(before.structuredContent));
assert.deepEqual(before.structuredContent, order);
const { tools } = await client.listTools();
console.log("output schema:", JSON.stringify(tools[0].outputSchema));
assert.equal(tools[0].outputSchema.additionalProperties, false);
const refusal = await client.callTool({ name: "find", arguments: {} }).then(JSON.stringify, (error) => error.message);
console.log("after tools/list:", refusal);
assert.match(refusal, /must NOT have additional properties/);
await client.close();
JS
npm ls --depth=0 | tail -n +2
node main.mjs
