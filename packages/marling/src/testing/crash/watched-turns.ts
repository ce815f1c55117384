// Every event of a turn, as it reaches whoever watches it, is a boundary: that is where a turn is published.

import type { Runtime, Session, Turn } from "../../index.ts";
import type { Boundaries } from "./boundaries.ts";

/** Watches the turns of every session that this runtime hands out, and the runtimes of its tenants. */
export function watchTurns(runtime: Runtime, boundaries: Boundaries): void {
  const scoped = once((tenant: Runtime) => watchTurns(tenant, boundaries));
  const watched = once((session: Session) => watchSession(session, boundaries));
  const scope = runtime.scope.bind(runtime);
  runtime.scope = (tenant) => scoped(scope(tenant));
  const { sessions } = runtime;
  const open = runtime.session.bind(runtime);
  runtime.session = async (...args) => watched(await open(...args));
  const fork: typeof sessions.fork = async (...args) => watched(await sessions.fork(...args));
  Object.defineProperty(runtime, "sessions", { value: Object.freeze({ ...sessions, fork }) });
}

/** Watches what is handed out, the first time that it is. */
function once<T extends object>(watch: (found: T) => void): (found: T) => T {
  const seen = new WeakSet<T>();
  return (found) => {
    if (!seen.has(found)) watch(found);
    seen.add(found);
    return found;
  };
}

function watchSession(session: Session, boundaries: Boundaries): void {
  const begin = session.turn.bind(session);
  session.turn = (...args) => {
    const turn = begin(...args);
    // A turn that was not accepted has no events; whoever asked for it hears why.
    watchTurn(turn, boundaries).catch(() => undefined);
    return turn;
  };
}

async function watchTurn(turn: Turn, boundaries: Boundaries): Promise<void> {
  for await (const event of turn) boundaries.pass(`published ${event.kind}`);
}
