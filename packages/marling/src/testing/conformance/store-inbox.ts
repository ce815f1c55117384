// Cases about the inbox: order, settling, advancing, enqueueing, finding.

import assert from "node:assert/strict";
import {
  A,
  B,
  commitOf,
  id,
  inputId,
  inputOf,
  observe,
  refused,
  report,
  type StoreCase,
  turn,
} from "./store-case.ts";

export const inboxCases: readonly StoreCase[] = [
  {
    rule: "ST9",
    title: "pending inputs are those that no commit settled, in order, whichever was settled first",
    run: async ({ store }) => {
      for (const text of ["one", "two", "three"]) await store.admit(inputOf(A, text));
      await store.commit(
        commitOf(A, 0, { settles: { inputId: inputId("a:input:2"), report: report("done") } }),
      );
      assert.deepEqual(
        (await store.pending(A)).map(({ sequence }) => sequence),
        [1, 3],
      );
      await store.commit(
        commitOf(A, 1, { settles: { inputId: inputId("a:input:1"), report: report("done") } }),
      );
      await store.admit(inputOf(A, "four"));
      assert.deepEqual(
        (await store.pending(A)).map(({ sequence }) => sequence),
        [3, 4],
      );
    },
  },
  {
    rule: "ST9",
    title: "a session of which nobody has heard has nothing pending",
    run: async ({ store }) => assert.deepEqual(await store.pending(A), []),
  },
  {
    rule: "ST9",
    title: "unsettled sessions are those with pending inputs, committed or not",
    run: async ({ store }) => {
      assert.deepEqual(await store.unsettled(), []);
      const { row } = await store.admit(inputOf(A, "one"));
      await store.admit(inputOf(B, "two"));
      await store.commit(commitOf(id("c"), 0));
      assert.deepEqual([...(await store.unsettled())].sort(), ["a", "b"]);
      await store.commit(commitOf(A, 0, { settles: { inputId: row.inputId, report: report("done") } }));
      assert.deepEqual(await store.unsettled(), ["b"]);
    },
  },
  {
    rule: "ST9",
    title: "what the turn of an input begins with is kept while it is pending, and is not compared",
    run: async ({ store }) => {
      const plan = { tools: ["b", "a"], model: null };
      const input = inputOf(A, "one", { key: "k", plan });
      assert.deepEqual((await store.admit(input)).row.plan, plan);
      const again = await store.admit(inputOf(A, "one", { key: "k", plan: "another" }));
      assert.deepEqual([again.status, again.row.plan], ["duplicate", plan]);
      const { enqueued } = await store.commit(
        commitOf(A, 0, { enqueues: [inputOf(A, "two", { plan: [1] })] }),
      );
      assert.deepEqual(enqueued[0]?.plan, [1]);
      await store.admit(inputOf(A, "three"));
      await store.commit(commitOf(A, 1, { advances: { inputId: inputId("a:input:1"), progress: 1 } }));
      assert.deepEqual(
        (await store.pending(A)).map((row) => row.plan),
        [plan, [1], undefined],
      );
    },
  },
  {
    rule: "ST10",
    title: "a settled input is found again with its report, by key, by turn id and by derived turn id",
    run: async ({ store }) => {
      const inputs = [
        inputOf(A, "one", { key: "k" }),
        inputOf(A, "two", { turnId: turn("t") }),
        inputOf(A, "three"),
      ];
      for (const [revision, input] of inputs.entries()) {
        const { row } = await store.admit(input);
        const settles = { inputId: row.inputId, report: report(`answer ${revision}`) };
        await store.commit(commitOf(A, revision, { operation: row.turnId, settles }));
      }
      const again = [...inputs.slice(0, 2), inputOf(A, "three", { turnId: turn("a:turn:3") })];
      for (const [index, input] of again.entries()) {
        const { status, row } = await store.admit(input);
        assert.deepEqual(
          [status, row.sequence, row.report],
          ["duplicate", index + 1, report(`answer ${index}`)],
        );
        assert.deepEqual(row.submitted, input.submitted);
      }
      await refused(store.admit(inputOf(A, "other", { key: "k" })), "idempotency_conflict");
    },
  },
  {
    rule: "ST10",
    title: "a report that repeats long texts of the nodes comes back whole",
    run: async ({ store }) => {
      const text = "A sentence that is long enough to be worth sharing. ".repeat(20);
      const { row } = await store.admit(inputOf(A, text, { key: "k" }));
      const whole = { ...report(text), issues: [{ kind: "x", code: "~1", message: `~${text}` }], text: "~0" };
      const settles = { inputId: row.inputId, report: whole };
      await store.commit(
        commitOf(A, 0, {
          nodes: [
            { id: "n1", text, note: "~~" },
            { id: "n2", text: `${text}!` },
          ],
          settles,
        }),
      );
      assert.deepEqual((await store.find(inputOf(A, text, { key: "k" })))?.report, whole);
    },
  },
  {
    rule: "ST10",
    title: "settling an input again keeps the first report",
    run: async ({ store }) => {
      const { row } = await store.admit(inputOf(A, "one", { key: "k" }));
      await store.commit(commitOf(A, 0, { settles: { inputId: row.inputId, report: report("first") } }));
      await store.commit(commitOf(A, 1, { settles: { inputId: row.inputId, report: report("second") } }));
      assert.deepEqual((await store.find(inputOf(A, "one", { key: "k" })))?.report, report("first"));
    },
  },
  {
    rule: "ST10",
    title: "settling an input of another session, or none, settles nothing",
    run: async ({ store }) => {
      await store.admit(inputOf(A, "one"));
      await store.admit(inputOf(B, "two"));
      for (const [revision, name] of [
        "b:input:1",
        "a:input:9",
        "a:input:01",
        "a:input:",
        "nonsense",
      ].entries()) {
        await store.commit(
          commitOf(A, revision, { settles: { inputId: inputId(name), report: report("x") } }),
        );
      }
      assert.deepEqual([(await store.pending(A)).length, (await store.pending(B)).length], [1, 1]);
    },
  },
  {
    rule: "ST11",
    title: "a commit that advances an input keeps its progress, and the input stays pending",
    run: async ({ store }) => {
      const { row } = await store.admit(inputOf(A, "one"));
      assert.equal("progress" in row, false);
      await store.commit(commitOf(A, 0, { advances: { inputId: row.inputId, progress: { frame: 1 } } }));
      assert.deepEqual((await store.pending(A))[0], { ...row, progress: { frame: 1 } });
      await store.commit(commitOf(A, 1, { advances: { inputId: row.inputId, progress: [2, null] } }));
      assert.deepEqual((await store.pending(A))[0]?.progress, [2, null]);
    },
  },
  {
    rule: "ST11",
    title: "an input that was advanced can be settled",
    run: async ({ store }) => {
      const { row } = await store.admit(inputOf(A, "one", { key: "k" }));
      await store.commit(commitOf(A, 0, { advances: { inputId: row.inputId, progress: 1 } }));
      await store.commit(commitOf(A, 1, { settles: { inputId: row.inputId, report: report("done") } }));
      await store.commit(commitOf(A, 2, { advances: { inputId: row.inputId, progress: 2 } }));
      assert.deepEqual(await store.pending(A), []);
      assert.deepEqual((await store.find(inputOf(A, "one", { key: "k" })))?.report, report("done"));
    },
  },
  {
    rule: "ST12",
    title: "a commit enqueues inputs of any session and returns them in order",
    run: async ({ store }) => {
      const enqueues = [inputOf(B, "there"), inputOf(A, "here", { key: "k" }), inputOf(B, "there too")];
      const { enqueued } = await store.commit(commitOf(A, 0, { enqueues }));
      assert.deepEqual(
        enqueued.map(({ inputId: name }) => name),
        ["b:input:1", "a:input:1", "b:input:2"],
      );
      assert.deepEqual(
        (await store.pending(B)).map(({ input }) => input),
        [{ text: "there" }, { text: "there too" }],
      );
      assert.equal((await store.admit(inputOf(A, "here", { key: "k" }))).status, "duplicate");
    },
  },
  {
    rule: "ST12",
    title:
      "a commit that happens once, asked for again, returns the inputs that it enqueued, and enqueues nothing",
    run: async ({ store }) => {
      const commit = commitOf(A, 0, { once: true, enqueues: [inputOf(B, "there"), inputOf(A, "here")] });
      const first = await store.commit(commit);
      assert.deepEqual(await store.commit(commit), first);
      const settles = { inputId: inputId("b:input:1"), report: report("done") };
      await store.commit(commitOf(B, 0, { settles }));
      const again = await store.commit(commit);
      assert.deepEqual(
        again.enqueued.map(({ inputId: name }) => name),
        ["b:input:1", "a:input:1"],
      );
      assert.deepEqual([(await store.pending(A)).length, (await store.pending(B)).length], [1, 0]);
    },
  },
  {
    rule: "ST12",
    title: "an enqueued input that is a duplicate is the row that is there",
    run: async ({ store }) => {
      const { row } = await store.admit(inputOf(B, "there", { key: "k" }));
      const { enqueued } = await store.commit(
        commitOf(A, 0, { enqueues: [inputOf(B, "there", { key: "k" })] }),
      );
      assert.deepEqual(enqueued, [row]);
    },
  },
  {
    rule: "ST12",
    title: "a commit may settle one input and enqueue the next",
    run: async ({ store }) => {
      const { row } = await store.admit(inputOf(A, "one"));
      const settles = { inputId: row.inputId, report: report("done") };
      await store.commit(commitOf(A, 0, { settles, enqueues: [inputOf(A, "two")] }));
      assert.deepEqual(
        (await store.pending(A)).map(({ sequence, submitted }) => [sequence, submitted]),
        [[2, { text: "two" }]],
      );
    },
  },
  {
    rule: "ST13",
    title: "find returns the row of a duplicate and nothing for what is new",
    run: async ({ store }) => {
      const { row } = await store.admit(inputOf(A, "one", { key: "k", turnId: turn("t") }));
      const { input: _input, ...asked } = inputOf(A, "one", { key: "k" });
      assert.deepEqual(await store.find(asked), row);
      assert.deepEqual(
        await store.find({ sessionId: A, turnId: turn("t"), submitted: { text: "one" } }),
        row,
      );
      assert.equal(await store.find({ sessionId: A, key: "new", submitted: { text: "one" } }), undefined);
      assert.equal(await store.find({ sessionId: A, submitted: { text: "one" } }), undefined);
      await refused(
        store.find({ sessionId: A, key: "k", submitted: { text: "two" } }),
        "idempotency_conflict",
      );
    },
  },
  {
    rule: "ST13",
    title: "find writes nothing",
    run: async ({ store }) => {
      const before = await observe(store, A);
      assert.equal(await store.find({ sessionId: A, key: "k", submitted: { text: "one" } }), undefined);
      assert.deepEqual(await observe(store, A), before);
      assert.equal((await store.admit(inputOf(A, "one", { key: "k" }))).status, "accepted");
    },
  },
];
