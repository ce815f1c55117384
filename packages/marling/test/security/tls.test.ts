// Security rules 7 and 9 over https: who cannot prove who they are is told nothing, and pinning an address does not give up
// the check of the name.

import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { build } from "vite";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { anthropicModel, openaiModel } from "../../src/models.ts";
import { webFetchTool } from "../../src/stock/tools/web-fetch/web-fetch-tool.ts";
import { openAiChatWire } from "../llm/chat-wire.ts";
import { call, failureOf } from "../llm/port-calls.ts";
import { bench } from "../stock/tools/tool-bench.ts";
import { CERTIFICATE, CERTIFICATE_KEY } from "./tls-certificate.ts";

interface Secured {
  readonly port: number;
  /** What was asked for, after the connection was secured. */
  readonly asked: readonly string[];
}

async function secured(): Promise<Secured> {
  const asked: string[] = [];
  const server = createServer({ key: CERTIFICATE_KEY, cert: CERTIFICATE }, (request, response) => {
    asked.push(`${request.method} ${request.headers.host?.split(":")[0]}`);
    const isModel = request.method === "POST";
    response.writeHead(200, { "content-type": isModel ? "text/event-stream" : "text/plain" });
    response.end(isModel ? openAiChatWire.events({ text: ["Hi."] }).join("") : "A page.");
  });
  server.on("tlsClientError", () => undefined);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, asked };
}

test("security rule 7: a page of a server whose certificate nobody vouches for is not read, whatever the environment says", async () => {
  const { port, asked } = await secured();
  vi.stubEnv("NODE_TLS_REJECT_UNAUTHORIZED", "0");
  onTestFinished(() => void vi.unstubAllEnvs());
  const { failure } = await bench({
    tools: [webFetchTool({ allow: [`site.test:${port}`], resolve: async () => ["127.0.0.1"] })],
  });
  const { code, message } = await failure("web_fetch", { url: `https://site.test:${port}/` });
  expect(code).toBe("fetch_failed");
  expect(message).toContain("certificate");
  expect(asked).toEqual([]);
});

test.each([
  ["openai", (baseUrl: string) => openaiModel({ model: "m", baseUrl, apiKey: "sk-secret" })],
  ["anthropic", (baseUrl: string) => anthropicModel({ model: "m", baseUrl, apiKey: "sk-secret" })],
])(
  "the native %s model sends neither prompt nor key to a server whose certificate nobody vouches for",
  async (_name, make) => {
    const { port, asked } = await secured();
    const failure = failureOf(await call(make(`https://localhost:${port}/v1`)));
    expect(failure).toMatchObject({ kind: "unknown", retryable: false });
    expect(failure.message).toContain("certificate");
    expect(JSON.stringify(failure)).not.toContain("sk-secret");
    expect(asked).toEqual([]);
  },
);

const folder = mkdtempSync(join(tmpdir(), "marling-tls-"));
beforeAll(async () => {
  await build({
    configFile: false,
    logLevel: "error",
    build: {
      ssr: fileURLToPath(new URL("./tls-child.ts", import.meta.url)),
      outDir: join(folder, "built"),
      target: "node20",
      rollupOptions: { output: { entryFileNames: "child.mjs" } },
    },
  });
  writeFileSync(join(folder, "ca.pem"), CERTIFICATE);
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test("security rule 7: a certificate counts for its names only, though the address of the connection was fixed before", async () => {
  const { port, asked } = await secured();
  const env = { PATH: process.env.PATH ?? "", NODE_EXTRA_CA_CERTS: join(folder, "ca.pem") };
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [join(folder, "built", "child.mjs"), String(port)],
    { env },
  );
  expect(JSON.parse(stdout)).toMatchObject({
    fetched: [
      { kind: "success", value: { status: 200, text: "A page." } },
      { kind: "failure", code: "fetch_failed", message: expect.stringContaining("other.test") },
    ],
    text: "Hi.",
  });
  expect(asked).toEqual(["GET site.test", "POST localhost"]);
});
