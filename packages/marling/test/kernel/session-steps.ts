// Steps of any kind that a host can do to sessions, and the world they are done in: a model that answers by the words of the
// input, a tool that answers later, one that has to be approved, one that leaves the frame, and a plugin that counts.

import fc from "fast-check";
import {
  type AppendNode,
  createRuntime,
  definePlugin,
  defineTool,
  type Json,
  MarlingError,
  type ModelRequest,
  type Plugin,
  type Runtime,
  type Session,
  type Store,
  switchFrame,
} from "marling";
import { approvals } from "marling/plugins";
import { callTool, callTools, failWith, type ScriptStep, say, scriptedModel } from "marling/testing";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { quickTool } from "./durable-support.ts";
import { counter } from "./leases-support.ts";

/** Something that takes its time, and how it has ended. */
interface Begun {
  readonly name: string;
  state: Json;
}

/** One runtime after the other on one store, with everything that is on its way in it. */
export class World {
  readonly #open: () => Store;
  readonly #tenant: string | undefined;
  readonly #begun: Begun[] = [];
  readonly #sessions = new Set<string>();
  #whole: Runtime;
  /** The keys that the tool took, oldest first. */
  readonly keys: string[] = [];
  step = 0;

  constructor(open: () => Store, tenant?: string) {
    this.#open = open;
    this.#tenant = tenant;
    this.#whole = runtimeOf(open(), this.keys);
  }

  get runtime(): Runtime {
    return this.#tenant === undefined ? this.#whole : this.#whole.scope(this.#tenant);
  }

  /** Opens a session, or begins it. */
  async session(id: string): Promise<Session> {
    this.#sessions.add(id);
    return this.runtime.session(id);
  }

  /** Keeps what takes its time; how it ends is seen at the next rest. */
  begin(name: string, promise: Promise<unknown>): void {
    const begun: Begun = { name: `${this.step} ${name}`, state: "waiting" };
    this.#begun.push(begun);
    promise.then(
      (value) => {
        begun.state = plain({ value: value ?? null });
      },
      (thrown: unknown) => {
        begun.state = refusalOf(thrown);
      },
    );
  }

  /** Whether nobody waits for anything. */
  async isIdle(): Promise<boolean> {
    const pending = await Promise.all([...this.#sessions].map((id) => this.#pendingIn(id)));
    return pending.flat().length === 0 && this.#begun.every(({ state }) => state !== "waiting");
  }

  /** Resolves when nothing has moved for some turns of the event loop; returns everything there is to see. */
  async rest(): Promise<Json> {
    let seen = "";
    for (let still = 0, turns = 0; still < 30; turns += 1) {
      if (turns > 5_000) throw new Error(`expected the world to come to rest, found ${seen}`);
      await new Promise((resolve) => setImmediate(resolve));
      const now = JSON.stringify([await this.#movements(), this.#begun]);
      still = now === seen && !now.includes('"running"') ? still + 1 : 0;
      seen = now;
    }
    const sessions: unknown[] = [];
    for (const id of [...this.#sessions].sort()) sessions.push(await this.#view(id));
    return plain({ begun: this.#begun, sessions });
  }

  /** Ends the runtime and begins another one on the same data. */
  async reopen(): Promise<void> {
    await this.#whole.close();
    this.#whole = runtimeOf(this.#open(), this.keys);
  }

  close(): Promise<void> {
    return this.#whole.close();
  }

  async #movements(): Promise<unknown> {
    const moved: unknown[] = [];
    for (const id of this.#sessions) moved.push([id, await this.#pendingIn(id), await this.#revisionOf(id)]);
    return moved;
  }

  async #pendingIn(id: string): Promise<readonly unknown[]> {
    const session = await this.#find(id);
    return session === undefined ? [] : session.pending().catch(() => []);
  }

  async #revisionOf(id: string): Promise<number | undefined> {
    return (await this.#find(id))?.read().revision;
  }

  async #find(id: string): Promise<Session | undefined> {
    return (await this.runtime.sessions.exists(id)) ? this.runtime.session(id) : undefined;
  }

  async #view(id: string): Promise<unknown> {
    const session = await this.#find(id);
    if (session === undefined) return { id };
    const history = await session.history();
    const ids = history.flatMap((node) => (node.kind === "message" ? [node.message.id] : []));
    return {
      id,
      view: session.read(),
      history,
      pending: await session.pending(),
      usage: session.usage(),
      counted: await session.query("counter.read"),
      repeated: ids.filter((one, at) => ids.indexOf(one) !== at),
    };
  }
}

/** The clock stands still, so that nothing happens by itself. */
function runtimeOf(store: Store, keys: string[]): Runtime {
  return createRuntime({
    store,
    clock: new ManualClock({ startsAt: 1_000 }),
    model: scriptedModel(answerTo),
    tools: [
      defineTool({
        name: "ask",
        description: "Answers later.",
        input: { type: "object" },
        execute: async (_args, context) => {
          keys.push(await context.completionKey());
          return context.pending();
        },
      }),
      quickTool("quick"),
      quickTool("refund", { replay: "unsafe" }),
      defineTool({
        name: "leave",
        description: "Goes on in another frame.",
        input: { type: "object" },
        execute: () => switchFrame({ key: "other", task: "say task" }),
      }),
    ],
    plugins: [counter(), approvals({ rules: { refund: "ask" }, otherwise: "allow" }), retrying()],
  });
}

function retrying(): Plugin {
  const error = () => ({ kind: "compact_and_retry" }) as const;
  return definePlugin({ id: "retrying", build: () => ({ model: { error } }) })();
}

const CALLS: Readonly<Record<string, ScriptStep>> = {
  ask: callTool("ask", {}),
  refund: callTool("refund", { amount: 5 }),
  leave: callTool("leave", {}),
  quick: callTool("quick", {}),
  both: callTools([
    ["ask", {}],
    ["quick", {}],
    ["ask", {}],
  ]),
};

/** Does what the newest input says by its first word, once; then speaks. */
function answerTo({ messages }: ModelRequest): ScriptStep {
  const last = messages.findLastIndex(({ role }) => role === "user");
  const part = messages[last]?.parts[0];
  const text = part?.kind === "text" ? part.text : "";
  const [word = ""] = text.split(" ");
  const isFirst = messages.slice(last).every(({ role }) => role !== "assistant");
  if (isFirst && word === "long" && messages.length > 2) return failWith({ kind: "context_overflow" });
  if (isFirst && word === "fail") return failWith({ kind: "auth" });
  return (isFirst ? CALLS[word] : undefined) ?? say(`Answer to ${text}.`);
}

export interface Step {
  readonly name: string;
  readonly run: (world: World) => Promise<unknown>;
}

const session = fc.constantFrom("a", "b");
const word = fc.constantFrom("say", "say", "quick", "ask", "both", "refund", "leave", "long", "fail");
const key = fc.option(fc.constantFrom("k1", "k2", "k3"), { nil: undefined, freq: 1 });
const small = fc.nat(4);

function step<T>(
  name: string,
  drawn: { readonly [K in keyof T]: fc.Arbitrary<T[K]> },
  run: (world: World, drawn: T) => Promise<unknown>,
): fc.Arbitrary<Step> {
  return fc.record(drawn as { [K in keyof T]: fc.Arbitrary<T[K]> }).map((values) => ({
    name: `${name} ${JSON.stringify(values)}`,
    run: (world) => run(world, values as T),
  }));
}

const onParked = fc.constantFrom("queue", "queue", "cancel", "reject");

const turns = [
  step("turn", { id: session, word, key, onParked }, async (world, drawn) => {
    const found = await world.session(drawn.id);
    const turn = found.turn(`${drawn.word} ${drawn.key ?? world.step}`, {
      onParked: drawn.onParked as "queue",
      ...(drawn.key === undefined ? {} : { key: drawn.key }),
    });
    world.begin(`turn of ${drawn.id}`, turn.result);
    return { id: turn.id, accepted: await turn.accepted };
  }),
  step("enqueue", { id: session, word, key, isNext: fc.boolean() }, async (world, drawn) => {
    const options = {
      deliver: drawn.isNext ? "next_turn" : "active_turn",
      ...(drawn.key === undefined ? {} : { key: drawn.key }),
    } as const;
    return (await world.session(drawn.id)).enqueue(`${drawn.word} ${drawn.key ?? world.step}`, options);
  }),
];

const answers = [
  step("resolve", { at: small, isError: fc.boolean() }, async ({ runtime, keys }, { at, isError }) => {
    const wanted = keys[at % Math.max(1, keys.length)] ?? "unknown";
    return runtime.resolve(wanted, isError ? { error: { code: "no", message: "No." } } : { ok: "yes" });
  }),
  step("resolve all", {}, async ({ runtime, keys }) => {
    const statuses: string[] = [];
    for (const wanted of keys) statuses.push(await runtime.resolve(wanted, { ok: "yes" }));
    return statuses;
  }),
  step("decide", { at: small, isDenied: fc.boolean() }, async ({ runtime }, { at, isDenied }) => {
    const questions = await runtime.approvals.list();
    const question = questions[at % Math.max(1, questions.length)] ?? { digest: "unknown" };
    const decision = isDenied ? "deny" : "allow";
    return [questions, await runtime.approvals.decide(question, { decision, actor: "somebody" })];
  }),
  step("cancel", { id: session, at: small }, async (world, { id, at }) =>
    (await world.session(id)).cancel(`${id}:turn:${at + 1}`, "enough"),
  ),
  step("take back", { id: session, at: small }, async (world, { id, at }) =>
    (await world.session(id)).cancelPending([`${id}:input:${at + 1}`, "unknown"]),
  ),
];

const message = (content: string, id: string | undefined): AppendNode => ({
  kind: "message",
  message: { role: "user", content, ...(id === undefined ? {} : { id }) },
});

const beside = [
  step(
    "append",
    { id: session, given: key, at: fc.option(small, { nil: undefined }) },
    async (world, drawn) => {
      const found = await world.session(drawn.id);
      const history = await found.history();
      const ancestor = drawn.at === undefined ? undefined : (history[drawn.at]?.id ?? "unknown");
      const nodes = [
        message(`note ${world.step}`, drawn.given),
        { kind: "plugin", type: "mark", body: { at: world.step } } as const,
      ];
      return found.appendNodes(nodes, ancestor === undefined ? {} : { requiresAncestor: ancestor });
    },
  ),
  step(
    "configure",
    { id: session, words: fc.constantFrom("Be brief.", "Be kind.") },
    async (world, drawn) => {
      const found = await world.session(drawn.id);
      world.begin(`configure ${drawn.id}`, found.configure({ instructions: drawn.words }));
    },
  ),
  step("compact", { id: session }, async (world, { id }) =>
    world.begin(`compact ${id}`, (await world.session(id)).compact()),
  ),
  step(
    "command",
    { id: session, kind: fc.constantFrom("command", "task", "action") },
    async (world, drawn) => {
      const found = await world.session(drawn.id);
      const names = { command: "counter.add", task: "counter.task", action: "counter.act" } as const;
      const kind = drawn.kind as keyof typeof names;
      world.begin(`${kind} of ${drawn.id}`, found[kind](names[kind]));
    },
  ),
];

const admin = [
  step("list", { prefix: fc.constantFrom("", "a", "f") }, ({ runtime }, { prefix }) =>
    runtime.sessions.list({ prefix }),
  ),
  step(
    "fork",
    { from: session, as: fc.constantFrom("b", "f", "g"), at: fc.option(fc.nat(9), { nil: undefined }) },
    async (world, { from, as, at }) => {
      const isThere = await world.runtime.sessions.exists(from);
      const history = isThere ? await (await world.session(from)).history() : [];
      const place = at === undefined ? {} : { at: history[at % (history.length + 1)]?.id ?? "unknown" };
      await world.runtime.sessions.fork(from, { as, ...place });
      return (await world.session(as)).read();
    },
  ),
  step("delete", { id: fc.constantFrom("a", "b", "f") }, async (world, { id }) => {
    await world.runtime.sessions.delete(id);
    return world.runtime.sessions.exists(id);
  }),
  step("close", { id: session }, async (world, { id }) => {
    if (!(await world.isIdle())) return "not idle";
    await (await world.session(id)).close();
    return "closed";
  }),
  step("reopen", {}, async (world) => {
    if (!(await world.isIdle())) return "not idle";
    await world.reopen();
    return "reopened";
  }),
];

const weighted = (weight: number, arbitraries: readonly fc.Arbitrary<Step>[]) =>
  arbitraries.map((arbitrary) => ({ weight, arbitrary }));

export const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.oneof(...weighted(8, turns), ...weighted(4, answers), ...weighted(3, beside), ...weighted(2, admin)),
  { minLength: 4, maxLength: 18, size: "max" },
);

/** What is said to a step, and everything there is to see when the world is at rest again. */
export async function answersTo(world: World, { run }: Step): Promise<Json> {
  world.step += 1;
  const answer = await run(world).then((value) => plain({ value: value ?? null }), refusalOf);
  return { answer, seen: await world.rest() };
}

function refusalOf(thrown: unknown): Json {
  if (!MarlingError.is(thrown)) throw thrown;
  return plain({ refused: thrown.code, details: thrown.details });
}

function plain(value: unknown): Json {
  return JSON.parse(JSON.stringify(value)) as Json;
}
