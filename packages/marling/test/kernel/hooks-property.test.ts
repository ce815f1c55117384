// Whatever plugins do in their hooks and whatever the model answers, no turn is left without an outcome, the session
// takes the next turn, and what it stored can be sent to a model again.

import fc from "fast-check";
import {
  type Clock,
  createRuntime,
  directive,
  type HistoryNode,
  MarlingError,
  memoryStore,
  type Plugin,
  type PluginParts,
  type Session,
  type TurnReport,
  toolFailure,
  toolSuccess,
} from "marling";
import { callTool, callTools, failWith, type ScriptStep, say, scriptedModel } from "marling/testing";
import { expect, test } from "vitest";
import { decodeJson } from "../../src/model/json.ts";
import { HOOKS, type HookName } from "../../src/plugin/hooks.ts";
import { type AnyHandler, echoTool, never, PARTS_WITH, plugin } from "./hooks-support.ts";

type Answer = (ctx: never, current: never) => unknown;

const ABORT = directive.abortTurn({ code: "halt", message: "Halt." });
const NOTE = directive.enqueueMessages([{ role: "user", content: "note" }]);
const DENY = directive.shortCircuitTool(toolFailure({ code: "denied", message: "No." }));
const REPLACE = directive.replaceToolArgs({ text: "other" });

/** Directives that most phases take. */
const COMMON: readonly Answer[] = [
  () => ABORT,
  () => NOTE,
  () => directive.enqueueMessages([{ role: "assistant", content: "not taken" }]),
  () => directive.enqueueMessages([{ role: "system", content: "psst", transient: true }]),
  () => directive.createSession({ sessionId: "child" }),
  () => directive.createSession({}),
  () => directive.emitEvents([{ kind: "status", key: "k", label: "l" }]),
  () => directive.emitTrace({ name: "t" }),
  () => [NOTE, ABORT, NOTE],
  () => REPLACE,
];
const AROUND_CALLS: readonly Answer[] = [
  ...COMMON,
  () => directive.replaceToolArgs({ text: 7 }),
  () => directive.shortCircuitTool(toolSuccess("settled")),
  () => directive.shortCircuitTool(toolSuccess("bye", { kind: "finish", value: "bye" })),
  () => DENY,
  () => [REPLACE, DENY],
];

/** What a well-behaved handler of each hook may answer. */
const ANSWERS: { readonly [K in HookName]: readonly Answer[] } = {
  "prompt.contribute": [() => ({ slot: "guidance", content: "Be kind." })],
  "tool_catalog.contribute": [() => ({ remove: ["echo"] })],
  "turn.before": COMMON,
  "turn.after": COMMON,
  "turn.checkpoint": COMMON,
  "tool_calls.before": AROUND_CALLS,
  "tool_calls.after": AROUND_CALLS,
  "approval.request": [
    () => ({ decision: "allow" }),
    () => ({ decision: "ask", expiresMs: 1 }),
    () => ({ decision: "deny" }),
  ],
  "input.before": [() => ({ input: "another" }), () => ({ reject: { code: "spam", message: "No." } })],
  "model.request": [() => ({ parameters: { temperature: 0 } })],
  "model.error": [
    () => ({ kind: "retry", afterMs: 1 }),
    () => ({ kind: "fall_back", model: "default" }),
    () => ({ kind: "fall_back", model: "nobody" }),
    () => ({ kind: "compact_and_retry" }),
    () => ({ kind: "fail" }),
  ],
  "output.stream": [() => ({ chunk: "~" }), () => ({ chunk: "" }), () => ({ chunk: "!", abortStream: true })],
  "output.response": [(ctx: { response: unknown }) => ({ response: ctx.response })],
  "output.stream_finished": [],
  "session.mutate_config": [],
  "session.on_event": [],
  "context.prepare_turn": [
    (_ctx: never, prepared: { messages: readonly unknown[] }) => ({
      ...prepared,
      messages: prepared.messages.slice(-1),
    }),
    (_ctx: never, prepared: object) => ({ ...prepared, includeBaseTools: false }),
  ],
  "context.compact": [
    () => ({ initialNodes: [{ kind: "message", message: { role: "user", content: "before" } }] }),
  ],
  "recovery.decide": [],
};

const MISBEHAVIOUR: { readonly [name: string]: Answer } = {
  throws: () => {
    throw new Error("broken");
  },
  rejects: () => Promise.reject(new Error("broken")),
  "never settles": never,
  "answers nonsense": () => ({ kind: "nonsense", messages: 7 }),
  "answers null": () => null,
};

const STEPS: readonly ScriptStep[] = [
  say("Fine."),
  say("In parts.", { chunks: ["In ", "parts", "."], reasoning: "hm" }),
  say(""),
  callTool("echo", { text: "one" }),
  callTool("echo", { text: 1 }),
  callTool("echo", "{not json"),
  callTool("nobody", {}),
  callTools([
    ["echo", { text: "one" }],
    ["echo", { text: "two" }],
    ["batch", { calls: [{ name: "echo", args: { text: "three" } }] }],
  ]),
  failWith({ kind: "overloaded", chunks: ["half"] }),
  failWith({ kind: "auth" }),
  failWith({ kind: "context_overflow" }),
];

const hookNames = Object.keys(HOOKS) as HookName[];

/** A plugin as data: for each of some hooks, what its calls do one after the other, over and over. */
type PluginPlan = readonly (readonly [hook: HookName, behaviours: readonly string[]])[];

const pluginPlan: fc.Arbitrary<PluginPlan> = fc
  .uniqueArray(fc.constantFrom(...hookNames), { minLength: 1, maxLength: 5 })
  .chain((hooks) => fc.tuple(...hooks.map((hook) => fc.tuple(fc.constant(hook), behavioursOf(hook)))));

function behavioursOf(hook: HookName): fc.Arbitrary<readonly string[]> {
  const answers = ANSWERS[hook].map((_answer, index) => `answer ${index}`);
  const good = fc.constantFrom("nothing", ...answers);
  const bad = fc.constantFrom(...Object.keys(MISBEHAVIOUR));
  return fc.array(fc.oneof({ weight: 4, arbitrary: good }, { weight: 1, arbitrary: bad }), {
    minLength: 1,
    maxLength: 3,
  });
}

function pluginFrom(plan: PluginPlan, index: number): Plugin {
  const parts: Record<string, object | AnyHandler> = {};
  for (const [hook, behaviours] of plan) {
    for (const [name, part] of Object.entries(PARTS_WITH[hook](handlerOf(hook, behaviours)))) {
      parts[name] = typeof part === "function" ? part : { ...parts[name], ...(part as object) };
    }
  }
  return plugin(`p${index}`, parts as PluginParts);
}

function handlerOf(hook: HookName, behaviours: readonly string[]): AnyHandler {
  let calls = 0;
  const handler = (ctx: never, current: never): unknown => {
    const name = behaviours[calls % behaviours.length] as string;
    calls += 1;
    if (name === "nothing") return undefined;
    const answer = name.startsWith("answer ")
      ? ANSWERS[hook][Number(name.slice("answer ".length))]
      : MISBEHAVIOUR[name];
    return (answer as Answer)(ctx, current);
  };
  return handler as unknown as AnyHandler;
}

/** A clock on which everything that waits is over once nothing else is left to do. */
let time = 0;
const impatient: Clock = {
  now: () => time,
  monotonic: () => time,
  sleep: (ms) => new Promise((resolve) => impatient.after(ms, () => resolve())),
  after: (ms, fire) => {
    const timer = setImmediate(() => {
      time += ms;
      fire();
    });
    return () => clearImmediate(timer);
  },
};

test("no plugin and no answer of a model leaves a turn without an outcome", async () => {
  const scene = fc.record({
    plans: fc.array(pluginPlan, { maxLength: 4 }),
    steps: fc.array(fc.constantFrom(...STEPS.keys()), { maxLength: 6 }),
    cancelled: fc.constantFrom("none", "none", "One", "Two"),
  });
  await fc.assert(
    fc.asyncProperty(scene, async ({ plans, steps, cancelled }) => {
      const script = steps.map((index) => STEPS[index] as ScriptStep);
      const store = memoryStore();
      const model = scriptedModel(() => script.shift() ?? say("End."));
      const options = { store, model, turnBudget: 4, clock: impatient };
      const plugins = plans.map(pluginFrom);
      const runtime = createRuntime({ ...options, plugins, tools: [echoTool(() => {})], hookTimeoutMs: 5 });
      const session = await runtime.session("s");
      let committed = 0;
      for (const input of ["One", "Two", "Three"])
        if (await runOne(session, input, { isCancelled: input === cancelled })) committed += 1;

      expect(session.read().turnIndex).toBe(committed);
      checkCalls(await session.history());
      const view = session.read();
      decodeJson(view, "view");
      expect(JSON.parse(JSON.stringify(view))).toStrictEqual(view);
      await runtime.close();
      const again = createRuntime(options);
      expect((await again.sessions.open("s")).read().messages).toEqual(view.messages);
      await again.close();
    }),
    { numRuns: 250 },
  );
}, 60_000);

/** Runs a turn; false when its input was not accepted, which only a hook before inputs can bring about. */
async function runOne(
  session: Session,
  input: string,
  { isCancelled }: { readonly isCancelled: boolean },
): Promise<boolean> {
  const turn = session.turn(input);
  if (isCancelled) void session.cancel(turn.id);
  const report: TurnReport | undefined = await turn.result.catch((thrown: unknown) => {
    if (!MarlingError.is(thrown)) throw thrown;
    expect(thrown.code === "input_rejected" || thrown.details.hook === "input.before", thrown.message).toBe(
      true,
    );
    return undefined;
  });
  if (report === undefined) return false;
  expect(["finished", "stopped"]).toContain(report.outcome.kind);
  decodeJson(report, "report");
  const kinds: string[] = [];
  for await (const event of turn) kinds.push(event.kind);
  expect(kinds.filter((kind) => kind === "committed")).toEqual(["committed"]);
  return true;
}

/** Every call is answered once, after it was made, before the turn goes on. */
function checkCalls(history: readonly HistoryNode[]): void {
  const open = new Set<string>();
  for (const node of history) {
    if (node.kind !== "message") continue;
    for (const part of node.message.parts) {
      if (part.kind === "tool_call") expect(open.has(part.callId), part.callId).toBe(false);
      if (part.kind === "tool_call") open.add(part.callId);
      if (part.kind === "tool_result") expect(open.delete(part.callId), part.callId).toBe(true);
    }
  }
  expect([...open]).toEqual([]);
}
