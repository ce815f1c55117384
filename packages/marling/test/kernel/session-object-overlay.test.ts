// The session object: its tools under an overlay, and the catalog that is kept of them.

import { describe, expect, test } from "vitest";
import type { ContextOverlay, ResidentSession } from "../../src/kernel/resident-session.ts";
import { manifest, provider, type SampleProvider, toolContext } from "../tool/sample-tools.ts";
import { plugin, type Resident, resident } from "./model-support.ts";

const overlay = (more: Partial<ContextOverlay> = {}): ContextOverlay => ({
  providers: [],
  prompts: [],
  includeBaseTools: true,
  ...more,
});

const note = (content: string) => ({ slot: "guidance", content }) as const;

function namesOf(session: ResidentSession): readonly string[] {
  return session.toolCatalog().map(({ name }) => name);
}

/** A session whose plugin offers `saw` and `file`. */
async function workshop(base: SampleProvider = provider("base", "saw", "file")): Promise<Resident> {
  return resident({
    plugins: [plugin("tools", { tools: base }), plugin("none", { toolCatalog: withoutBatch })],
  });
}
const withoutBatch = () => ({ remove: ["batch"] });

const broken = (): SampleProvider => {
  const bad = provider("bad", "x");
  bad.listed = [manifest("x"), manifest("y", "x")];
  return bad;
};

describe("the registry", () => {
  test("[K155] before any overlay it is the plugin session's own object", async () => {
    const { session } = await workshop();
    expect(session.tools()).toBe(session.plugins.toolRegistry);
    session.setContextOverlay(overlay());
    expect(session.tools()).toBe(session.plugins.toolRegistry);
    session.refreshToolCatalog();
    expect(session.tools()).toBe(session.plugins.toolRegistry);
  });

  test("[K155] under an overlay it is a copy: later changes of the base are unseen until it is composed again", async () => {
    const { session } = await workshop();
    const context = provider("context", "plane");
    session.setContextOverlay(overlay({ providers: [context] }));
    expect(session.tools()).not.toBe(session.plugins.toolRegistry);
    expect(namesOf(session)).toEqual(["file", "plane", "saw"]);
    expect(session.plugins.toolRegistry.has("plane")).toBe(false);
    session.plugins.toolRegistry.setMembership(["saw"], false);
    expect(namesOf(session)).toEqual(["file", "plane", "saw"]);
    session.setContextOverlay(overlay({ providers: [context] }));
    expect(namesOf(session)).toEqual(["file", "plane"]);
  });

  test("[K155] a tool of the overlay stands in the place of one of the same name, and without base tools alone", async () => {
    const { session } = await workshop();
    const saw = provider("context", "saw");
    session.setContextOverlay(overlay({ providers: [saw] }));
    expect(namesOf(session)).toEqual(["file", "saw"]);
    const call = { toolId: "saw", name: "saw", callId: "c", args: {}, input: {} };
    expect(await session.tools().execute(call, toolContext())).toMatchObject({
      outcome: { value: "context:saw" },
    });
    session.setContextOverlay(overlay({ providers: [saw], includeBaseTools: false }));
    expect(namesOf(session)).toEqual(["saw"]);
    session.setContextOverlay(overlay());
    expect(namesOf(session)).toEqual(["file", "saw"]);
  });
});

describe("setting the overlay", () => {
  const first = provider("first", "plane");
  const second = provider("second", "chisel");

  // The spec recommends the later behaviour: sources are read again each time, the revision moves only with a change.
  test.each<[string, Partial<ContextOverlay>, number]>([
    ["the same providers in the same order", { providers: [first, second], prompts: [note("a")] }, 1],
    [
      "prompts that are equal but other objects",
      { providers: [first, second], prompts: [{ ...note("a") }] },
      1,
    ],
    ["another order", { providers: [second, first], prompts: [note("a")] }, 2],
    ["one provider less", { providers: [first], prompts: [note("a")] }, 2],
    [
      "an equal provider that is another object",
      { providers: [first, provider("second", "chisel")], prompts: [note("a")] },
      2,
    ],
    ["another prompt", { providers: [first, second], prompts: [note("b")] }, 2],
    ["no base tools", { providers: [first, second], prompts: [note("a")], includeBaseTools: false }, 2],
  ])("[K136] with %s", async (_name, next, revision) => {
    const { session } = await workshop();
    expect(session.overlayRevision).toBe(0);
    session.setContextOverlay(overlay({ providers: [first, second], prompts: [note("a")] }));
    const before = { tools: session.tools(), catalog: session.resolvedToolCatalog() };
    session.setContextOverlay(overlay(next));
    expect(session.overlayRevision).toBe(revision);
    expect(session.tools() === before.tools).toBe(revision === 1);
    expect(session.resolvedToolCatalog() === before.catalog).toBe(revision === 1);
  });

  test("[K136] a list that the caller changes afterwards is not the session's", async () => {
    const { session } = await workshop();
    const providers = [first];
    session.setContextOverlay(overlay({ providers }));
    providers.push(second);
    session.setContextOverlay(overlay({ providers: [first] }));
    expect(session.overlayRevision).toBe(1);
  });

  test.each([true, false])(
    "[K136] what the same provider offers now is seen, base tools %s",
    async (includeBaseTools) => {
      const { session } = await workshop();
      const moving = provider("moving", "plane");
      session.setContextOverlay(overlay({ providers: [moving], includeBaseTools }));
      expect(namesOf(session)).toContain("plane");
      moving.listed = [manifest("chisel")];
      session.setContextOverlay(overlay({ providers: [moving], includeBaseTools }));
      expect(session.overlayRevision).toBe(1);
      expect(namesOf(session)).toContain("chisel");
      expect(namesOf(session)).not.toContain("plane");
      moving.listed = [manifest("plane")];
      session.setContextOverlay(overlay({ providers: [moving], includeBaseTools }));
      expect(namesOf(session)).toContain("plane");
    },
  );

  test("[K136] without any overlay the sources of the plugins are read again too", async () => {
    const base = provider("base", "saw");
    const { session } = await workshop(base);
    const before = session.resolvedToolCatalog();
    session.setContextOverlay(overlay());
    expect(session.resolvedToolCatalog()).toBe(before);
    base.listed = [manifest("saw"), manifest("rasp")];
    session.setContextOverlay(overlay());
    expect(namesOf(session)).toEqual(["rasp", "saw"]);
    expect(session.overlayRevision).toBe(0);
  });

  test("[K136] a turn sees what providers offer when it begins", async () => {
    const base = provider("base", "saw");
    const scene = await workshop(base);
    await scene.run("Hi");
    base.listed = [manifest("saw"), manifest("rasp")];
    await scene.run("Hi");
    expect(namesOf(scene.session)).toEqual(["rasp", "saw"]);
  });

  test("[K137] one that fails changes nothing: not the tools, the prompts, the revision or the catalog", async () => {
    const { session } = await workshop();
    session.setContextOverlay(overlay({ providers: [first], prompts: [note("a")] }));
    const before = { tools: session.tools(), catalog: session.resolvedToolCatalog() };
    const failing = () => session.setContextOverlay(overlay({ providers: [broken()], prompts: [note("b")] }));
    expect(failing).toThrow(expect.objectContaining({ code: "tool_catalog_failed" }));
    expect(failing).toThrow("session s: failed to build the session's tool registry");
    expect(session.overlayRevision).toBe(1);
    expect(session.contextPromptContributions).toEqual([note("a")]);
    expect(session.tools()).toBe(before.tools);
    expect(session.resolvedToolCatalog()).toBe(before.catalog);
    expect(namesOf(session)).toEqual(["file", "plane", "saw"]);
  });

  test("[K137] a transform whose overlay fails ends its turn; the next turn has the tools it had", async () => {
    let isBroken = true;
    const overlaying = plugin("overlaying", {
      context: {
        prepareTurn: {
          transform: (_ctx, prepared) => ({ ...prepared, toolProviders: isBroken ? [broken()] : [] }),
        },
      },
    });
    const scene = await resident({ plugins: [overlaying] });
    expect((await scene.run("Hi")).outcome).toMatchObject({
      reason: "runtime_error",
      code: "tool_catalog_failed",
    });
    isBroken = false;
    expect((await scene.run("Hi")).outcome).toMatchObject({ kind: "finished" });
  });
});

describe("refreshing", () => {
  test("[K140] the catalog is another object after a refresh and after the caches were invalidated", async () => {
    const { session } = await workshop();
    const first = session.resolvedToolCatalog();
    expect(session.resolvedToolCatalog()).toBe(first);
    session.refreshToolCatalog();
    const second = session.resolvedToolCatalog();
    expect(second).not.toBe(first);
    session.invalidateRuntimeCaches();
    expect(session.resolvedToolCatalog()).not.toBe(second);
  });

  test("[K140] invalidating clears the prompt too, refreshing does not", async () => {
    const { session } = await workshop();
    const inputs = { template: { sections: [] }, executionPrompt: "", toolNames: [], contributions: [] };
    const rendered = session.promptCache.render(inputs);
    session.refreshToolCatalog();
    expect(session.promptCache.render(inputs)).toBe(rendered);
    session.invalidateRuntimeCaches();
    expect(session.promptCache.render(inputs)).not.toBe(rendered);
  });

  test("[K140] a refresh composes with the overlay as it is and picks up what sources changed", async () => {
    const { session } = await workshop();
    const moving = provider("moving", "plane");
    session.setContextOverlay(overlay({ providers: [moving] }));
    moving.listed = [manifest("chisel")];
    session.plugins.toolRegistry.setMembership(["saw"], false);
    session.refreshToolCatalog();
    expect(namesOf(session)).toEqual(["chisel", "file"]);
    expect(session.overlayRevision).toBe(1);
  });

  test.each([false, true])(
    "[K156] one that fails is a protocol error that changes nothing, under an overlay %s",
    async (isOverlaid) => {
      const base = provider("base", "saw");
      const { session } = await workshop(base);
      if (isOverlaid) session.setContextOverlay(overlay({ providers: [provider("context", "plane")] }));
      const before = {
        tools: session.tools(),
        catalog: session.resolvedToolCatalog(),
        names: namesOf(session),
      };
      base.listed = [manifest("saw"), manifest("other", "saw")];
      expect(() => session.refreshToolCatalog()).toThrow(
        expect.objectContaining({ code: "protocol_failed" }),
      );
      expect(session.tools()).toBe(before.tools);
      expect(session.resolvedToolCatalog()).toBe(before.catalog);
      expect(namesOf(session)).toEqual(before.names);
    },
  );
});
