// Cases about values: what goes in comes out, and bytes by their address.

import assert from "node:assert/strict";
import type { Json, JsonObject } from "../../model/json.ts";
import {
  A,
  commitOf,
  head,
  id,
  inputOf,
  loaded,
  node,
  refused,
  report,
  type StoreCase,
  turn,
} from "./store-case.ts";

const ODD: JsonObject = {
  empty: "",
  zero: "a\u0000b",
  lines: "a\r\n\tb\u2028\u2029",
  quotes: "'\"`\\ -- ; DROP TABLE sessions",
  emoji: "👩‍👩‍👧‍👦 ñ n\u0303 日本 \u{10ffff}",
  half: "\ud83d",
  tilde: "~0",
  tildes: "~~1",
  constructor: "constructor",
  toString: "toString",
  numbers: [0, -1, 1.5, 1e300, 5e-324, 9007199254740991, -9007199254740991],
  nothing: null,
  yes: true,
  nested: [[], {}, [{ a: [] }]],
};

/** An object with a member that assignment would lose. */
function withProto(): JsonObject {
  return JSON.parse('{"__proto__":{"polluted":true},"after":1}');
}

const IDS = [
  "ünï-code",
  "日本/語",
  "😀",
  "a b",
  "it's",
  '"quoted"',
  "constructor",
  "hasOwnProperty",
  "__proto__x",
  "%2F",
  "~1",
  "a".repeat(512),
];

export const valueCases: readonly StoreCase[] = [
  {
    rule: "ST7",
    title: "odd strings and numbers come back in nodes, components, inputs, progress and reports",
    run: async ({ store }) => {
      const { row } = await store.admit({
        sessionId: A,
        key: "k",
        submitted: ODD,
        input: { ...ODD, changed: true },
      });
      assert.deepEqual((await store.pending(A))[0], row);
      await store.commit(commitOf(A, 0, { advances: { inputId: row.inputId, progress: ODD } }));
      assert.deepEqual((await store.pending(A))[0]?.progress, ODD);
      const whole = { ...report("x"), issues: [ODD as never] };
      const settles = { inputId: row.inputId, report: whole };
      await store.commit(
        commitOf(A, 1, { nodes: [{ ...ODD, id: "n1" }], components: { plugins: ODD }, settles }),
      );
      const session = await loaded(store, A);
      assert.deepEqual(session.nodes, [{ ...ODD, id: "n1" }]);
      assert.deepEqual(session.components.plugins, ODD);
      const settled = await store.find({ sessionId: A, key: "k", submitted: ODD });
      assert.deepEqual(
        [settled?.submitted, settled?.input, settled?.report],
        [ODD, { ...ODD, changed: true }, whole],
      );
    },
  },
  {
    rule: "ST7",
    title: "members come back in the order in which they were given",
    run: async ({ store }) => {
      const value = { z: 1, a: { y: 1, b: 2 }, m: [{ q: 1, c: 2 }] };
      await store.commit(commitOf(A, 0, { nodes: [{ id: "n1", value }], components: { tools: { value } } }));
      const session = await loaded(store, A);
      assert.equal(JSON.stringify(session.nodes), JSON.stringify([{ id: "n1", value }]));
      assert.equal(JSON.stringify(session.components.tools), JSON.stringify({ value }));
    },
  },
  {
    rule: "ST7",
    title: "a member named __proto__ changes no prototype",
    run: async ({ store }) => {
      const odd = withProto();
      await store.commit(
        commitOf(A, 0, { nodes: [{ id: "n1", odd }], components: { plugins: { odd }, tools: odd } }),
      );
      const { nodes, components } = await loaded(store, A);
      assert.equal(JSON.stringify(nodes[0]?.odd), JSON.stringify(odd));
      assert.equal(JSON.stringify(components), JSON.stringify({ plugins: { odd }, tools: odd }));
      assert.equal(Object.getPrototypeOf(components.plugins), Object.prototype);
      assert.equal("polluted" in {}, false);
    },
  },
  {
    rule: "ST7",
    title: "any text may be an id, a key, an operation, a turn id",
    run: async ({ store }) => {
      for (const name of IDS) {
        const { row } = await store.admit(inputOf(id(name), name, { key: name, turnId: turn(name) }));
        const settles = { inputId: row.inputId, report: report(name) };
        const leaf = head({ leaf: node(name), parentSessionId: name, currentFrameId: name });
        const once = { once: true, operation: name } as const;
        await store.commit(commitOf(id(name), 0, { ...once, nodes: [{ id: name }], head: leaf, settles }));
        await refused(store.commit(commitOf(id(name), 1, once)), "revision_conflict");
        assert.deepEqual((await loaded(store, id(name))).head, leaf);
        assert.equal((await store.admit(inputOf(id(name), name, { key: name }))).row.report?.text, name);
      }
      assert.deepEqual((await store.list({})).items.map((item) => item.id).sort(), [...IDS].sort());
    },
  },
  {
    rule: "ST7",
    title: "keys that differ in a control character or half a surrogate pair are different",
    run: async ({ store }) => {
      const keys = ["\u0000", "\u0001", "a\u0000b", "a\u0000c", "\ud83d", "\ud83e", "\ufffd", "__proto__"];
      for (const [index, key] of keys.entries())
        assert.equal((await store.admit(inputOf(A, key, { key }))).row.sequence, index + 1);
      for (const [index, key] of keys.entries())
        assert.equal((await store.admit(inputOf(A, key, { key }))).row.sequence, index + 1);
      assert.deepEqual(
        (await store.pending(A)).map(({ key }) => key),
        keys,
      );
    },
  },
  {
    rule: "ST7",
    title: "values of a megabyte come back",
    run: async ({ store }) => {
      const large = "0123456789abcdef".repeat(65536);
      const { row } = await store.admit(inputOf(A, large, { key: "k" }));
      const settles = { inputId: row.inputId, report: report(large) };
      const components = { plugins: { p: { large } }, execution: { frame: large } };
      await store.commit(
        commitOf(A, 0, {
          nodes: [
            { id: "n1", large },
            { id: "n2", other: `${large}!` },
          ],
          components,
          settles,
        }),
      );
      const session = await loaded(store, A);
      assert.deepEqual(session.nodes, [
        { id: "n1", large },
        { id: "n2", other: `${large}!` },
      ]);
      assert.deepEqual(session.components, components);
      assert.equal((await store.find(inputOf(A, large, { key: "k" })))?.report?.text, large);
    },
  },
  {
    rule: "ST7",
    title: "deep values come back",
    run: async ({ store }) => {
      let deep: Json = "bottom";
      for (let level = 0; level < 500; level += 1) deep = level % 2 === 0 ? [deep] : { deep };
      await store.commit(commitOf(A, 0, { nodes: [{ id: "n1", deep }] }));
      assert.deepEqual((await loaded(store, A)).nodes, [{ id: "n1", deep }]);
    },
  },
  {
    rule: "ST7",
    title: "large members of a component come back, whichever of them changed",
    run: async ({ store }) => {
      const large = (letter: string) => ({ state: letter.repeat(3000) });
      const versions = [
        { plugins: { one: large("a"), two: large("b") } },
        { plugins: { one: large("a"), two: large("c"), three: "~x" } },
        { plugins: { two: large("c") }, list: [large("a"), large("b")] },
      ];
      for (const [revision, plugins] of versions.entries()) {
        await store.commit(commitOf(A, revision, { ids: [`n${revision}`], components: { plugins } }));
        assert.deepEqual((await loaded(store, A)).components.plugins, plugins);
      }
      const fork = await store.fork({ from: A, as: id("b"), at: node("n0") });
      assert.deepEqual(fork.components.plugins, versions[0]);
    },
  },
  {
    rule: "ST20",
    title: "bytes come back by the digest of their content",
    run: async ({ store }) => {
      const bytes = new TextEncoder().encode("abc");
      const ref = await store.blobs.put(bytes);
      assert.match(ref, /^sha256:[0-9a-f]{64}$/);
      assert.equal(store.blobs.ref(bytes), ref);
      assert.notEqual(store.blobs.ref(new TextEncoder().encode("abd")), ref);
      assert.deepEqual(Array.from((await store.blobs.get(ref)) ?? []), [97, 98, 99]);
    },
  },
  {
    rule: "ST20",
    title: "the same bytes again have the same address",
    run: async ({ store }) => {
      const refs = await Promise.all([1, 2, 3].map(() => store.blobs.put(Uint8Array.of(0, 255, 7))));
      refs.push(await store.blobs.put(Uint8Array.of(0, 255, 7)));
      assert.equal(new Set(refs).size, 1);
    },
  },
  {
    rule: "ST20",
    title: "no bytes, and a megabyte of them, come back",
    run: async ({ store }) => {
      for (const bytes of [
        new Uint8Array(0),
        Uint8Array.from({ length: 1 << 20 }, (_, index) => (index * 31) & 255),
      ]) {
        const found = await store.blobs.get(await store.blobs.put(bytes));
        assert.ok(found && Buffer.compare(found, bytes) === 0);
      }
    },
  },
  {
    rule: "ST20",
    title: "an unknown address gives nothing",
    run: async ({ store }) => {
      for (const ref of [`sha256:${"0".repeat(64)}`, "sha256:", "nonsense", ""])
        assert.equal(await store.blobs.get(ref), undefined);
    },
  },
  {
    rule: "ST20",
    title: "changing bytes that were put or got changes nothing in the store",
    run: async ({ store }) => {
      const bytes = Uint8Array.of(1, 2, 3);
      const ref = await store.blobs.put(bytes);
      bytes.fill(9);
      (await store.blobs.get(ref))?.fill(8);
      assert.deepEqual(Array.from((await store.blobs.get(ref)) ?? []), [1, 2, 3]);
    },
  },
];
