// Sessions that the command line made: it runs turns of no others.
//   OW1  they run with a model under a name of their own. A runtime drives a session only when it has the model's name, so
//        recovery leaves the sessions of programs alone.
//   OW2  sessions of older versions have the model `default` and the three plugins that every agent has; they get the name
//        when they are opened.

import { MarlingError, type Runtime, type Session } from "marling";
import type { Settings } from "./settings.ts";
import { listSessions, withStore } from "./stored-sessions.ts";

/** The name of the model of every session that the command line makes. */
export const OWN_MODEL = "marling_cli";

const OLDER_MODEL = "default";
const OLDER_PLUGINS = ["redaction", "approvals", "plan_mode"];

/** Opens a session that the command line made, or begins one. Throws `needs_binding` for the session of a program. */
export async function openOwn(
  runtime: Runtime,
  settings: Pick<Settings, "store">,
  id: string,
): Promise<Session> {
  if (!(await runtime.sessions.exists(id))) return runtime.session(id, { model: OWN_MODEL });
  const seen = await runtime.sessions.open(id);
  const isNamed = seen.read().policy.model === OWN_MODEL;
  if (seen.isReadOnly) await seen.close();
  if (!isNamed && !(await isOfOlderVersion(settings, id))) throw foreign(id);
  return runtime.session(id, isNamed ? {} : { model: OWN_MODEL });
}

/** Opens the sessions of older versions that have unfinished turns, so that recovery finishes them. */
export async function adoptOlder(runtime: Runtime, settings: Pick<Settings, "store">): Promise<void> {
  const sessions = await withStore(settings, listSessions);
  for (const { id, unfinished } of sessions)
    if (unfinished > 0 && (await isOfOlderVersion(settings, id))) await openOwn(runtime, settings, id);
}

/** Whether an older version of the command line made a session, as the stored names say. */
async function isOfOlderVersion(settings: Pick<Settings, "store">, id: string): Promise<boolean> {
  return withStore(settings, async (store) => {
    const stored = await store.load(id as Parameters<typeof store.load>[0], { isPartial: true }); // an id of the store
    const { frames = [], currentFrameId } = stored?.head ?? {};
    const frame = frames.findLast((one) => one.id === currentFrameId) as StoredFrame | undefined;
    const plugins = (stored?.components.plugins as StoredPlugins | undefined)?.plugins ?? {};
    return (
      frame?.assignment?.policy?.model === OLDER_MODEL &&
      OLDER_PLUGINS.every((name) => Object.hasOwn(plugins, name))
    );
  });
}

interface StoredFrame {
  readonly assignment?: { readonly policy?: { readonly model?: unknown } };
}

interface StoredPlugins {
  readonly plugins?: Readonly<Record<string, unknown>>;
}

function foreign(id: string): MarlingError {
  const message = `session ${id} was made by a program; only that program runs its turns. \`marling show ${id}\` reads it`;
  return new MarlingError("needs_binding", message, { details: { sessionId: id } });
}
