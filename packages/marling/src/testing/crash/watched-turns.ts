// Every event of a turn, as it reaches whoever watches it, is a boundary: that is where a turn is published.

import type { Runtime, Session, Turn } from "../../index.ts";
import type { Boundaries } from "./boundaries.ts";

/** Watches the turns of every session that this runtime hands out, and the runtimes of its tenants. */
export function watchTurns(runtime: Runtime, boundaries: Boundaries): void {
  const scopes = new WeakSet<Runtime>();
  const scope = runtime.scope.bind(runtime);
  runtime.scope = (tenant) => {
    const scoped = scope(tenant);
    if (!scopes.has(scoped)) watchTurns(scoped, boundaries);
    scopes.add(scoped);
    return scoped;
  };
  const seen = new WeakSet<Session>();
  const watched = (session: Session): Session => {
    if (!seen.has(session)) watchSession(session, boundaries);
    seen.add(session);
    return session;
  };
  const { sessions } = runtime;
  const open = runtime.session.bind(runtime);
  runtime.session = async (...args) => watched(await open(...args));
  const fork: typeof sessions.fork = async (...args) => watched(await sessions.fork(...args));
  Object.defineProperty(runtime, "sessions", { value: Object.freeze({ ...sessions, fork }) });
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
