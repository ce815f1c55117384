import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const source = (path: string): string =>
  fileURLToPath(new URL(`./packages/marling/src/${path}`, import.meta.url));

export default defineConfig({
  resolve: {
    alias: [
      { find: /^marling$/, replacement: source("index.ts") },
      { find: /^marling\/plugin$/, replacement: source("plugin/index.ts") },
      { find: /^marling\/plugins$/, replacement: source("plugins.ts") },
      { find: /^marling\/testing$/, replacement: source("testing/index.ts") },
      { find: /^marling\/ai-sdk$/, replacement: source("ai-sdk.ts") },
      { find: /^marling\/host$/, replacement: source("host.ts") },
      { find: /^marling\/mcp$/, replacement: source("mcp.ts") },
      { find: /^marling\/models$/, replacement: source("models.ts") },
      { find: /^marling\/otel$/, replacement: source("otel.ts") },
      { find: /^marling\/tools$/, replacement: source("tools.ts") },
      { find: /^marling\/sqlite$/, replacement: source("sqlite.ts") },
    ],
  },
  test: {
    include: ["packages/*/test/**/*.test.ts", "examples/**/*.test.ts"],
    pool: "threads",
    typecheck: { enabled: false },
  },
});
