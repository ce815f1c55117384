// The tools of a session: where they come from, which of them are members, and how a call reaches its provider.
//   TR10  every operation takes effect as a whole or not at all.
//   TR11  the generation moves when what would be exported moves, and with every applied state; it never goes back
//         except by a restore.
//   TR12  a member is bound, not opted out, not off, and not hidden. Hidden names are policy: no state carries them,
//         and neither membership nor a grant gets past them.

import { MarlingError, messageOf } from "../base/errors.ts";
import type { PendingResult, ToolOutput } from "../model/tool-output.ts";
import { AVAILABILITY_TIERS, isAvailabilityTier, tierReaches } from "./availability.ts";
import {
  brokenTool,
  grantedIdMismatch,
  grantsUnsupported,
  grantWithoutSource,
  hiddenGrant,
  orphanedTool,
  unavailableTool,
  uncallableTool,
  unknownTool,
} from "./call-refusal.ts";
import type {
  AvailabilityTier,
  ExecutableCall,
  ExecutionGrant,
  PrepareContext,
  PrepareResult,
  ToolCall,
  ToolContext,
  ToolContract,
  ToolKey,
  ToolManifest,
  ToolProvider,
  ToolSource,
  ToolState,
  ToolStateEntry,
  ToolValidator,
  ValidatedCall,
} from "./contract.ts";
import { executeWith, prepareWith } from "./provider-call.ts";
import {
  applied,
  EMPTY_VERSION,
  entryOf,
  type RegistryVersion,
  rebuilt,
  restored,
  type ToolSettings,
  withoutSourceOf,
  withSettings,
  withSources,
  withUnadvertised,
} from "./registry-version.ts";
import { RegisteredSource } from "./tool-source.ts";
import { decodeToolState, effectiveManifest, exportEntries, type ToolEntry, tierOf } from "./tool-state.ts";

export interface ToolRegistryOptions {
  readonly sources?: readonly { readonly id: string; readonly providers: readonly ToolProvider[] }[];
  /** Names that no member of this registry may have. */
  readonly hiddenTools?: Iterable<string>;
}

type Binding =
  | { readonly kind: "bound"; readonly provider: ToolProvider; readonly manifest: ToolManifest }
  | { readonly kind: "refused"; readonly output: ToolOutput };

const CONTEXT_SOURCE = "context";

export class ToolRegistry {
  #hiddenNames: ReadonlySet<string>;
  #version: RegistryVersion = EMPTY_VERSION;
  #liveSources = 0;
  #exported: ToolState | undefined;
  #members: readonly ToolManifest[] | undefined;

  /** Throws `duplicate_tool` when two sources offer one id or one name. */
  constructor(options: ToolRegistryOptions = {}) {
    this.#hiddenNames = new Set(options.hiddenTools ?? []);
    const given = (options.sources ?? []).map(({ id, providers }) => new RegisteredSource(id, providers));
    if (given.length > 0) this.#update((current) => withSources(current, given));
  }

  /** Names that no member has, whatever its state says. */
  get hiddenNames(): ReadonlySet<string> {
    return this.#hiddenNames;
  }

  /** Hides these names, and no others any more. That is policy and no state: the generation stays. */
  hide(names: Iterable<string>): void {
    this.#hiddenNames = new Set(names);
    this.#members = undefined;
  }

  get generation(): number {
    return this.#version.generation;
  }

  /** The members, ordered by tool id, each with the tier that holds. */
  manifests(): readonly ToolManifest[] {
    this.#members ??= Object.freeze(this.#listed((entry) => this.#isMember(entry)));
    return this.#members;
  }

  /** Every known tool, ordered by tool id: opted out, hidden and orphaned ones included. */
  allManifests(): readonly ToolManifest[] {
    return this.#listed(() => true);
  }

  has(name: string): boolean {
    const entry = entryOf(this.#version, { name });
    return entry !== undefined && this.#isMember(entry);
  }

  /**
   * A tool by name or id. What is not known yet is asked of the sources and kept, which moves the generation; for an
   * orphan the sources are read again. Nothing when no source has it; throws `ambiguous_tool` when several have.
   */
  resolve(key: ToolKey): ToolManifest | undefined {
    const entry = this.#lookUp(key);
    return entry?.sourceId === undefined ? undefined : effectiveManifest(entry.state);
  }

  contract(name: string): ToolContract | undefined {
    return this.#providerNamed(name)?.contract(name);
  }

  /** The provider's own check; without one, the input schema of the contract is to be checked. */
  validator(name: string): ToolValidator | undefined {
    return this.#providerNamed(name)?.validator?.(name);
  }

  /** The provider's check of results that arrive later. */
  outputValidator(name: string): ToolValidator | undefined {
    return this.#providerNamed(name)?.outputValidator?.(name);
  }

  providerOf(toolId: string): ToolProvider | undefined {
    const sourceId = this.#version.entries.get(toolId)?.sourceId;
    return sourceId === undefined ? undefined : this.#version.sources.get(sourceId)?.providerOf(toolId);
  }

  /** Prepares a call of a member. Never rejects: what stands in the way is a completed call. */
  async prepare(call: ValidatedCall, context: PrepareContext): Promise<PrepareResult> {
    const binding = this.#bind(call);
    if (binding.kind === "refused") return { kind: "completed", output: binding.output };
    const { provider, manifest } = binding;
    return prepareWith(
      provider.prepare?.bind(provider),
      { ...call, toolId: manifest.id, name: manifest.name },
      context,
    );
  }

  /** Runs one attempt of a call of a member. Never rejects. */
  execute(call: ExecutableCall, context: ToolContext): Promise<ToolOutput | PendingResult> {
    const binding = this.#bind(call);
    if (binding.kind === "refused") return Promise.resolve(binding.output);
    const { provider, manifest } = binding;
    return executeWith(
      provider.execute.bind(provider),
      { ...call, toolId: manifest.id, name: manifest.name },
      context,
    );
  }

  /** What the source of a grant offers under its id now, which is what would run. Changes no state. */
  offered({ manifest, sourceId }: ExecutionGrant): ToolManifest | undefined {
    const source = sourceId === undefined ? undefined : this.#version.sources.get(sourceId);
    return source?.resolve({ id: manifest.id });
  }

  /** Prepares a call that a grant authorises, with the grant's binding in its context. Changes no state. */
  async prepareGranted(
    grant: ExecutionGrant,
    call: ValidatedCall,
    context: PrepareContext,
  ): Promise<PrepareResult> {
    const binding = this.#bindGrant(grant, call);
    if (binding.kind === "refused") return { kind: "completed", output: binding.output };
    const { provider, manifest } = binding;
    const bound = { ...context, binding: grant.binding };
    return prepareWith(provider.prepareGranted?.bind(provider), { ...call, name: manifest.name }, bound);
  }

  /** Runs one attempt of a call that a grant authorises, with the grant's binding in its context. Changes no state. */
  async executeGranted(
    grant: ExecutionGrant,
    call: ExecutableCall,
    context: ToolContext,
  ): Promise<ToolOutput | PendingResult> {
    const binding = this.#bindGrant(grant, call);
    if (binding.kind === "refused") return binding.output;
    const { provider, manifest } = binding;
    const execute = provider.executeGranted?.bind(provider) ?? (() => grantsUnsupported(manifest.name));
    return executeWith(execute, { ...call, name: manifest.name }, { ...context, binding: grant.binding });
  }

  /** The registry as plain data; the same object until something moves. */
  exportState(): ToolState {
    this.#exported ??= exportEntries(this.#version.generation, this.#version.entries);
    return this.#exported;
  }

  /** Puts a state in the place of the current one and returns the new generation. Throws `generation_mismatch`. */
  applyState(state: ToolState): number {
    const decoded = decodeToolState(state);
    this.#update((current) => applied(current, decoded));
    return this.generation;
  }

  /** Takes over a stored state: its generation, and its settings for the tools that are there now. */
  restoreState(state: ToolState): { readonly generation: number; readonly orphaned: readonly string[] } {
    const decoded = decodeToolState(state);
    this.#update((current) => restored(current, decoded));
    const orphans = [...this.#version.entries].filter(([, { sourceId }]) => sourceId === undefined);
    return { generation: this.generation, orphaned: orphans.map(([id]) => id) };
  }

  /** An independent registry with the same sources and a given state. It hides what this one hides, and more. */
  forkWithState(state: ToolState, options: { readonly hiddenTools?: Iterable<string> } = {}): ToolRegistry {
    const { generation, tools } = decodeToolState(state);
    const { sources, preferred } = this.#version;
    const fork = new ToolRegistry({ hiddenTools: [...this.hiddenNames, ...(options.hiddenTools ?? [])] });
    fork.#update((empty) =>
      restored({ ...empty, sources, preferred }, { generation: Math.max(1, generation), tools }),
    );
    return fork;
  }

  /** Adds a source or replaces it. A preferred source has the tools that it shares with others. */
  upsertSource(
    id: string,
    providers: readonly ToolProvider[],
    options: { readonly preferred?: boolean } = {},
  ): void {
    const source = new RegisteredSource(id, providers);
    this.#update((current) => withSources(current, [source], options));
  }

  /** Adds a provider of the host under an id of its own. */
  addLive(provider: ToolProvider): ToolSource {
    const id = `live:${this.#liveSources + 1}`;
    this.upsertSource(id, [provider]);
    this.#liveSources += 1;
    const remove = (): void => {
      if (this.#version.sources.has(id)) this.removeSource(id);
    };
    return Object.freeze({ id, remove });
  }

  /** Takes a source away with its tools and their settings. Throws `unknown_tool_source`. */
  removeSource(id: string): void {
    this.#update((current) => withoutSourceOf(current, id));
  }

  /** Reads the sources again. */
  refresh(): void {
    if (!this.#isSettled()) this.#update(rebuilt);
  }

  /** A separate registry for one session's context: its tools before those of this registry, or instead of them. */
  compose(options: {
    readonly includeBase: boolean;
    readonly providers: readonly ToolProvider[];
  }): ToolRegistry {
    const { includeBase, providers } = options;
    if (includeBase) this.refresh();
    const composed = includeBase
      ? this.forkWithState(this.exportState())
      : new ToolRegistry({ hiddenTools: this.hiddenNames });
    if (providers.length > 0) composed.upsertSource(CONTEXT_SOURCE, providers, { preferred: true });
    return composed;
  }

  /** Opts tools in or out by name and returns the new generation. Throws `unknown_tool` before anything changes. */
  setMembership(names: readonly string[], present: boolean): number {
    return this.#change(names, ({ availability }) => ({
      ...(present ? {} : { member: false as const }),
      ...(availability === undefined ? {} : { availability }),
    }));
  }

  /** Overrides the tier of tools by name, or clears it with null, and returns the new generation. */
  setAvailability(names: readonly string[], tier: AvailabilityTier | null): number {
    if (tier !== null && !isAvailabilityTier(tier)) {
      const expected = `null or one of ${AVAILABILITY_TIERS.join(", ")}`;
      throw new MarlingError(
        "invalid_tool_state",
        `availability: expected ${expected}, found ${String(tier)}`,
      );
    }
    return this.#change(names, ({ member }) => ({
      ...(member === undefined ? {} : { member }),
      ...(tier === null ? {} : { availability: tier }),
    }));
  }

  /** Whether reading the sources again could change nothing: every entry is one that a settled source advertises. */
  #isSettled(): boolean {
    const { sources, entries } = this.#version;
    let size = 0;
    for (const source of sources.values()) {
      const settled = source.settledSize();
      if (settled === undefined) return false;
      size += settled;
    }
    return size === entries.size;
  }

  #listed(accepts: (entry: ToolEntry) => boolean): readonly ToolManifest[] {
    return [...this.#version.entries.values()].filter(accepts).map(({ state }) => effectiveManifest(state));
  }

  #isMember({ state, sourceId }: ToolEntry): boolean {
    if (sourceId === undefined || state.member === false || tierOf(state) === "off") return false;
    return !this.hiddenNames.has(state.manifest.name);
  }

  /** The entry of a tool after every way to find it was tried; an orphan only if its source is still missing. */
  #lookUp(key: ToolKey): ToolEntry | undefined {
    const known = entryOf(this.#version, key);
    if (known?.sourceId !== undefined) return known;
    this.#update((current) => (known === undefined ? withUnadvertised(current, key) : rebuilt(current)));
    return entryOf(this.#version, key);
  }

  #providerNamed(name: string): ToolProvider | undefined {
    const manifest = this.resolve({ name });
    return manifest === undefined ? undefined : this.providerOf(manifest.id);
  }

  #bind({ toolId, name }: ToolCall): Binding {
    const key = toolId === "" ? { name } : { id: toolId };
    try {
      const entry = this.#lookUp(key);
      if (entry === undefined) return refused(unknownTool(name));
      const { manifest } = entry.state;
      if (entry.sourceId === undefined) return refused(orphanedTool(manifest.name));
      if (!this.#isMember(entry)) return refused(unavailableTool(manifest.name));
      if (!tierReaches(tierOf(entry.state), "callable")) return refused(uncallableTool(manifest.name));
      const provider = this.providerOf(manifest.id);
      return provider === undefined
        ? refused(orphanedTool(manifest.name))
        : { kind: "bound", provider, manifest };
    } catch (error) {
      return refused(brokenTool(messageOf(error)));
    }
  }

  #bindGrant(grant: ExecutionGrant, call: ToolCall): Binding {
    const { manifest, sourceId } = grant;
    const { id, name } = manifest;
    if (call.toolId !== id) return refused(grantedIdMismatch(id, call.toolId));
    try {
      const source = sourceId === undefined ? undefined : this.#version.sources.get(sourceId);
      const offered = this.offered(grant);
      const provider = source?.providerOf(id);
      if (this.hiddenNames.has(name) || this.hiddenNames.has(offered?.name ?? name))
        return refused(hiddenGrant(name));
      if (provider === undefined) return refused(grantWithoutSource(name, sourceId));
      return provider.executeGranted === undefined
        ? refused(grantsUnsupported(name))
        : { kind: "bound", provider, manifest };
    } catch (error) {
      return refused(brokenTool(messageOf(error)));
    }
  }

  #change(names: readonly string[], settings: (state: ToolStateEntry) => ToolSettings): number {
    if (names.length > 0) this.#update((current) => withSettings(current, names, settings));
    return this.generation;
  }

  /** TR10: the next version is made aside. A provider that changes the registry while it is asked is refused. */
  #update(make: (current: RegistryVersion) => RegistryVersion): void {
    const current = this.#version;
    const next = make(current);
    if (this.#version !== current) {
      const message =
        "tools: expected the registry to hold still, found it changed by a provider that was asked";
      throw new MarlingError("generation_mismatch", message);
    }
    this.#version = next;
    if (next.entries === current.entries && next.generation === current.generation) return;
    this.#exported = undefined;
    this.#members = undefined;
  }
}

function refused(output: ToolOutput): Binding {
  return { kind: "refused", output };
}
