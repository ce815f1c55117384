// The servers that people use, as they are.

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { callTool, callTools, say } from "marling/testing";
import { expect, test } from "vitest";
import { failureOf, successOf } from "../../kernel/tools-support.ts";
import { folder, isAlive, outputsOf, realServer, stage, toolNames } from "./mcp-support.ts";

test("[MC1] the filesystem server reads and writes below its folder, and refuses what is outside", async () => {
  const root = folder();
  writeFileSync(join(root, "a.txt"), "alpha");
  const { session, model } = await stage({
    servers: { files: realServer("server-filesystem", root) },
    script: [
      callTools([
        ["mcp__files__read_text_file", { path: join(root, "a.txt") }],
        ["mcp__files__write_file", { path: join(root, "b.txt"), content: "beta" }],
        ["mcp__files__read_text_file", { path: "/etc/hostname" }],
      ]),
      say("Done."),
    ],
  });
  const [read, written, refused] = await outputsOf(session.turn("go"));
  expect(successOf(read)).toEqual({ content: "alpha" });
  expect(successOf(written)).toMatchObject({ content: expect.stringContaining("Successfully wrote") });
  expect(readFileSync(join(root, "b.txt"), "utf8")).toBe("beta");
  expect(failureOf(refused)).toMatchObject({
    code: "mcp_tool_error",
    message: expect.stringContaining("Access denied"),
  });
  expect(toolNames(model, 0)).toContain("mcp__files__list_directory");
});

test("[MC30] the everything server: text, a sum, an image as an attachment, structured content, and links as links", async () => {
  const { session } = await stage({
    servers: { all: realServer("server-everything") },
    script: [
      callTools([
        ["mcp__all__echo", { message: "hi" }],
        ["mcp__all__get-sum", { a: 2, b: 3 }],
        ["mcp__all__get-tiny-image", {}],
        ["mcp__all__get-structured-content", { location: "Chicago" }],
        ["mcp__all__get-resource-links", { count: 2 }],
      ]),
      say("Done."),
    ],
  });
  const [echo, sum, image, structured, links] = await outputsOf(session.turn("go"));
  expect(successOf(echo)).toBe("Echo: hi");
  expect(successOf(sum)).toContain("5");
  expect(successOf(image)).toEqual(
    expect.arrayContaining([
      expect.objectContaining({
        $marling: "attachment",
        source: expect.objectContaining({ mediaType: "image/png", kind: "stored" }),
      }),
    ]),
  );
  expect(successOf(structured)).toMatchObject({
    temperature: expect.any(Number),
    conditions: expect.any(String),
  });
  expect(successOf(links)).toEqual(
    expect.arrayContaining([expect.objectContaining({ link: expect.any(String) })]),
  );
});

test("[MC25] the everything server is offered no sampling, no elicitation and no roots, so it has no tools for them", async () => {
  const { model, session } = await stage({
    servers: { all: realServer("server-everything") },
    script: [say("Done.")],
  });
  await session.turn("go").result;
  const names = toolNames(model, 0);
  expect(names).toContain("mcp__all__echo");
  expect(names.filter((name) => /sampling|elicitation|roots/.test(name))).toEqual([]);
});

test("[MC33] progress of the everything server reaches whoever watches the turn", async () => {
  const { session } = await stage({
    servers: { all: realServer("server-everything") },
    script: [callTool("mcp__all__trigger-long-running-operation", { duration: 1, steps: 2 }), say("Done.")],
  });
  const progress: string[] = [];
  const turn = session.turn("go");
  for await (const event of turn) if (event.kind === "tool_progress") progress.push(event.message);
  expect(progress[0]?.slice(0, 3)).toBe("1/2"); // The last one may come together with the result.
});

test("[MC41] the memory server remembers between sessions of one runtime, and its process ends with the runtime", async () => {
  const { session, runtime, servers } = await stage({
    servers: {
      memory: { ...realServer("server-memory"), env: { MEMORY_FILE_PATH: join(folder(), "memory.jsonl") } },
    },
    script: [
      callTool("mcp__memory__create_entities", {
        entities: [{ name: "Ada", entityType: "person", observations: ["likes engines"] }],
      }),
      say("Done."),
      callTool("mcp__memory__search_nodes", { query: "engines" }),
      say("Done."),
    ],
  });
  await session.turn("go").result;
  const other = await runtime.session("other");
  const [found] = await outputsOf(other.turn("go"));
  expect(JSON.stringify(successOf(found))).toContain("likes engines");
  const pid = servers.status().memory?.pid ?? 0;
  expect(isAlive(pid)).toBe(true);
  await runtime.close();
  expect(isAlive(pid)).toBe(false);
  expect(servers.status().memory?.state).toBe("idle");
});
