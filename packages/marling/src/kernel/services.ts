// What the kernel offers to plugins. A session reaches itself and its descendants, and nothing else.

import type { DirectCompletionHost, TurnHost } from "../model/session-host.ts";
import {
  type AppendNodesRequest,
  type HostServices,
  type HostView,
  type HostViewName,
  hostEnded,
  hostView,
  type RefuseHost,
  type ToolCatalogHost,
  type ToolStateHost,
  type TraceHost,
} from "../plugin/host-services.ts";
import type { SessionCreateRequest } from "../plugin/session-create.ts";
import type { AvailabilityTier } from "../tool/contract.ts";
import type { ToolRegistry } from "../tool/registry.ts";
import { appendNodes } from "./append-nodes.ts";
import { isUnbound } from "./bindings.ts";
import { ChildTurns } from "./child-turns.ts";
import { completionText, directCompletion } from "./direct-completion.ts";
import type { ResidentSession } from "./resident-session.ts";
import { reach } from "./session-reach.ts";
import { changeTools, commitTools, type ToolChange } from "./session-tools.ts";
import type { TurnRun } from "./turn-run.ts";
import { monitorServices, taskServices, triggerServices } from "./work-host.ts";

type Reach = (id: string) => Promise<ResidentSession>;

/** The services of a session. Inside an effect of a turn they are part of it: see service-scope.ts. */
export function hostServices(session: ResidentSession, scope?: TurnRun): HostServices {
  const { sessions } = session.parts;
  const target = reachIn(session, scope);
  return Object.freeze({
    snapshotCurrent: async () => session.readView(),
    snapshotSession: async (id: string) => (await target(id)).readView(),
    ...toolServices(session, target),
    createSession: (request: SessionCreateRequest) => sessions.create(request, session, scope),
    closeSession: (id: string) => sessions.close(id, session),
    takeFirstTurnInput: (id: string) => sessions.takeFirstTurnInput(id, session),
    ...turnServices(session, scope),
    ...taskServices(session, target, scope),
    ...monitorServices(target),
    ...triggerServices(session, target),
    appendSessionNodes: async (id: string, request: AppendNodesRequest) =>
      appendNodes(await target(id), request),
    ...directServices(session, scope),
    ...traceServices(session),
  });
}

/** Sessions that this one may reach. What a turn has opened is let go with it (OS3). */
function reachIn(session: ResidentSession, scope: TurnRun | undefined): Reach {
  return async (id) => {
    const target = await reach(session, id).catch((thrown: unknown) => {
      if (isUnbound(thrown)) scope?.control.lose(thrown); // As CT5.
      throw thrown;
    });
    if (target !== session) scope?.below.add(target.id);
    return target;
  };
}

function toolServices(session: ResidentSession, reached: Reach): ToolCatalogHost & ToolStateHost {
  // What plugins do to their own session while it works is committed with that work.
  const tools = async (id: string, change: ToolChange): Promise<number> => {
    const target = await reached(id);
    const isAtWork = target === session && session.writer.length > 0;
    return isAtWork ? changeTools(target, change) : commitTools(target, change);
  };
  return {
    toolCatalog: async (id) => (await reached(id)).toolCatalog(),
    toolState: async (id) => (await reached(id)).plugins.toolRegistry.exportState(),
    applyToolState: (id, state) => tools(id, (registry) => registry.applyState(state)),
    setToolsAvailability: (id, names, tier) => tools(id, (registry) => setTier(registry, names, tier)),
    setToolAvailability: (id, name, tier) => tools(id, (registry) => registry.setAvailability([name], tier)),
    setToolMembership: (id, names, present) =>
      tools(id, (registry) => registry.setMembership(names, present)),
  };
}

/** Whoever sets the tiers of tools applies a state, also when it is that of no tools. */
function setTier(registry: ToolRegistry, names: readonly string[], tier: AvailabilityTier | null): number {
  const generation = registry.setAvailability(names, tier);
  return names.length > 0 ? generation : registry.applyState(registry.exportState());
}

/** Turns of sessions below. While a hook waits for one, its time does not run. */
function turnServices(session: ResidentSession, scope: TurnRun | undefined): TurnHost {
  const { limit } = session.plugins.runner;
  const turns = new ChildTurns(session, scope);
  return {
    startTurnStream: (id, input, options) => turns.start(id, input, options),
    awaitTurn: (turnId) => limit.during(() => turns.await(turnId)),
    cancelTurn: (turnId) => turns.cancel(turnId),
    startTurn: async (id, input, options) => {
      const { turnId } = await turns.start(id, input, options);
      return limit.during(() => turns.await(turnId));
    },
  };
}

function directServices(session: ResidentSession, scope: TurnRun | undefined): DirectCompletionHost {
  const { limit } = session.plugins.runner;
  const direct: DirectCompletionHost["directLlmCompletion"] = (request, usageSource) =>
    limit.during(() => directCompletion(session, request, { usageSource, scope }));
  return {
    directCompletion: async (request, usageSource) => {
      const completion = await direct(request, usageSource);
      return { text: completionText(completion), usage: completion.usage, model: completion.model };
    },
    directLlmCompletion: direct,
  };
}

function traceServices(session: ResidentSession): TraceHost {
  return {
    emitTrace: async ({ name, payload = null, context = {} }) => {
      session.trace?.custom(name, payload, context);
    },
  };
}

/** What a tool of a turn may ask for, until it is refused. */
export function hostIn<Name extends HostViewName>(
  scope: TurnRun,
  name: Name,
  refuse: RefuseHost,
): HostView<Name> {
  return hostView(hostServices(scope.session, scope), name, refuse);
}

/**
 * Calls hooks with a context that has what they may ask for, until they have answered. The host is made when it is asked
 * for: most hooks ask for nothing.
 */
export function withHost<Context extends object, Name extends HostViewName, Answer>(
  context: Context,
  { scope, name }: { readonly scope: TurnRun; readonly name: Name },
  ask: (context: Context & { readonly host: HostView<Name> }) => Promise<Answer>,
): Promise<Answer> {
  let host: HostView<Name> | undefined;
  let isOver = false;
  const refuse: RefuseHost = (service) => {
    if (isOver) throw hostEnded(service);
  };
  const get = (): HostView<Name> => {
    host ??= hostIn(scope, name, refuse);
    return host;
  };
  const end = (): void => {
    isOver = true;
  };
  const whole = Object.defineProperty(context, "host", { get, enumerable: true });
  return ask(whole as Context & { readonly host: HostView<Name> }).finally(end);
}
