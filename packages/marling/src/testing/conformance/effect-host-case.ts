// What the cases of the effect host suite are made of: effects that can be counted, and faults that can be told apart.

import assert from "node:assert/strict";
import type { EffectHost, EffectKind, EffectOptions, EffectRequest } from "../../effects/contract.ts";
import type { EffectKey, SessionId, TurnId } from "../../model/ids.ts";
import type { Json } from "../../model/json.ts";

export interface EffectBench {
  readonly effects: EffectHost;
  /** The same data in a host that is opened anew, as after a crash. */
  reopen(): Promise<EffectHost>;
}

export interface EffectCase {
  readonly rule: string;
  readonly title: string;
  /** What a host must do for the case to be about it. */
  readonly needs?: "remembers";
  run(bench: EffectBench): Promise<void>;
}

/** A request; samples may use any text as ids. */
export function effect(
  key: string,
  {
    kind = "tool_attempt",
    sessionId = "a",
    turnId = "t1",
  }: { readonly kind?: EffectKind; readonly sessionId?: string; readonly turnId?: string } = {},
): EffectRequest {
  return {
    sessionId: sessionId as SessionId,
    turnId: turnId as TurnId,
    key: key as EffectKey,
    kind,
  };
}

/** Performs an effect that comes to a value; says whether it was performed. */
export async function performed(
  effects: EffectHost,
  request: EffectRequest,
  value: Json,
): Promise<{ readonly outcome: Json; readonly isPerformed: boolean }> {
  let isPerformed = false;
  const outcome = await effects.run<Json>(request, async () => {
    isPerformed = true;
    return value;
  });
  return { outcome, isPerformed };
}

/** A fault of the machinery, as a store that is full would throw it. */
export class Fault extends Error {}

/** Lets an effect begin and fail; what is known of it is what a crash would leave. */
export async function fail(
  effects: EffectHost,
  request: EffectRequest,
  options?: EffectOptions<Json>,
): Promise<void> {
  const fault = new Fault(`fault of ${request.key}`);
  const run = effects.run<Json>(request, () => Promise.reject(fault), options);
  await assert.rejects(run, (thrown: unknown) => thrown === fault);
}

/** An effect that must not be performed. */
export async function never(): Promise<never> {
  return assert.fail("the effect was performed although it must not be");
}
