// Snapshots: what is collected, what is compared, what a restore does, and the fingerprint.

import { expect, test } from "vitest";
import { revisionFingerprint } from "../../src/plugin/fingerprint.ts";
import type { Plugin } from "../../src/plugin/plugin.ts";
import {
  decodePluginSnapshot,
  encodePluginSnapshot,
  type PluginSessionSnapshot,
  type SnapshotMeta,
} from "../../src/plugin/snapshot.ts";
import { plugin, sessionOf, thrownBy, turnCtx } from "./samples.ts";

const bytes = (...values: readonly number[]): Uint8Array => Uint8Array.from(values);

/** A plugin that keeps one number by hand. */
function counter(
  id: string,
  options: { readonly at?: number; readonly version?: string } = {},
): Plugin & { count: number } {
  const kept = { count: options.at ?? 0 };
  const made = plugin(
    id,
    {
      snapshot: (writer) => {
        writer.writeBlob("count", bytes(kept.count));
        return { count: kept.count };
      },
      restore: (meta) => {
        kept.count = (meta.state as { count?: number } | undefined)?.count ?? 0;
      },
      revision: () => kept.count,
    },
    options.version,
  );
  return Object.defineProperty({ ...made, count: 0 }, "count", {
    get: () => kept.count,
    set: (count: number) => {
      kept.count = count;
    },
  });
}

test("[K72] a snapshot has a record and the blobs of each plugin", () => {
  const session = sessionOf([counter("a", { at: 3 }), plugin("b", {}, "2")]);
  expect(session.snapshot()).toEqual({
    plugins: {
      a: {
        meta: { pluginId: "a", pluginVersion: "1", revision: 3, state: { count: 3 } },
        artifacts: [{ name: "count", data: bytes(3) }],
      },
      b: { meta: { pluginId: "b", pluginVersion: "2", revision: 0 }, artifacts: [] },
    },
  });
});

test("[SN1] a snapshot shares no bytes with the plugin; of blobs with one name the first is read", () => {
  const data = bytes(1);
  const read: unknown[] = [];
  const session = sessionOf([
    plugin("a", {
      snapshot: (writer) => {
        writer.writeBlob("x", data);
        writer.writeBlob("x", bytes(9));
      },
      restore: (_meta, reader) => {
        read.push(reader.readBlob("x"), reader.readBlob("y"));
      },
    }),
  ]);
  const snapshot = session.snapshot();
  data[0] = 7;
  session.restore(snapshot);
  expect(read).toEqual([bytes(1), undefined]);
});

test("[SN3] a snapshot survives JSON", () => {
  const session = sessionOf([counter("a", { at: 200 })]);
  const snapshot = session.snapshot();
  const wire = JSON.parse(JSON.stringify(encodePluginSnapshot(snapshot)));
  expect(wire.plugins.a.artifacts).toEqual([{ name: "count", base64: "yA==" }]);
  expect(decodePluginSnapshot(wire)).toEqual(snapshot);
  expect(thrownBy(() => decodePluginSnapshot({ plugins: { a: {} } })).code).toBe("invalid_snapshot");
});

test("[K73] a plugin that fails fails the whole snapshot, by name", () => {
  const session = sessionOf([
    counter("a"),
    plugin("b", {
      snapshot: () => {
        throw new Error("disk full");
      },
    }),
  ]);
  const error = thrownBy(() => session.snapshot());
  expect([error.code, error.message, error.details]).toEqual([
    "snapshot_failed",
    "plugin b: snapshot failed: disk full",
    { pluginId: "b", member: "snapshot" },
  ]);
});

test.each([
  ["a promise", async () => ({}), "hook_must_be_synchronous"],
  ["something that is not JSON", () => ({ at: () => 1 }) as never, "snapshot_failed"],
])("[PI2] a snapshot that returns %s is refused", (_name, snapshot, code) => {
  const session = sessionOf([plugin("a", { snapshot: snapshot as never })]);
  expect(thrownBy(() => session.snapshot()).code).toBe(code);
});

test("[PI2] a promise from restore is an error that says so", () => {
  const session = sessionOf([plugin("a", { restore: (async () => {}) as never })]);
  const error = thrownBy(() => session.restore({ plugins: {} }));
  expect([error.code, error.details]).toEqual([
    "hook_must_be_synchronous",
    { pluginId: "a", member: "restore" },
  ]);
});

test("[K74] a restore calls every plugin once; without a record it is told to begin anew", () => {
  const metas: SnapshotMeta[] = [];
  const blobs: unknown[] = [];
  const recording = (id: string, revision: number) =>
    plugin(id, {
      revision: () => revision,
      restore: (meta, reader) => {
        metas.push(meta);
        blobs.push(reader.readBlob("x"));
      },
    });
  const session = sessionOf([recording("a", 4), recording("b", 5)]);
  const meta = { pluginId: "a", pluginVersion: "0", revision: 9, state: "kept" };
  session.restore({ plugins: { a: { meta, artifacts: [{ name: "x", data: bytes(1) }] } } });
  expect(metas).toEqual([meta, { pluginId: "b", pluginVersion: "1", revision: 5 }]);
  expect(blobs).toEqual([bytes(1), undefined]);
});

test("[K148] a restore stops at the first failing plugin", () => {
  const log: string[] = [];
  const logged = (id: string, fails = false) =>
    plugin(id, {
      restore: () => {
        log.push(id);
        if (fails) throw new Error("bad bytes");
      },
    });
  const session = sessionOf([logged("a"), logged("b", true), logged("c")]);
  const error = thrownBy(() => session.restore({ plugins: {} }));
  expect([error.code, error.details, log]).toEqual([
    "snapshot_failed",
    { pluginId: "b", member: "restore" },
    ["a", "b"],
  ]);
});

test("[K148] records of plugins that are gone are ignored, and gone from the next snapshot", () => {
  const session = sessionOf([counter("a")]);
  const meta = { pluginId: "gone", pluginVersion: "1", revision: 1 };
  session.restore({ plugins: { gone: { meta, artifacts: [] } } });
  expect(Object.keys(session.snapshot().plugins)).toEqual(["a"]);
});

test("[K75] a snapshot is current when plugins, versions and revisions are the same", () => {
  const a = counter("a", { at: 1 });
  const session = sessionOf([a, counter("b")]);
  const snapshot = session.snapshot();
  const without = (id: string): PluginSessionSnapshot => ({
    plugins: Object.fromEntries(Object.entries(snapshot.plugins).filter(([other]) => other !== id)),
  });
  const renamed = {
    plugins: { a: snapshot.plugins.a, c: snapshot.plugins.b },
  } as PluginSessionSnapshot;
  expect(session.snapshotIsCurrent(snapshot)).toBe(true);
  expect(session.snapshotIsCurrent(undefined)).toBe(false);
  expect(session.snapshotIsCurrent(without("b"))).toBe(false);
  expect(session.snapshotIsCurrent(renamed)).toBe(false);
  expect(session.snapshotIsCurrent({ plugins: { ...renamed.plugins, ...snapshot.plugins } })).toBe(false);
  expect(sessionOf([a, counter("b", { version: "2" })]).snapshotIsCurrent(snapshot)).toBe(false);
  a.count = 2;
  expect(session.snapshotIsCurrent(snapshot)).toBe(false);
});

test.each<[string, readonly [string, string, number][], bigint]>([
  ["no plugin", [], 1449310910991872227n],
  ["one plugin", [["mock", "1", 0]], 12947519456488543755n],
  [
    "two plugins",
    [
      ["a", "1", 0],
      ["b", "1", 7],
    ],
    18351547898228652475n,
  ],
  [
    "the same two the other way round",
    [
      ["b", "1", 7],
      ["a", "1", 0],
    ],
    4076848242396265823n,
  ],
])("[K76] the fingerprint of %s is what the algorithm says", (_name, plugins, expected) => {
  expect(revisionFingerprint(plugins.map(([id, version, revision]) => ({ id, version, revision })))).toBe(
    expected,
  );
  const session = sessionOf(
    plugins.map(([id, version, revision]) => plugin(id, { revision: () => revision }, version)),
  );
  expect(session.snapshotRevisionFingerprint()).toBe(expected);
});

test("[K76] the fingerprint moves with a revision and comes back with it", () => {
  const a = counter("a");
  const session = sessionOf([a]);
  const before = session.snapshotRevisionFingerprint();
  a.count = 1;
  expect(session.snapshotRevisionFingerprint()).not.toBe(before);
  a.count = 0;
  expect(session.snapshotRevisionFingerprint()).toBe(before);
});

test("[K76] the fingerprint is that of what was restored, of plugins without anything that moves included", () => {
  const session = sessionOf([plugin("plain", {})]);
  const before = session.snapshotRevisionFingerprint();
  const entry = { meta: { pluginId: "plain", pluginVersion: "1", revision: 4 }, artifacts: [] };
  session.restore({ plugins: { plain: entry } });
  expect(session.snapshotRevisionFingerprint()).not.toBe(before);
  expect(session.snapshotRevisionFingerprint()).toBe(
    revisionFingerprint([{ id: "plain", version: "1", revision: 4 }]),
  );
});

test.each([-1, 1.5, Number.NaN, "1" as never])("[PI1] a revision of %s is refused by name", (revision) => {
  const session = sessionOf([plugin("a", { revision: () => revision })]);
  expect(thrownBy(() => session.snapshotRevisionFingerprint()).message).toBe(
    `plugin a: revision: expected a whole number, found ${String(revision)}`,
  );
});

test("[K167] right after restore(s), s is current: declared state and a revision that restore does not set included", async () => {
  let moves = 0;
  const session = sessionOf([
    plugin("low", { revision: () => moves }),
    plugin("declared", (ctx) => {
      const state = ctx.durable({ version: 1, initial: () => 0 });
      return { turn: { before: () => state.update((n) => n + 1) } };
    }),
  ]);
  await session.beforeTurn(turnCtx());
  moves = 3;
  const snapshot = session.snapshot();
  await session.beforeTurn(turnCtx());
  moves = 5;
  expect(session.snapshotIsCurrent(snapshot)).toBe(false);
  session.restore(snapshot);
  expect(session.snapshotIsCurrent(snapshot)).toBe(true);
  const other = sessionOf([...session.host.plugins], { build: { snapshot } });
  expect(other.snapshotIsCurrent(snapshot)).toBe(true);
  moves = 6;
  expect([session.snapshotIsCurrent(snapshot), other.snapshotIsCurrent(snapshot)]).toEqual([false, false]);
});
