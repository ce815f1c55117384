// Bindings: names that a stored session needs and that a runtime must have before it drives the session (E19).
//   BI1  a session needs every plugin that its newest commit names and the model of its policy.
//   BI2  an unfinished turn needs the plugins and tool sources that its environment names. A turn that was asked to end
//        needs none.
//   BI3  plugins that the runtime adds by itself are not named. The option `tools` is the tool source `host_tools`.
//   BI4  a retired plugin is not needed, except by a turn whose journal has begun.
//   BI6  a turn that has begun runs with the plugins it began with; additional ones join at the next turn.
//   BI5  the check is made from the newest commit: when a session is opened or reloaded, and before every commit.

import { MarlingError } from "../base/errors.ts";
import type { SessionId } from "../model/ids.ts";
import { isJsonObject, type Json, type JsonObject } from "../model/json.ts";
import type { InboxRow } from "../store/contract.ts";
import { type EnvironmentNames, environmentNames, HOST_TOOLS } from "./environment-names.ts";
import type { KernelParts } from "./parts.ts";
import type { ResidentSession } from "./resident-session.ts";
import { type StoredFork, storedAssignment } from "./session-state.ts";
import { storeFault } from "./store-fault.ts";
import { decodeProgress, partId } from "./turn-progress.ts";

/** How a runtime stands to the newest commit of a session that it has read. */
export interface Bindings {
  /** Names of the bindings that this runtime lacks, for an error message. */
  readonly missing: readonly string[];
  /** Plugins that the commit names and that are retired here; the next commit records that. */
  readonly retiring: readonly string[];
  /** Whether the commit was made by a runtime with tools of its own. */
  readonly hadHostTools: boolean;
}

/** The bindings of a session that this runtime makes. */
export const BOUND: Bindings = Object.freeze({ missing: [], retiring: [], hadHostTools: false });

type BindingParts = Pick<KernelParts, "plugins" | "models" | "retired" | "store" | "effects">;

/** Compares a stored session with this runtime. `model` is the name that the session is given with its opening. */
export function bindingsOf(parts: BindingParts, stored: StoredFork, model?: string | undefined): Bindings {
  const wanted = model ?? storedAssignment(stored).policy.model;
  const named = pluginsNamed(stored);
  const absent = named.filter((id) => id !== HOST_TOOLS && !hasPlugin(parts, id));
  const lost = absent.filter((id) => !parts.retired.has(id));
  return {
    missing: [...(parts.models.has(wanted) ? [] : [`model ${wanted}`]), ...lost.map(pluginNamed)],
    retiring: absent.filter((id) => parts.retired.has(id)),
    hadHostTools: named.includes(HOST_TOOLS),
  };
}

/** The ids in the plugin state of a commit. What the plugins stored is not read. */
function pluginsNamed({ components }: StoredFork): readonly string[] {
  const named = components.plugins?.plugins;
  return isJsonObject(named) ? Object.keys(named) : [];
}

/** As `bindingsOf`, with what the unfinished turns of the session need. */
export async function allBindingsOf(
  parts: BindingParts,
  stored: StoredFork,
  model?: string | undefined,
): Promise<Bindings> {
  const bindings = bindingsOf(parts, stored, model);
  const missing = await missingForTurns(parts, stored.sessionId, bindings);
  return { ...bindings, missing: [...new Set([...bindings.missing, ...missing])] };
}

/** Bindings that the unfinished turns of a session need and this runtime lacks. */
async function missingForTurns(
  parts: BindingParts,
  id: SessionId,
  bindings: Bindings,
): Promise<readonly string[]> {
  if (parts.effects.remembers !== true) return [];
  const rows = await parts.store.pending(id).catch((thrown: unknown) => {
    throw storeFault(thrown, id);
  });
  const missing: string[] = [];
  for (const row of rows) {
    const begun = await begunWith(parts, row);
    missing.push(...missingFor(parts, row, { begun, bindings }));
  }
  return missing;
}

/** Bindings that an unfinished turn needs and this runtime lacks. */
function missingFor(
  parts: BindingParts,
  row: InboxRow,
  { begun, bindings }: { readonly begun: BegunWith; readonly bindings: Bindings },
): readonly string[] {
  if (row.cancel !== undefined || row.report !== undefined) return [];
  const { hasBegun, environments } = begun;
  const { retiring, hadHostTools } = bindings;
  const isLost = (id: string): boolean => !hasPlugin(parts, id) && (hasBegun || !parts.retired.has(id));
  const missing = new Set(hasBegun ? retiring.map(pluginNamed) : []);
  for (const { plugins = [], sources = hadHostTools ? [HOST_TOOLS] : [] } of environments) {
    for (const id of plugins) if (isLost(id)) missing.add(pluginNamed(id));
    for (const id of sources) if (isLost(id) && !plugins.includes(id)) missing.add(`tool source ${id}`);
  }
  return [...missing];
}

/** Throws `needs_binding` when this runtime lacks something that the newest commit it has read names. */
export function requireBindings({ id, bindings, isReader }: ResidentSession): void {
  if (bindings.missing.length > 0) throw needsBinding(id, bindings.missing);
  if (isReader) throw needsBinding(id, ["a handle that is opened now, since another runtime has committed"]);
}

/** The session, if this runtime may drive it. */
export function drivable(session: ResidentSession): ResidentSession {
  requireBindings(session);
  return session;
}

/**
 * As `requireBindings`, with what a turn needs that is about to run under the lease. Returns the plugins that the turn began
 * with; nothing for a turn that begins now.
 */
export async function requireForTurn(
  session: ResidentSession,
  row: InboxRow,
): Promise<ReadonlySet<string> | undefined> {
  requireBindings(session);
  const begun = await begunWith(session.parts, row);
  const missing = missingFor(session.parts, row, { begun, bindings: session.bindings });
  if (missing.length > 0) throw needsBinding(session.id, missing);
  const named = begun.environments.flatMap(({ plugins }) => (plugins === undefined ? [] : [plugins]));
  return begun.hasBegun && named.length > 0 ? new Set(named.flat()) : undefined;
}

/** Throws `needs_binding` when an unfinished turn of the session needs what this runtime lacks. */
export async function requireForTurns({ id, parts, bindings }: ResidentSession): Promise<void> {
  const missing = await missingForTurns(parts, id, bindings);
  if (missing.length > 0) throw needsBinding(id, missing);
}

/** Whether an error says that this runtime lacks what a session needs: any session, or this one. */
export function isUnbound(thrown: unknown, id?: SessionId): thrown is MarlingError {
  if (!MarlingError.is(thrown) || thrown.code !== "needs_binding") return false;
  return id === undefined || thrown.details.sessionId === id;
}

export function needsBinding(sessionId: string, missing: readonly string[]): MarlingError {
  const message = `session ${sessionId}: expected a runtime with ${missing.join(" and ")}, found one without; runtime.sessions.open reads the session, and the option retired gives a plugin up`;
  return new MarlingError("needs_binding", message, { details: { sessionId, missing: [...missing] } });
}

/** The key of an environment: `<round>.environment`, with a number when the round asked again. */
const ENVIRONMENT = /^\d+\.environment(?:\.\d+)?$/;

interface BegunWith {
  readonly hasBegun: boolean;
  /** What each recorded environment names; nothing in those that an older version recorded. */
  readonly environments: readonly Partial<EnvironmentNames>[];
}

async function begunWith({ store }: BindingParts, row: InboxRow): Promise<BegunWith> {
  const { sessionId, turnId, plan } = row;
  const progress = decodeProgress(row.progress, `turn ${turnId}`);
  const part = partId(turnId, progress?.switches ?? 0);
  const records = (await store.journal?.read(sessionId, part)) ?? [];
  const made = records.flatMap(({ key, outcome }) =>
    ENVIRONMENT.test(key) ? refOf((outcome as JsonObject | undefined)?.value) : [],
  );
  const refs = made.length > 0 || progress !== undefined ? made : refOf(plan);
  const names = await Promise.all([...new Set(refs)].map((ref) => environmentNames(store, ref)));
  return {
    hasBegun: records.length > 0 || progress !== undefined,
    environments: names.flatMap((named) => named ?? []),
  };
}

function refOf(value: Json | undefined): readonly string[] {
  return isJsonObject(value) && typeof value.ref === "string" ? [value.ref] : [];
}

function hasPlugin({ plugins }: BindingParts, id: string): boolean {
  return plugins.plugins.some((plugin) => plugin.id === id);
}

function pluginNamed(id: string): string {
  return `plugin ${id}`;
}
