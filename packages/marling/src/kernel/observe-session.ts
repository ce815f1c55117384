// Observers see what happens here at once, and what other runtimes committed as soon as the store says so.

import { refreshIdle } from "./claim-session.ts";
import type { ObserveOptions, SessionObservation } from "./observation.ts";
import type { ResidentSession } from "./resident-session.ts";

export function observeSession(
  session: ResidentSession,
  options: ObserveOptions,
): AsyncIterable<SessionObservation> {
  const { observation, parts } = session;
  const observed = observation.observe(options); // Begins now, whenever somebody reads it.
  if (parts.effects.remembers !== true) return observed;
  return {
    async *[Symbol.asyncIterator]() {
      const unlisten = parts.watch.listen(() => {
        refreshIdle(session).catch(() => undefined); // Whoever uses the session next is told.
      });
      try {
        yield* observed;
      } finally {
        unlisten();
      }
    },
  };
}
