import { mkdtempSync, rmSync } from "node:fs";
import { availableParallelism, homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** What takes longest begins first, so that the rest goes on beside it. */
class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const isLong = ({ moduleId }: TestSpecification): boolean => moduleId.endsWith("/crash/crash.test.ts");
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

const source = (path: string): string =>
  fileURLToPath(new URL(`./packages/marling/src/${path}`, import.meta.url));

/**
 * Monitors run in login shells, and tests kill them at any moment. A profile that is killed may leave locks behind, on
 * which every later shell of the same user waits: tests read no profile but that of the machine.
 */
function emptyHome(): string {
  const folder = mkdtempSync(join(tmpdir(), "marling-home-"));
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

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
    setupFiles: [fileURLToPath(new URL("./packages/marling/test/loop-guard/setup.ts", import.meta.url))],
    pool: "threads",
    maxWorkers: Math.max(2, availableParallelism() - 1), // Left alone, two cores get one worker; many tests wait.
    testTimeout: 60_000, // Against hanging, not against slowness: how fast a machine is decides no test.
    hookTimeout: 60_000,
    env: {
      HOME: emptyHome(),
      GIT_CONFIG_GLOBAL: process.env.GIT_CONFIG_GLOBAL ?? join(homedir(), ".gitconfig"),
    },
    sequence: { sequencer: LongestFirst },
    typecheck: { enabled: false },
  },
});
