// Observers see what happens here at once, and what other runtimes committed as soon as the store says so.

import { refreshIdle } from "./claim-session.ts";
import type { ObserveOptions, SessionObservation } from "./observation.ts";
import type { ResidentSession } from "./resident-session.ts";

export function observeSession(
  session: ResidentSession,
  options: ObserveOptions,
): AsyncIterable<SessionObservation> {
  const { observation, parts } = session;
  if (parts.effects.remembers !== true) return observation.observe(options);
  return observation.observe(options, () =>
    parts.watch.listenToOthers(() => {
      refreshIdle(session).catch(() => undefined); // Whoever uses the session next is told.
    }),
  );
}
