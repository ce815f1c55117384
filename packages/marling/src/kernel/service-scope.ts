// Where a service is asked for: inside an effect of a turn, or beside turns.
//   SS1  what a service does inside an effect is named after the effect and a number, or a key that the caller gives, so
//        that every run of the effect names it the same.

import type { TurnRun } from "./turn-run.ts";

/** A scope for code of a turn that is no effect of its own and runs again in every run. */
export function namedScope(turn: TurnRun, name: string): TurnRun {
  return { ...turn, scope: `${turn.scope}.${name}` };
}

const COUNTS = new WeakMap<TurnRun, Map<string, number>>();

/** The name of one more call of a service inside an effect, unique in the session. */
export function serviceKey(scope: TurnRun, service: string, key: string | undefined): string {
  return `${scope.scope}/${service}.${key ?? next(scope, service)}`;
}

function next(scope: TurnRun, service: string): number {
  const counts = COUNTS.get(scope) ?? new Map<string, number>();
  COUNTS.set(scope, counts);
  const number = counts.get(service) ?? 0;
  counts.set(service, number + 1);
  return number;
}
