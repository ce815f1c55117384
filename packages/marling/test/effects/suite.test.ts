// The suite notices what it is for: each host here breaks one rule.

import { effectHostConformance, type SuiteApi } from "marling/testing";
import { expect, test } from "vitest";
import type { EffectHost, EffectRequest } from "../../src/effects/contract.ts";
import type { Json } from "../../src/model/json.ts";

interface Rules {
  readonly returnsKnown: boolean;
  readonly tellsTurnsApart: boolean;
  readonly marks: boolean;
  readonly forgetsFaults: boolean;
  readonly keepsValues: boolean;
  readonly keepsPlans: boolean;
}

const ALL: Rules = {
  returnsKnown: true,
  tellsTurnsApart: true,
  marks: true,
  forgetsFaults: true,
  keepsValues: true,
  keepsPlans: true,
};

/** A host whose memory outlives it, and which keeps the rules that it is told to. */
function memoryHost(rules: Rules): EffectHost {
  const outcomes = new Map<string, Json>();
  const started = new Map<string, Json | undefined>();
  const nameOf = ({ sessionId, turnId, key }: EffectRequest): string =>
    JSON.stringify(rules.tellsTurnsApart ? [sessionId, turnId, key] : key);
  return {
    remembers: true,
    run: async <T>(
      request: EffectRequest,
      perform: (plan: Json | undefined) => Promise<T>,
      { cut, plan }: { cut?(): Promise<T>; readonly plan?: Json } = {},
    ): Promise<T> => {
      const name = nameOf(request);
      if (rules.returnsKnown && outcomes.has(name)) return outcomes.get(name) as T;
      const isCut = rules.marks && cut !== undefined && started.has(name);
      if (!started.has(name) && (cut ?? plan) !== undefined) started.set(name, plan);
      try {
        const outcome = await (isCut ? cut() : perform(rules.keepsPlans ? started.get(name) : plan));
        outcomes.set(name, (rules.keepsValues ? outcome : String(outcome)) as Json);
        return outcome;
      } catch (thrown) {
        if (!rules.forgetsFaults) outcomes.set(name, String(thrown));
        throw thrown;
      }
    },
  };
}

async function brokenRules(rules: Partial<Rules>): Promise<readonly string[]> {
  const cases: { readonly name: string; readonly body: () => Promise<void> }[] = [];
  const declare = (name: string, body: () => Promise<void>): void => void cases.push({ name, body });
  const api: SuiteApi = {
    describe: (_name, body) => body(),
    test: Object.assign(declare, { skip: declare }),
  };
  const open = async () => {
    const effects = memoryHost({ ...ALL, ...rules });
    return { effects, reopen: async () => effects, close: async () => undefined };
  };
  effectHostConformance("sample", { open }, api);
  const broken = new Set<string>();
  for (const { name, body } of cases)
    await body().catch(() => broken.add(/^\[(\w+)\]/.exec(name)?.[1] ?? name));
  return [...broken].sort();
}

test("a host that keeps every rule passes", async () => {
  expect(await brokenRules({})).toEqual([]);
});

test.each<[keyof Rules, string]>([
  ["returnsKnown", "JE1"],
  ["tellsTurnsApart", "JE1"],
  ["marks", "JE3"],
  ["forgetsFaults", "JE4"],
  ["keepsValues", "JE5"],
  ["keepsPlans", "JE6"],
])("a host without %s breaks %s", async (rule, id) => {
  expect(await brokenRules({ [rule]: false })).toContain(id);
});

test("a host that does not say that it remembers must skip what needs it", async () => {
  const declared: string[] = [];
  const skipped: string[] = [];
  const test = Object.assign((name: string) => void declared.push(name), {
    skip: (name: string) => void skipped.push(name),
  });
  effectHostConformance(
    "inline",
    { open: () => Promise.reject(new Error("not opened")), skip: { remembers: "it does not" } },
    { describe: (_name, body) => body(), test },
  );
  expect(declared.length).toBeGreaterThan(5);
  expect(skipped.length).toBeGreaterThan(10);
  expect(skipped.every((name) => name.endsWith("(it does not)"))).toBe(true);
});
